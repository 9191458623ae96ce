"""How much formats lose on the operands of a real model: activations, weights, dot products."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.bits import decode
from tilewright.golden.formats import FORMATS, NumberFormat, resolve_format
from tilewright.golden.params.formats import FP16
from tilewright.golden.weights import WEIGHT_GROUP
from tilewright.studies.pe.workload import LENGTH, samples


@dataclass(frozen=True, kw_only=True)
class FormatAccuracy:
    """One format on the samples of a real model."""

    name: str
    bits_per_value: float  # scales in it
    activation_sqnr_db: float  # of activations in the format
    weight_sqnr_db: float  # of weights in the format
    dot_error_percent: float  # of dot products of both, over the root mean square of exact ones


def real_operands() -> tuple[NDArray, NDArray]:
    """Return activations (streams, dots, length) and int4 weights (streams, length) as numbers."""
    found = samples()
    activations = decode(FP16, found["activation"])
    scales = np.repeat(decode(FP16, found["scale"]), WEIGHT_GROUP, axis=-1)
    return activations, found["weight"].astype(float) * scales


def compare_formats(further: Sequence[str] = ()) -> list[FormatAccuracy]:
    """Return the known formats and ``further`` ones, named as ``FILE.py:CLASS``."""
    return [_accuracy(fmt) for fmt in (*FORMATS.values(), *map(resolve_format, further))]


def _accuracy(fmt: NumberFormat) -> FormatAccuracy:
    if LENGTH % fmt.group:
        raise CommandError(f"groups of {fmt.name} must divide {LENGTH} values, not {fmt.group}")
    activations, weights = real_operands()
    found = [fmt.through(values) for values in (activations, weights)]
    exact = (activations * weights[:, np.newaxis]).sum(-1)
    dots = (found[0] * found[1][:, np.newaxis]).sum(-1)
    return FormatAccuracy(
        name=fmt.name,
        bits_per_value=fmt.bits_per_value,
        activation_sqnr_db=_sqnr(activations, found[0]),
        weight_sqnr_db=_sqnr(weights, found[1]),
        dot_error_percent=100 * float(np.sqrt(((dots - exact) ** 2).mean() / (exact**2).mean())),
    )


def _sqnr(values: NDArray, found: NDArray) -> float:
    """Signal to quantisation noise, in decibels; 200 where nothing is lost."""
    noise = float(((found - values) ** 2).mean())
    return 200.0 if noise == 0 else 10 * float(np.log10((values**2).mean() / noise))
