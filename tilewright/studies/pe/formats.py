"""Formats of a PE's operands: how real values become codes and scales, and how good they are.

A format of one's own is a class with these attributes and methods, named as ``FILE.py:CLASS``
wherever a format is asked for. Values are float64 arrays whose last axis is a whole number of
groups; codes are whole numbers below ``2 ** bits``, scales below ``2 ** scale_bits``. Weights in it
are a scheme of the performance model too (``tilewright.sim.own_format``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.bits import decode
from tilewright.golden.bits import decode as decode_float
from tilewright.golden.bits import encode as encode_float
from tilewright.golden.params.formats import BF16, E2M1, E4M3, E5M2, FP16, FloatFormat
from tilewright.golden.params.names import unknown
from tilewright.golden.weights import WEIGHT_GROUP
from tilewright.sim.own_format import own_class
from tilewright.studies.pe.workload import LENGTH, samples

NEEDED = ("name", "bits", "scale_bits", "group", "encode", "decode")
MX_BLOCK = 32  # values that share a scale in the OCP Microscaling formats
MX_BIAS = 127


class OperandFormat(Protocol):
    """What a format has; the first four may be plain attributes."""

    @property
    def name(self) -> str:
        """Of the format."""

    @property
    def bits(self) -> int:
        """Of a code."""

    @property
    def scale_bits(self) -> int:
        """Of a scale; 0: there is none."""

    @property
    def group(self) -> int:
        """Values that share a scale."""

    def encode(self, values: NDArray) -> tuple[NDArray, NDArray]:
        """Return codes, of the shape of ``values``, and scales, one for each group."""

    def decode(self, codes: NDArray, scales: NDArray) -> NDArray:
        """Return the values that they stand for."""


@dataclass(frozen=True)
class PlainFloat:
    """Floating point without scales."""

    fmt: FloatFormat
    scale_bits: int = 0
    group: int = 1

    @property
    def name(self) -> str:
        """That of the format."""
        return self.fmt.name

    @property
    def bits(self) -> int:
        """Of a value."""
        return self.fmt.bits

    def encode(self, values: NDArray) -> tuple[NDArray, NDArray]:
        """Return the nearest patterns."""
        return encode_float(self.fmt, values).astype(np.int64), np.zeros(0, np.int64)

    def decode(self, codes: NDArray, scales: NDArray) -> NDArray:
        """Return their values."""
        return decode_float(self.fmt, codes)


@dataclass(frozen=True)
class Microscaling:
    """Blocks of 32 small floats with a power of two (OCP Microscaling formats)."""

    name: str
    fmt: FloatFormat
    scale_bits: int = 8
    group: int = MX_BLOCK

    @property
    def bits(self) -> int:
        """Of an element."""
        return self.fmt.bits

    def encode(self, values: NDArray) -> tuple[NDArray, NDArray]:
        """Scale each block so that its largest magnitude has the format's largest exponent."""
        blocks = _blocks(values, self.group)
        largest = np.abs(blocks).max(-1)
        exponent = np.floor(np.log2(np.where(largest > 0, largest, 1.0))) - self.fmt.max_exponent
        exponent = np.clip(exponent, -MX_BIAS, MX_BIAS)
        scaled = blocks / 2.0 ** exponent[..., None]
        most = float(decode_float(self.fmt, np.array([self.fmt.max_finite_bits]))[0])
        codes = encode_float(self.fmt, np.clip(scaled, -most, most))
        return codes.reshape(values.shape).astype(np.int64), (exponent + MX_BIAS).astype(np.int64)

    def decode(self, codes: NDArray, scales: NDArray) -> NDArray:
        """Return elements times the power of two of their block."""
        power = 2.0 ** (np.repeat(scales, self.group, axis=-1) - MX_BIAS)
        return decode_float(self.fmt, codes) * power


@dataclass(frozen=True)
class Integer:
    """Two's complement with an fp16 scale for a group, zero in the middle."""

    name: str
    bits: int
    scale_bits: int = 16
    group: int = 128

    def encode(self, values: NDArray) -> tuple[NDArray, NDArray]:
        """Scale each group so that its largest magnitude is the largest positive number."""
        blocks = _blocks(values, self.group)
        most = (1 << (self.bits - 1)) - 1
        scales = encode_float(FP16, np.abs(blocks).max(-1) / most).astype(np.int64)
        steps = np.maximum(decode_float(FP16, scales), 2.0**-24)[..., None]
        numbers = np.clip(np.rint(blocks / steps), -most - 1, most).astype(np.int64)
        return numbers.reshape(values.shape) & ((1 << self.bits) - 1), scales

    def decode(self, codes: NDArray, scales: NDArray) -> NDArray:
        """Return numbers times the scale of their group."""
        half = 1 << (self.bits - 1)
        steps = np.repeat(decode_float(FP16, scales), self.group, axis=-1)
        return ((codes ^ half) - half) * steps


def _blocks(values: NDArray, group: int) -> NDArray:
    return values.reshape(*values.shape[:-1], -1, group)


FORMATS: dict[str, OperandFormat] = {
    "fp16": PlainFloat(FP16),
    "bf16": PlainFloat(BF16),
    "int8": Integer("int8", 8),
    "int6": Integer("int6", 6),
    "int4": Integer("int4", 4),
    "mxfp8": Microscaling("mxfp8", E4M3),
    "mxfp8e5": Microscaling("mxfp8e5", E5M2),
    "mxfp4": Microscaling("mxfp4", E2M1),
}


def find_format(name: str) -> OperandFormat:
    """Return the format of this name, or the class that ``FILE.py:CLASS`` names."""
    if ":" not in name:
        if name not in FORMATS:
            raise CommandError(unknown("format", name, FORMATS))
        return FORMATS[name]
    try:
        made: OperandFormat = own_class(name)
    except ValueError as error:
        raise CommandError(str(error)) from None
    missing = [attribute for attribute in NEEDED if not hasattr(made, attribute)]
    if missing:
        raise CommandError(f"{name} has no {', '.join(missing)}; a format has {', '.join(NEEDED)}")
    return made


def find_formats(text: str) -> tuple[OperandFormat, OperandFormat]:
    """Return the formats of activations and weights that ``AxB`` names."""
    for at, letter in enumerate(text):
        if letter == "x" and _is_format(text[:at]) and _is_format(text[at + 1 :]):
            return find_format(text[:at]), find_format(text[at + 1 :])
    raise CommandError(
        f"a PE's formats are ACTIVATIONSxWEIGHTS, such as int8xint4, of {', '.join(FORMATS)} or"
        f" FILE.py:CLASS, not {text[:60]!r}"
    )


def _is_format(name: str) -> bool:
    return name in FORMATS or (".py:" in name and Path(name.rpartition(":")[0]).is_file())


@dataclass(frozen=True, kw_only=True)
class FormatAccuracy:
    """One format on the samples of a real model."""

    name: str
    bits_per_value: float  # scales in it
    activation_sqnr_db: float  # of activations in the format
    weight_sqnr_db: float  # of weights in the format
    dot_error_percent: float  # of dot products of both, over the root mean square of exact ones


def real_operands() -> tuple[NDArray, NDArray]:
    """Return activations (streams, dots, length) and weights (streams, length) as real numbers.

    Weights are those of the samples, int4 with a scale for 128: no format is better than they are.
    """
    found = samples()
    activations = decode(FP16, found["activation"])
    scales = np.repeat(decode(FP16, found["scale"]), WEIGHT_GROUP, axis=-1)
    return activations, found["weight"].astype(float) * scales


def compare_formats(further: Sequence[str] = ()) -> list[FormatAccuracy]:
    """Return the known formats and ``further`` ones, named as ``FILE.py:CLASS``."""
    return [_accuracy(fmt) for fmt in (*FORMATS.values(), *map(find_format, further))]


def _accuracy(fmt: OperandFormat) -> FormatAccuracy:
    if LENGTH % fmt.group:
        raise CommandError(f"groups of {fmt.name} must divide {LENGTH} values, not {fmt.group}")
    activations, weights = real_operands()
    found = [_through(fmt, values) for values in (activations, weights)]
    exact = (activations * weights[:, np.newaxis]).sum(-1)
    dots = (found[0] * found[1][:, np.newaxis]).sum(-1)
    return FormatAccuracy(
        name=fmt.name,
        bits_per_value=fmt.bits + fmt.scale_bits / fmt.group,
        activation_sqnr_db=_sqnr(activations, found[0]),
        weight_sqnr_db=_sqnr(weights, found[1]),
        dot_error_percent=100 * float(np.sqrt(((dots - exact) ** 2).mean() / (exact**2).mean())),
    )


def _through(fmt: OperandFormat, values: NDArray) -> NDArray:
    codes, scales = fmt.encode(values)
    if codes.shape != values.shape or codes.min() < 0 or codes.max() >= 1 << fmt.bits:
        raise CommandError(f"{fmt.name} gives codes that are not {fmt.bits} bits for each value")
    if fmt.scale_bits and (scales.min() < 0 or scales.max() >= 1 << fmt.scale_bits):
        raise CommandError(f"{fmt.name} gives scales that are not {fmt.scale_bits} bits")
    return fmt.decode(codes, scales)


def _sqnr(values: NDArray, found: NDArray) -> float:
    """Signal to quantisation noise, in decibels; 200 where nothing is lost."""
    noise = float(((found - values) ** 2).mean())
    return 200.0 if noise == 0 else 10 * float(np.log10((values**2).mean() / noise))
