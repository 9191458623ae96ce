"""A model, its weights as a machine has them, and two pieces of text: calibration and validation.

The text's first tokens are for calibration: searches look at them, factors are learned on them. The
tokens after them are for validation alone.
"""

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.llm.engine import Evaluation
from tilewright.golden.llm.load import NAMES, load_model
from tilewright.golden.llm.model import Model, ModelError
from tilewright.golden.llm.sites import Format
from tilewright.golden.llm.start import begun
from tilewright.golden.llm.text import default_text, digest, read_text
from tilewright.golden.llm.weights import quantised
from tilewright.golden.params.block import require
from tilewright.golden.params.names import unknown
from tilewright.studies.accuracy.evaluations import Evaluations
from tilewright.studies.accuracy.packaged import PACKAGED, packaged_path

__all__ = [
    *("ENGINES", "WEIGHTS", "Identity", "Subject"),
    *("engine_class", "engine_for", "open_subject", "windows_of"),
]

DEFAULT_TEXT = f"prose of the Python {sys.version_info.major}.{sys.version_info.minor} reference"
ENGINES = ("auto", "numpy", "torch")

WEIGHT_BITS, WEIGHT_GROUP = 4, 128  # what all the papers start from
SCALE_TOKENS = 2048  # of calibration text that scales of weights are searched on
WEIGHTS = {  # how the weights are made -> in words
    "nearest": f"int{WEIGHT_BITS}, groups of {WEIGHT_GROUP}, rounded to nearest",
    "search": f"int{WEIGHT_BITS}, groups of {WEIGHT_GROUP}, scales searched",
    "file": "as in the file",
}


@dataclass(frozen=True)
class Identity:
    """What tells one subject from another; every record and log begins with it."""

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
    """What perplexities are measured on; ``evaluations`` remembers them by name."""

    original: Model  # weights as in the file
    model: Model  # weights as asked for
    tokens: NDArray[np.int64]  # windows one after the other, each with its start
    window: int
    weights: str  # one of WEIGHTS
    calibration: Evaluation
    validation: Evaluation | None  # None if the text has one window only
    identity: Identity
    engine: type[Evaluation] = Evaluation
    evaluations: Evaluations = field(init=False)
    shared: dict[str, Any] = field(default_factory=dict)  # what several experiments need
    _others: dict[tuple[str, int], Evaluation] = field(default_factory=dict)  # of other models

    def __post_init__(self) -> None:
        self.evaluations = Evaluations(None, asdict(self.identity))

    def remember(self, path: Path | None) -> None:
        """From now on log perplexities in this file, and take those that it has already."""
        self.evaluations = Evaluations(path, asdict(self.identity))

    def measure(
        self,
        name: str,
        fmt: Format,
        *,
        validation: bool = False,
        model: Callable[[], Model] | None = None,
    ) -> float:
        """Perplexity of a format, which ``name`` must tell from all others.

        ``model`` makes another model to measure, if its weights differ from the subject's.
        """
        evaluation = self.validation if validation else self.calibration
        if evaluation is None:
            raise ValueError("the text has one window only: nothing is left for validation")
        part = "validation" if validation else "calibration"

        def perplexity() -> float:
            if model is None:
                return evaluation.perplexity(fmt)
            other = model()
            key = part, id(other)  # which the evaluation keeps alive
            if key not in self._others:
                tokens = evaluation.sequences.reshape(-1)
                self._others[key] = self.engine(other, tokens, self.window)
            return self._others[key].perplexity(fmt)

        return self.evaluations(f"{part}: {name}", perplexity)


def open_subject(
    source: str,
    *,
    text: Path | None = None,
    tokens: int,
    window: int,
    weights: str = "search",
    engine: str = "auto",
) -> Subject:
    """A model by name or path, with ``tokens`` of text for calibration and as many to validate."""
    if weights not in WEIGHTS:
        raise ValueError(unknown("weights", weights, WEIGHTS))
    engine_class(engine)  # refused before a file is read
    require(window >= 2, f"window must be at least 2 tokens, not {window}")
    require(tokens >= window, f"{tokens} tokens are fewer than a window of {window}")
    original = _load(source)
    chosen = engine_for(original, engine)
    words = default_text() if text is None else read_text(text)
    ids = begun(_encoded(original, words), original.start, window)
    first, second = windows_of(len(ids), tokens, window)
    model = quantise(original, weights, ids)
    held = ids[first * window : (first + second) * window]
    return Subject(
        original=original,
        model=model,
        tokens=ids,
        window=window,
        weights=weights,
        engine=chosen,
        calibration=chosen(model, ids[: first * window], window),
        validation=chosen(model, held, window) if second else None,
        identity=Identity(
            model=original.name,
            model_digest=_digest(original),
            weights=WEIGHTS[weights],
            text=DEFAULT_TEXT if text is None else text.name,
            text_digest=digest(words),
            window=window,
            calibration_tokens=first * window,
            validation_tokens=second * window,
            start=original.start,
        ),
    )


def windows_of(length: int, tokens: int, window: int) -> tuple[int, int]:
    """How many windows of a text of ``length`` tokens calibrate, and how many of the rest validate.

    Each part has ``tokens`` tokens at most; of a shorter text both have half.
    """
    windows = length // window
    require(windows >= 1, f"the text has {length} tokens, fewer than a window of {window}")
    first = min(tokens // window, -(-windows // 2))
    return first, min(tokens // window, windows - first)


def quantise(model: Model, weights: str, text: NDArray[np.int64]) -> Model:
    """The model with weights of one of the kinds of ``WEIGHTS``, by the first tokens of a text."""
    if weights == "file":
        return model
    needed = text[:SCALE_TOKENS] if weights == "search" else None
    return quantised(
        model, bits=WEIGHT_BITS, group=WEIGHT_GROUP, method=weights, calibration=needed
    )


def engine_class(name: str) -> type[Evaluation]:
    """The engine called ``name``; ``auto`` is PyTorch where it is installed."""
    if name not in ENGINES:
        raise ValueError(unknown("engine", name, ENGINES))
    if name == "numpy" or (name == "auto" and find_spec("torch") is None):
        return Evaluation
    if find_spec("torch") is None:
        raise CommandError("the engine torch needs PyTorch: pip install 'tilewright[torch]'")
    from tilewright.studies.accuracy.torch_engine import TorchEvaluation

    return TorchEvaluation


def engine_for(model: Model, name: str) -> type[Evaluation]:
    """The engine called ``name`` if it has the model's family; Gemma is computed by numpy."""
    if model.config.model_type == "gemma3_text":
        if name == "torch":
            raise CommandError(
                f"{model.name}: the engine torch has no Gemma; give --engine numpy or --device"
            )
        return Evaluation
    return engine_class(name)


def _load(source: str) -> Model:
    if source in PACKAGED:
        return load_model(packaged_path(source), gemma=True)
    if source not in NAMES and not Path(source).exists():
        more = "or the path of a GGUF file or of a Hugging Face folder"
        raise ValueError(unknown("model", source, (*NAMES, *PACKAGED), more))
    return load_model(source, gemma=True)


def _encoded(model: Model, text: str) -> NDArray[np.int64]:
    if model.tokenizer is None:
        if model.config.vocab_size != 128:
            raise ModelError(f"{model.name}: no tokenizer")
        # Tiny models have none: a token is a character, 127 whatever is not ASCII.
        return np.minimum(np.frombuffer(text.encode("utf-32-le"), np.uint32), 127).astype(np.int64)
    return np.asarray(model.tokenizer.encode(text))


def _digest(model: Model) -> str:
    """A digest of the embeddings and of one layer: enough to tell models and files apart."""
    found = sha256(np.ascontiguousarray(model.embedding).data)
    for linear in model.layers[0].linears.values():
        found.update(np.ascontiguousarray(linear.weight).data)
    return found.hexdigest()[:16]
