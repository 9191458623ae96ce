"""A model of Transformers, its weights as a machine has them, and two pieces of text.

The text's first tokens are for calibration: searches look at them, factors are learned on them. The
tokens after them are for validation alone. PyTorch computes, on a given device, every model whose
layers ``tilewright.torch`` can convert.
"""

import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic
from tilewright.golden.llm.load import NAMES, TINY
from tilewright.golden.llm.start import Start, begun
from tilewright.golden.llm.text import default_text, digest, read_text
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.llm.weights import CALIBRATION_WINDOW, searched
from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.names import unknown
from tilewright.golden.weights import dequantise
from tilewright.sim.families import shape_of
from tilewright.sim.models import resolve_model
from tilewright.studies.accuracy.checkpoints import (
    PACKAGED,
    Encoding,
    encoding_of,
    model_path,
    read_model,
    transformers_model,
)
from tilewright.torch.config import AndaConfig, Config, HarmoniaConfig
from tilewright.torch.recipe import Factors, Recipe


class Evaluations:
    """Perplexities by name; without a path they are remembered for this run alone."""

    def __init__(self, path: Path | None, identity: dict[str, Any]):
        self.path = path
        self.identity = json.loads(json.dumps(identity))  # as the file returns it
        self.found: dict[str, Any] = {}  # perplexities, and answers of tasks as digits
        if path is not None and path.exists():
            self.found = self._read(path)

    def __call__(self, name: str, measure: Callable[[], Any]) -> Any:
        """Return what is called ``name``; it is measured if it is not known yet."""
        if name not in self.found:
            self.found[name] = measure()
            if self.path is not None:
                content = {"subject": self.identity, "perplexities": self.found}
                write_atomic(self.path, json.dumps(content, indent=2) + "\n")
        return self.found[name]

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            stored = json.loads(path.read_text())
            subject = dict(stored["subject"])
            found = dict(stored["perplexities"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CommandError(f"{path} is no log of perplexities: {error!r}") from None
        for key in sorted({*subject, *self.identity}):
            here, there = self.identity.get(key), subject.get(key)
            if here != there:
                raise CommandError(
                    f"{path} belongs to another subject: its {key} is {there!r}, not {here!r}"
                )
        return found


DEFAULT_TEXT = f"prose of the Python {sys.version_info.major}.{sys.version_info.minor} reference"
DEVICES = ("cpu", "cuda")

WEIGHT_BITS, WEIGHT_GROUP = 4, 128  # starting point of all papers
SCALE_TOKENS = 2048  # of calibration text that scales of weights are searched on
WEIGHTS = {  # how the weights are made -> in words
    "nearest": f"int{WEIGHT_BITS}, groups of {WEIGHT_GROUP}, rounded to nearest",
    "search": f"int{WEIGHT_BITS}, groups of {WEIGHT_GROUP}, scales searched",
    "file": "as in the file",
}
Smoothing = Mapping[str, Factors]  # factors of K by attention module


@dataclass(frozen=True)
class Identity:
    """Properties that distinguish subjects; every record and log begins with them."""

    model: str
    model_digest: str
    weights: str  # in words
    text: str
    text_digest: str
    window: int  # tokens
    calibration_tokens: int
    validation_tokens: int
    start: int | None = None  # the token that begins every window, if the model needs one


@dataclass
class Subject:
    """A model and its text; ``evaluations`` remembers perplexities by name."""

    model: Any  # of Transformers, weights as asked for
    shape: LlmShape
    encode: Callable[[str], list[int]]
    tokens: NDArray[np.int64]  # windows one after the other, each with its start
    weights: str  # one of WEIGHTS
    calibration: NDArray[np.int64]  # (windows, tokens)
    validation: NDArray[np.int64]  # none if the text has one window only
    identity: Identity
    reopened: Callable[[str], "Subject"]  # with weights of another kind
    evaluations: Evaluations = field(init=False)
    tell: Callable[[int, int], None] | None = None  # windows that are measured, and all
    shared: dict[str, Any] = field(default_factory=dict)  # what several experiments need

    def __post_init__(self) -> None:
        self.remember(None)

    def remember(self, path: Path | None) -> None:
        """Log perplexities in this file from now on, and reuse those in it."""
        self.evaluations = Evaluations(path, asdict(self.identity))

    def measure(
        self,
        name: str,
        config: Config | None,
        *,
        validation: bool = False,
        factors: Callable[[], Smoothing] | None = None,
        skip: Collection[str] = (),
    ) -> float:
        """Perplexity in the format ``name``; modules whose names end with one of ``skip`` stay."""
        part = "validation" if validation else "calibration"
        sequences = self.validation if validation else self.calibration
        if not len(sequences):
            raise ValueError("the text has one window only: nothing is left for validation")

        def perplexity() -> float:
            from tilewright.torch import perplexity

            with in_format(self.model, config, factors() if factors else None, skip):
                ids = sequences.reshape(-1)
                return perplexity(self.model, ids, sequences.shape[1], self.tell)

        return float(self.evaluations(f"{part}: {name}", perplexity))

    def recipe(
        self, config: AndaConfig | HarmoniaConfig, factors: Smoothing | None = None
    ) -> Recipe:
        """The recipe that puts a format and the subject's weights into the model of its file."""
        from tilewright.torch import recipe_of

        with in_format(self.model, config):
            found = recipe_of(self.model)
        if self.weights == "nearest":
            config = replace(config, weight_bits=WEIGHT_BITS, weight_group=WEIGHT_GROUP)
        return replace(found, config=config, smoothing=dict(factors or {}))


@contextmanager
def in_format(
    model: Any, config: Config | None, factors: Smoothing | None = None, skip: Collection[str] = ()
) -> Iterator[None]:
    """A model in a format, or as it is, for as long as the context lasts."""
    from tilewright.torch import quantize_, restore_, smooth_

    if config is None:
        yield
        return
    quantize_(model, config, skip=skip)
    try:
        if factors is not None:
            smooth_(model, factors)
        yield
    finally:
        restore_(model)


def open_subject(
    source: str,
    *,
    text: Path | None = None,
    tokens: int,
    window: int,
    weights: str = "search",
    device: str = "cpu",
    begin: bool = False,
) -> Subject:
    """A model by name or path, with ``tokens`` of text for calibration and as many to validate.

    Windows begin with the token that the tokenizer adds or, with ``begin``, could add.
    """
    if weights not in WEIGHTS:
        raise ValueError(unknown("weights", weights, WEIGHTS))
    if device not in DEVICES:
        raise CommandError(f"--device must be {' or '.join(DEVICES)}, not {device!r}")
    require(window >= 2, f"window must be at least 2 tokens, not {window}")
    require(tokens >= window, f"{tokens} tokens are fewer than a window of {window}")
    options: dict[str, Any] = {"text": text, "tokens": tokens, "window": window}
    options |= {"device": device, "begin": begin}
    words = default_text() if text is None else read_text(text)
    model, encoding, shape = _opened(source, device)
    start = encoding.start.token if begin else encoding.start.before_text
    ids = begun(np.array(encoding.encode(words), np.int64), start, window)
    known = len(model.get_input_embeddings().weight)
    if ids.max(initial=0) >= known:
        raise CommandError(
            f"{source}: the tokenizer gives token {ids.max()}, the model has embeddings of {known}:"
            " the two do not belong together"
        )
    longest = shape.max_position_embeddings
    require(
        window <= longest, f"a window of {window} tokens exceeds the model's context of {longest}"
    )
    first, second = windows_of(len(ids), tokens, window)
    whole = _digest(model)
    if weights != "file":
        _quantise(model, ids[:SCALE_TOKENS] if weights == "search" else None)
    pieces = ids[: (first + second) * window].reshape(-1, window)
    return Subject(
        model=model,
        shape=shape,
        encode=encoding.encode,
        tokens=ids,
        weights=weights,
        calibration=pieces[:first],
        validation=pieces[first:],
        identity=Identity(
            model=shape.name,
            model_digest=whole,
            weights=WEIGHTS[weights],
            text=DEFAULT_TEXT if text is None else text.name,
            text_digest=digest(words),
            window=window,
            calibration_tokens=first * window,
            validation_tokens=second * window,
            start=start,
        ),
        reopened=lambda other: open_subject(source, **options, weights=other),
    )


def windows_of(length: int, tokens: int, window: int) -> tuple[int, int]:
    """How many windows calibrate and how many validate: ``tokens`` each, half of a short text."""
    windows = length // window
    require(windows >= 1, f"the text has {length} tokens, fewer than a window of {window}")
    first = min(tokens // window, -(-windows // 2))
    return first, min(tokens // window, windows - first)


def _opened(source: str, device: str) -> tuple[Any, Encoding, LlmShape]:
    path = None if source in TINY else model_path(source)
    if path is not None and not path.exists():
        more = "or the path of a GGUF file or of a Hugging Face folder"
        raise ValueError(unknown("model", source, (*NAMES, *PACKAGED), more))
    try:
        import torch
        from transformers import AutoTokenizer
    except ImportError:
        raise CommandError(
            "perplexities are computed by PyTorch: pip install 'tilewright[torch]'"
        ) from None
    if device == "cuda" and not torch.cuda.is_available():
        raise CommandError("--device cuda: PyTorch finds no CUDA device here")
    if path is None:
        tiny = tiny_model(TINY[source])
        # Tiny models have no tokenizer: a token is a character, 127 whatever is not ASCII.
        encoding = Encoding(lambda text: [min(ord(letter), 127) for letter in text], Start())
        return transformers_model(tiny).to(device), encoding, tiny.config
    if path.is_dir():
        shape = replace(resolve_model(str(path)), name=path.name)  # refused before weights are read
        return read_model(path, device), encoding_of(path, AutoTokenizer), shape
    model, encoding = read_model(path, device), encoding_of(path, AutoTokenizer)
    fields = json.loads(model.config.to_json_string())  # what a folder's file would have
    public = {name: value for name, value in fields.items() if not name.startswith("_")}
    return model, encoding, replace(shape_of(str(path), public), name=path.stem)


def _quantise(model: Any, text: NDArray[np.int64] | None) -> None:
    """int4 weights by groups, in place: rounded to nearest, or scales searched on a text."""
    import torch

    from tilewright.torch.convert import quantise_integers
    from tilewright.torch.modules import weight_of
    from tilewright.torch.quantize import linear_modules

    modules = {name: module for name, (_, module) in linear_modules(model).items()}
    squares = {} if text is None else _mean_squares(model, modules, text)
    with torch.no_grad():
        for name, module in modules.items():
            weight = weight_of(module)
            if text is None:
                rounded = quantise_integers(weight, WEIGHT_BITS, WEIGHT_GROUP).dequantised()
            else:
                matrix = weight.float().cpu().numpy()
                found = searched(matrix, squares[name], WEIGHT_BITS, WEIGHT_GROUP)
                rounded = torch.from_numpy(dequantise(found).astype(np.float32)).to(weight.device)
            weight.copy_(rounded)
            if not torch.equal(weight_of(module), rounded.to(weight.dtype)):
                raise CommandError(
                    f"{name}: its weights lie on disk and cannot be rounded: give --weights file"
                )


def _mean_squares(
    model: Any, modules: Mapping[str, Any], text: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    import torch

    from tilewright.torch.modules import device_of

    found: dict[str, Any] = {}

    def watch(name: str) -> Callable[[Any, Sequence[Any]], None]:
        def add(_: Any, inputs: Sequence[Any]) -> None:
            squares = inputs[0].double().square().flatten(0, -2).sum(0)
            found[name] = found.get(name, 0) + squares

        return add

    window = min(CALIBRATION_WINDOW, len(text), model.config.max_position_embeddings)
    windows = text[: len(text) // window * window].reshape(-1, window)
    hooks = [module.register_forward_pre_hook(watch(name)) for name, module in modules.items()]
    try:
        with torch.inference_mode():
            for ids in windows:
                tokens = torch.from_numpy(ids)[None].to(device_of(model))
                model(input_ids=tokens, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return {name: total.cpu().numpy() / windows.size for name, total in found.items()}


def _digest(model: Any) -> str:
    """A digest of the embeddings: enough to tell models apart."""
    from tilewright.torch.modules import weight_of

    weight = weight_of(model.get_input_embeddings()).float().cpu().numpy()
    return sha256(np.ascontiguousarray(weight).data).hexdigest()[:16]
