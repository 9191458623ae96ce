"""Perplexity of real models in every format, through ``tilewright.torch``.

Models are GGUF files that packages carry, dequantised to float32; none is copied into this project.
Weights stay those of the file, so that a table shows what the formats of activations and of the
cache cost; DECA's schemes are applied on top of the file's own quantisation.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.llm.start import begun
from tilewright.studies.accuracy.checkpoints import encoding_of, read_model
from tilewright.studies.accuracy.subject import in_format
from tilewright.torch.config import AndaConfig, Config, DecaConfig, HarmoniaConfig

__all__ = [
    *("FORMATS", "ModelText", "describe", "disturbed", "measure_model", "open_model"),
]

NOISE = 2.0**-22  # relative change of the embeddings whose effect is the noise floor
SEED = 0
_BARE: dict[str, Any] = {"initial": 0, "local": 0, "offset_channels": 0, "weight_bits": None}

FORMATS: dict[str, Config | None] = {
    "plain": None,
    "Anda 8/8/8/8": AndaConfig(8, 8, 8, 8, weight_bits=None),
    "Anda 6/6/6/6": AndaConfig(6, 6, 6, 6, weight_bits=None),
    "Anda 4/4/4/4": AndaConfig(4, 4, 4, 4, weight_bits=None),
    "Harmonia, 8 bits": HarmoniaConfig(key_bits=(8, 8), value_bits=(8, 8), **_BARE),
    "Harmonia, 4-bit cache": HarmoniaConfig(**_BARE),
    "Harmonia, windows": HarmoniaConfig(offset_channels=0, weight_bits=None),
    "Harmonia, windows, offsets": HarmoniaConfig(weight_bits=None),
    "DECA mxfp4": DecaConfig("mxfp4"),
    "DECA bf8, half of the weights": DecaConfig("bf8", density=0.5),
}
NOISE_FORMATS = ("plain", "Anda 6/6/6/6")


@dataclass
class ModelText:
    """A model with the tokens of a text."""

    model: Any
    encode: Callable[[str], list[int]]
    start: int | None  # the token that begins a sequence, if the model has one
    digest: str  # sha256 of the file
    bytes: int
    parameters: int


def open_model(path: Path, *, threads: int | None = None, device: str = "cpu") -> ModelText:
    """The model of a GGUF file in float32 on a device."""
    import torch
    from transformers import AutoTokenizer

    if threads is not None:
        torch.set_num_threads(threads)
    content = path.read_bytes()
    encoding = encoding_of(path, AutoTokenizer)
    model = read_model(path, "cpu")
    return ModelText(
        model=model.to(device),
        encode=encoding.encode,
        start=encoding.start.token,
        digest=sha256(content).hexdigest(),
        bytes=len(content),
        parameters=sum(p.numel() for p in model.parameters()),
    )


def measure_model(
    subject: ModelText,
    text: str,
    *,
    tokens: int,
    window: int,
    formats: Iterable[str] = FORMATS,
    noise: Iterable[str] = NOISE_FORMATS,
    known: dict[str, Any] | None = None,
    keep: Callable[[dict[str, Any]], None] = lambda _: None,
    tick: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Perplexity in each format, and the noise floor, on the first ``tokens`` of a text.

    Each window begins with the model's start token. The noise floor is how far a perplexity moves
    when the embeddings alone are changed by at most 2^-22 of themselves, at random. ``keep`` gets
    the result as far as it is known after each format; what ``known``, such a result, has of the
    same windows is not measured again.
    """
    from tilewright.torch import perplexity as perplexity_of

    ids = _windows(subject, text, tokens, window)
    size = {"tokens": len(ids), "window": window}
    usable = known is not None and all(known.get(key) == value for key, value in size.items())
    before = known if known is not None and usable else {"perplexities": [], "noise_floor": []}
    found = {row["format"]: row["perplexity"] for row in before["perplexities"]}
    floor = {row["format"]: row["change"] for row in before["noise_floor"]}

    def result() -> dict[str, Any]:
        ordered = [name for name in FORMATS if name in found]
        plain = found["plain"]
        return {
            **size,
            "perplexities": [
                {"format": name, "perplexity": found[name], "change": found[name] / plain - 1}
                for name in ordered
            ],
            "noise_floor": [
                {"format": name, "change": floor[name]} for name in ordered if name in floor
            ],
        }

    def perplexity(name: str) -> float:
        tick(name)
        with in_format(subject.model, FORMATS[name]):
            return perplexity_of(subject.model, ids, window)

    for name in dict.fromkeys(["plain", *formats]):
        if name not in found:
            found[name] = perplexity(name)
            keep(result())
    with disturbed(subject.model):
        for name in noise:
            if name in found and name not in floor:
                floor[name] = abs(perplexity(name) / found[name] - 1)
                keep(result())
    return result()


def _windows(subject: ModelText, text: str, tokens: int, window: int) -> NDArray[np.int64]:
    """Windows one after the other, as many as ``tokens`` make."""
    ids = begun(np.array(subject.encode(text[: 16 * tokens]), np.int64), subject.start, window)
    count = tokens // window
    if len(ids) < count * window or count < 1:
        raise ValueError(f"the text has {len(ids)} tokens, fewer than {count} windows of {window}")
    return ids[: count * window]


class disturbed:  # noqa: N801  used like a function
    """Embeddings changed at random by at most ``NOISE`` of themselves, and changed back."""

    def __init__(self, model: Any):
        self.weight = model.get_input_embeddings().weight

    def __enter__(self) -> None:
        import torch

        generator = torch.Generator().manual_seed(SEED)
        noise = torch.rand(self.weight.shape, generator=generator).mul_(2 * NOISE).sub_(NOISE)
        self.kept = self.weight.data.clone()
        with torch.no_grad():
            self.weight.data = self.kept * (1 + noise.to(self.kept))

    def __exit__(self, *_: object) -> None:
        self.weight.data = self.kept


def describe(subject: ModelText, path: Path) -> dict[str, Any]:
    """What a record says of its model."""
    data = {key: getattr(subject, key) for key in ("digest", "bytes", "parameters")}
    return {"file": path.name, "class": type(subject.model).__name__, **data}
