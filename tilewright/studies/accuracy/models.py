"""Perplexity of real models in every format, through ``tilewright.torch``.

Models are GGUF files that packages carry, dequantised to float32; none is copied into this project.
Weights stay those of the file, so that a table shows what the formats of activations and of the
cache cost; DECA's schemes are applied on top of the file's own quantisation.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from tilewright.studies.accuracy.subject import Subject
from tilewright.torch.config import AndaConfig, Config, DecaConfig, HarmoniaConfig

__all__ = ["FORMATS", "NOISE_FORMATS", "describe", "disturbed", "measure_model"]

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


def measure_model(
    subject: Subject,
    *,
    formats: Collection[str] = tuple(FORMATS),
    noise: Collection[str] = NOISE_FORMATS,
    tick: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Perplexity in each format, and the noise floor, on the calibration text.

    The noise floor is how far a perplexity moves when the embeddings alone are changed by at most
    2^-22 of themselves, at random.
    """

    def perplexity(name: str, how: str = "") -> float:
        tick(f"{name}{how}")
        return subject.measure(f"{name}{how}", FORMATS[name])

    found = {name: perplexity(name) for name in FORMATS if name in {"plain", *formats}}
    with disturbed(subject.model):
        moved = {name: perplexity(name, ", disturbed") for name in found if name in noise}
    return {
        "tokens": subject.calibration.size,
        "window": subject.calibration.shape[1],
        "perplexities": [
            {"format": name, "perplexity": value, "change": value / found["plain"] - 1}
            for name, value in found.items()
        ],
        "noise_floor": [
            {"format": name, "change": abs(value / found[name] - 1)}
            for name, value in moved.items()
        ],
    }


@contextmanager
def disturbed(model: Any) -> Iterator[None]:
    """Embeddings changed at random by at most ``NOISE`` of themselves, and changed back."""
    import torch

    weight = model.get_input_embeddings().weight
    generator = torch.Generator().manual_seed(SEED)
    noise = torch.rand(weight.shape, generator=generator).mul_(2 * NOISE).sub_(NOISE)
    before = weight.data.clone()
    with torch.no_grad():
        weight.data = before * (1 + noise.to(before))
    try:
        yield
    finally:
        weight.data = before


def describe(subject: Subject, path: Path) -> dict[str, Any]:
    """What a record says of its model."""
    content = path.read_bytes()
    return {
        "file": path.name,
        "class": type(subject.model).__name__,
        "digest": sha256(content).hexdigest(),
        "bytes": len(content),
        "parameters": sum(p.numel() for p in subject.model.parameters()),
    }
