"""Any model of Transformers as a subject of the searches: it computes, on a given device.

The model is a Hugging Face folder, a GGUF file, or one that packages carry. Unlike the engines of
this project, which know a few families, this takes every model whose layers ``tilewright.torch``
can convert. A model larger than a GPU's memory is kept where ``accelerate`` puts it and comes onto
the GPU layer by layer.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.harmonia.llm_format import HarmoniaFormat
from tilewright.golden.llm.formats import BlockSites
from tilewright.golden.llm.load import SMOLLM2
from tilewright.golden.llm.sites import LINEAR_SITES, PLAIN, Format
from tilewright.golden.llm.start import begun
from tilewright.golden.llm.text import default_text, digest, read_text
from tilewright.golden.params.block import require
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.families import shape_of
from tilewright.sim.models import CONFIG, resolve_model
from tilewright.studies.accuracy.encoding import Encoding, encoding_of
from tilewright.studies.accuracy.harmonia import LEARNING_SEQUENCES, LEARNING_TOKENS
from tilewright.studies.accuracy.packaged import PACKAGED, model_path
from tilewright.studies.accuracy.subject import (
    DEFAULT_TEXT,
    WEIGHT_BITS,
    WEIGHT_GROUP,
    WEIGHTS,
    Identity,
    Subject,
    windows_of,
)
from tilewright.torch.config import AndaConfig, HarmoniaConfig
from tilewright.torch.recipe import Recipe

__all__ = [
    *("DEVICES", "FolderEvaluation", "Smoothed", "cache_recipe", "config_of", "open_folder"),
    *("recipe_for", "smoothed_folder", "takes_factors"),
]

DEVICES = ("cpu", "cuda")


def config_of(fmt: Format) -> AndaConfig | HarmoniaConfig | None:
    """What ``quantize_`` takes for a format of the golden engine; weights are left as they are."""
    if fmt is PLAIN:
        return None
    if isinstance(fmt, HarmoniaFormat):
        lengths = {*fmt.linear_bits, fmt.query_bits, fmt.weight_bits}
        require(len(lengths) == 1, "activations outside the cache must have one mantissa length")
        return HarmoniaConfig(
            activation_bits=lengths.pop(),
            group=fmt.group,
            initial=fmt.cache.initial,
            local=fmt.cache.local,
            key_bits=fmt.cache.key_bits,
            value_bits=fmt.cache.value_bits,
            offset_channels=fmt.cache.offset_channels,
            weight_bits=None,
            weight_group=fmt.group,
            pad=True,
        )
    if isinstance(fmt, BlockSites) and set(fmt.lengths) == set(LINEAR_SITES):
        qkv, o, u, d = (fmt.lengths[site] for site in LINEAR_SITES)
        return AndaConfig(
            qkv, o, u, d, group=fmt.group, weight_bits=None, weight_group=fmt.group, pad=True
        )
    raise ValueError(f"no form of {type(fmt).__name__} for models of Transformers")


class Smoothed(NamedTuple):
    """A model of Transformers, and the factors that its keys get with a format."""

    model: Any
    factors: Mapping[str, list[list[float]]]


class FolderEvaluation:
    """Perplexity of a model of Transformers on one text, for one format after the other."""

    def __init__(self, model: Any, tokens: NDArray[np.int64], window: int):
        smooth = isinstance(model, Smoothed)
        self.model: Any = model.model if smooth else model
        self.factors: Mapping[str, list[list[float]]] | None = model.factors if smooth else None
        self.sequences = tokens[: len(tokens) // window * window].reshape(-1, window)

    def perplexity(
        self, fmt: Format = PLAIN, progress: Callable[[int, int], None] | None = None
    ) -> float:
        """``progress`` is called after every window."""
        from tilewright.torch import perplexity, quantize_, restore_, smooth_

        config = config_of(fmt)
        if config is not None:
            quantize_(self.model, config)
        try:
            if self.factors is not None:
                smooth_(self.model, self.factors)
            ids = self.sequences.reshape(-1).tolist()
            return perplexity(self.model, ids, self.sequences.shape[1], progress)
        finally:
            if config is not None:
                restore_(self.model)


def open_folder(
    source: str,
    *,
    device: str,
    text: Path | None = None,
    tokens: int,
    window: int,
    weights: str = "file",
) -> Subject:
    """A subject whose model, a folder or a file, is computed by Transformers on ``device``."""
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError:
        raise CommandError("--device needs PyTorch: pip install 'tilewright[torch]'") from None
    if device not in DEVICES:
        raise CommandError(f"--device must be {' or '.join(DEVICES)}, not {device!r}")
    if device == "cuda" and not torch.cuda.is_available():
        raise CommandError("--device cuda: PyTorch finds no CUDA device here")
    if weights not in ("file", "nearest"):
        raise CommandError(
            "--device: weights are rounded to nearest or left as in the file; give"
            " --weights nearest or --weights file"
        )
    path = model_path(source)
    if not (path / CONFIG).is_file() and not path.is_file():
        names = ", ".join((SMOLLM2, *PACKAGED))
        raise CommandError(
            f"{source}: --device takes a Hugging Face folder with a {CONFIG}, a GGUF file,"
            f" or {names}"
        )
    require(window >= 2, f"window must be at least 2 tokens, not {window}")
    require(tokens >= window, f"{tokens} tokens are fewer than a window of {window}")
    if path.is_dir():
        resolve_model(str(path))  # refused before weights are read
    model, encoding = _loaded(AutoModelForCausalLM, AutoTokenizer, path, device)
    shape = _shape(path, model)
    if weights == "nearest":
        _round_weights(model)
    words = default_text() if text is None else read_text(text)
    start = encoding.start.before_text
    ids = begun(np.array(encoding.encode(words), np.int64), start, window)
    known = len(model.get_input_embeddings().weight)
    if ids.max(initial=0) >= known:
        raise CommandError(
            f"{path}: the tokenizer gives token {ids.max()}, the model has embeddings of {known}:"
            " the two do not belong together"
        )
    first, second = windows_of(len(ids), tokens, window)
    held = ids[first * window : (first + second) * window]
    # The studies ask a subject's model for its shape alone.
    stand_in = cast(Any, SimpleNamespace(config=shape, layers=(), name=shape.name))
    return Subject(
        original=stand_in,
        model=stand_in,
        tokens=ids,
        window=window,
        weights=weights,
        engine=cast(Any, FolderEvaluation),
        calibration=cast(Any, FolderEvaluation(model, ids[: first * window], window)),
        validation=cast(Any, FolderEvaluation(model, held, window)) if second else None,
        identity=Identity(
            model=shape.name,
            model_digest=_digest(model),
            weights=WEIGHTS[weights],
            text=DEFAULT_TEXT if text is None else text.name,
            text_digest=digest(words),
            window=window,
            calibration_tokens=first * window,
            validation_tokens=second * window,
            start=start,
        ),
    )


def takes_factors(subject: Subject) -> bool:
    """Whether factors fit the model's attention: none pass the norm of a query or a key."""
    from tilewright.torch.smoothing import factors_fit

    return factors_fit(_model_of(subject))


def smoothed_folder(
    subject: Subject,
    *,
    steps: int,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Smoothed:
    """The model with factors that were learned on its calibration text."""
    from tilewright.torch import learn_factors

    length = min(LEARNING_TOKENS, subject.window)
    sequences = subject.calibration.sequences[:LEARNING_SEQUENCES, :length].tolist()
    model = _model_of(subject)
    factors = learn_factors(model, sequences, steps=steps, seed=seed, progress=progress)
    return Smoothed(model, factors)


def recipe_for(subject: Subject, lengths: Sequence[int]) -> Recipe:
    """The recipe that puts these lengths, and the subject's weights, into its model."""
    qkv, o, u, d = lengths
    return _recipe(subject, AndaConfig(qkv, o, u, d, weight_bits=None, pad=True))


def cache_recipe(subject: Subject, fmt: HarmoniaFormat, factors: Smoothed | None = None) -> Recipe:
    """The recipe of a form of Harmonia's cache, with the factors that it was measured with."""
    config = config_of(fmt)
    assert config is not None  # only full precision has none
    made = _recipe(subject, config)
    return made if factors is None else replace(made, smoothing=dict(factors.factors))


def _recipe(subject: Subject, config: AndaConfig | HarmoniaConfig) -> Recipe:
    from tilewright.torch.quantize import quantize_, restore_

    model = _model_of(subject)
    # The model's weights are rounded already: the recipe is for the model as its folder has it.
    recipe = quantize_(model, config)
    restore_(model)
    if subject.weights != "nearest":
        return recipe
    return replace(
        recipe, config=replace(config, weight_bits=WEIGHT_BITS, weight_group=WEIGHT_GROUP)
    )


def _model_of(subject: Subject) -> Any:
    if not isinstance(subject.calibration, FolderEvaluation):
        raise CommandError("a recipe is of a model of Transformers: give --device")
    return subject.calibration.model


def _loaded(models: Any, tokenizers: Any, path: Path, device: str) -> tuple[Any, Encoding]:
    """Weights of a GGUF file become float32; those of a folder keep their dtype."""
    import torch

    place: dict[str, Any] = {"device_map": "auto"} if device == "cuda" else {}
    source, options = path, dict[str, Any](local_files_only=True)
    if path.is_file():
        source, options = path.parent, {**options, "gguf_file": path.name}
        place["dtype"] = torch.float32
    try:
        model = models.from_pretrained(source, **options, **place)
        encoding = encoding_of(path, tokenizers)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        line = str(error).strip().splitlines()[0]
        raise CommandError(f"{path}: Transformers cannot read it: {line}") from None
    return model.eval(), encoding


def _shape(path: Path, model: Any) -> LlmShape:
    """The model's shape, named as its folder or file is."""
    if path.is_dir():
        return replace(resolve_model(str(path)), name=path.name)
    fields = json.loads(model.config.to_json_string())  # what a folder's file would have
    public = {name: value for name, value in fields.items() if not name.startswith("_")}
    return replace(shape_of(str(path), public), name=path.stem)


def _round_weights(model: Any) -> None:
    """int4 weights by groups, rounded to nearest, in place."""
    import torch

    from tilewright.torch.convert import quantise_integers
    from tilewright.torch.placement import weight_of
    from tilewright.torch.quantize import linear_modules

    with torch.no_grad():
        for name, (_, module) in linear_modules(model).items():
            weight = weight_of(module)
            rounded = quantise_integers(weight, WEIGHT_BITS, WEIGHT_GROUP).dequantised()
            weight.copy_(rounded)
            if not torch.equal(weight_of(module), rounded.to(weight.dtype)):
                raise CommandError(
                    f"{name}: its weights lie on disk and cannot be rounded: give --weights file"
                )


def _digest(model: Any) -> str:
    """A digest of the embeddings: enough to tell models apart."""
    from hashlib import sha256

    from tilewright.torch.placement import weight_of

    weight = weight_of(model.get_input_embeddings()).float().cpu().numpy()
    return sha256(np.ascontiguousarray(weight).data).hexdigest()[:16]
