"""Low-bit formats as tables: value = numbers[code] * scale, and the rules by which encoders differ.

A format says which numbers its codes stand for, how many values share a scale and how a scale is
stored. Encoders of one format still differ: ``axes`` names what they differ in and the choices that
implementations document; ``rules`` has the choice of the specification, or of the reference
implementation where there is no specification.

Quotients are rounded once: a float64 quotient of two float32 numbers, one of at most 28 bits, has
the sign of its distance to each border of a table, as borders have few bits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import frexp, ldexp
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.bits import decode, decode_int, decode_scale, encode
from tilewright.golden.params.arith import FloatRules
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import (
    E2M1,
    E4M3,
    E8M0,
    FP16,
    FP32,
    FloatFormat,
    IntFormat,
    Overflow,
    ScaleFormat,
    Specials,
)
from tilewright.golden.params.names import unknown

# Words after "nearest" say where a tie goes: to the even code, from zero, to zero, up or down.
ROUNDINGS = (
    *("nearest-even", "nearest-away", "nearest-zero", "nearest-up", "nearest-down"),
    "toward-zero",
)
POWERS = (
    *("floor", "ceil", "nearest", "even", "even-1bit", "rceil", "rceil-float32"),
    *("floor-log2f", "ceil-log2f", "nearest-log2f", "rceil-log2f"),
)
# Which results are -0: of all values with that sign; of those below 0; none; also that of +0.
ZEROS = ("signed", "below-zero", "positive", "negative")
OVERFLOWS = ("special", "saturate", "saturate-infinity")
QUOTIENTS = ("exact", "float32", "reciprocal", "reciprocal-offset")
# The divisor of a block with the least scale, 2^-127, which is subnormal in float32.
# Scales that are no powers: the least one is the least normal one, or the least one above 0; or
# instead of 0 stands the format's epsilon.
LEAST = ("stored", "normal", "one")
DIVISORS = ("stored", "unrounded")
Rules = Mapping[str, str]
_SATURATE = FloatRules(overflow=Overflow.SATURATE)
_E5 = ScaleFormat(name="e5", bits=5)  # the exponent field of fp16


class Encoded(NamedTuple):
    """Codes, a scale for each group, and the tensor's, a float32 number; 1 where there is none."""

    codes: NDArray[np.int64]
    scales: NDArray[np.int64]
    tensor: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class LowBit:
    """One format; ``encode`` and ``decode`` are those of ``tilewright.golden.formats.Format``.

    ``zero_bits``: the low bits of a scale are the code that means zero. ``tensor_reach``: a float32
    scale of the whole tensor maps its largest magnitude to this.
    """

    name: str
    source: str  # who defines it
    numbers: NDArray[np.float64] = field(repr=False)
    bits: int
    group: int = 1
    scale: FloatFormat | ScaleFormat | None = None
    zero_bits: int = 0
    tensor_reach: float = 0.0
    fraction: int = 0  # stored bits of the significand of the largest number
    normal: float = 0.0  # magnitudes below it are subnormal
    rules: Rules
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inputs: FloatFormat = FP32  # what is encoded has this format first
    # Bytes of a block in a file: their count, from codes and scales, and to codes, steps, offsets.
    block_bytes: int = 0
    pack: Callable[[Encoded], NDArray[np.uint8]] | None = None
    unpack: Callable[[NDArray[np.uint8]], tuple[NDArray, NDArray, NDArray]] | None = None

    @property
    def scale_bits(self) -> int:
        return (self.scale.bits if self.scale else 0) + self.zero_bits

    @cached_property
    def reach(self) -> float:
        """The largest finite number."""
        return float(self.numbers[np.isfinite(self.numbers)].max())

    @cached_property
    def signed_zero(self) -> bool:
        return bool(np.signbit(self.numbers[self.numbers == 0]).any())

    @cached_property
    def _order(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Finite numbers in rising order, and their codes: of two zeros the positive one."""
        finite = np.flatnonzero(np.isfinite(self.numbers))
        plus = finite[np.lexsort((np.signbit(self.numbers[finite]), self.numbers[finite]))]
        distinct, first = np.unique(self.numbers[plus], return_index=True)
        return distinct + 0.0, plus[first]

    def completed(self, rules: Rules) -> dict[str, str]:
        """The specification's rules, changed by ``rules``; unknown ones are refused."""
        for name, choice in rules.items():
            require(name in self.axes, unknown(f"rule of {self.name}", name, self.axes))
            require(choice in self.axes[name], unknown(name, choice, self.axes[name]))
        return {**self.rules, **rules}

    def encode(self, values: ArrayLike, **changed: str) -> Encoded:
        """Finite values whose last axis is whole groups; without groups, any values."""
        rules = self.completed(changed)
        require(bool(self.rules), f"{self.name} defines how it is decoded, not how it is encoded")
        x = np.asarray(values, np.float64)
        if self.scale is None:
            return Encoded(self.nearest(x, rules), np.zeros(0, np.int64))
        blocks = x.reshape(*x.shape[:-1], -1, self.group)
        tensor = 1.0
        if self.tensor_reach:
            largest = np.float32(np.abs(x).max(initial=0))
            tensor = float(largest / np.float32(self.tensor_reach)) or tensor
        scales, steps = self._scales(blocks, tensor, rules)
        how = rules.get("quotient", "exact")
        if how == "reciprocal-tensor":
            factors = _divide(1 / np.array(tensor, np.float32), steps / tensor, "float32")
            short = factors.astype(np.float32)[..., np.newaxis]
            with np.errstate(invalid="ignore", over="ignore", under="ignore"):
                quotients = (blocks.astype(np.float32) * short).astype(np.float64)
        else:
            quotients = _divide(blocks, steps[..., np.newaxis], how)
        if rules.get("quotient") == "reciprocal-offset":  # the half is added before it is cut off
            half = 0.5 - self._order[0][0]
            quotients = (quotients + half).astype(np.float32) - half
        if self.zero_bits:
            zeros = np.rint(_divide(-np.minimum(blocks.min(-1), 0), steps, "exact"))
            zeros = np.clip(zeros, 0, self.reach).astype(np.int64)
            scales = scales << self.zero_bits | zeros
            quotients = quotients + zeros[..., np.newaxis]
        codes = self.nearest(quotients, rules)
        return Encoded(codes.reshape(x.shape), scales, tensor)

    def decode(self, codes: NDArray, scales: NDArray | None = None, tensor: float = 1.0) -> NDArray:
        """Exact float64 values."""
        found = self.numbers[codes]
        if self.scale is None or scales is None:
            return found
        scales = np.asarray(scales, np.int64)
        if self.zero_bits:
            zeros = scales & ((1 << self.zero_bits) - 1)
            found = found - np.repeat(zeros, self.group, axis=-1)
        steps = self.scale_values(scales >> self.zero_bits) * np.float64(tensor)
        with np.errstate(invalid="ignore"):  # NaN and infinite scales
            return found * np.repeat(steps, self.group, axis=-1)

    def scale_values(self, scales: NDArray) -> NDArray[np.float64]:
        assert self.scale is not None
        take = decode_scale if isinstance(self.scale, ScaleFormat) else decode
        return take(self.scale, scales)  # type: ignore[arg-type]

    def nearest(self, x: NDArray[np.float64], rules: Rules) -> NDArray[np.int64]:
        """Codes of numbers, rounded by the rules; NaN is 0 where the format has none."""
        numbers, codes = self._order
        low = np.clip(np.searchsorted(numbers, x, "right") - 1, 0, len(numbers) - 1)
        high = np.minimum(low + 1, len(numbers) - 1)
        rounding = rules["rounding"].removesuffix("-float32")  # whose borders are float32 numbers
        middle = (numbers[low] + numbers[high]) / 2
        if rounding != rules["rounding"]:
            middle = middle.astype(np.float32).astype(np.float64)
        ties = {
            "nearest-even": codes[high] % 2 == 0,
            "nearest-away": middle > 0,
            "nearest-zero": middle < 0,
            "nearest-up": np.True_,
            "nearest-down": np.False_,
        }
        cut = rounding == "toward-zero"
        up = (x < 0) & (x != numbers[low]) if cut else x > middle
        if not cut:
            up |= (x == middle) & ties[rounding]
        up &= x >= numbers[0]
        found = codes[np.where(up, high, low)]
        value = self.numbers[found]
        if rules.get("subnormals") == "flush":
            found = np.where(np.abs(value) < self.normal, codes[numbers == 0][0], found)
        negative = np.flatnonzero((self.numbers == 0) & np.signbit(self.numbers))
        if len(negative) and rules.get("zero") != "positive":
            which = {"negative": x <= 0, "below-zero": x < 0}
            minus = which.get(rules.get("zero", ""), np.signbit(x))
            found = np.where((self.numbers[found] == 0) & minus, negative[0], found)
        if rules.get("low") == "symmetric":
            found = np.where(self.numbers[found] < -self.reach, codes[1], found)
        return self._special(x, found, rules, numbers, cut)

    def _special(
        self, x: NDArray, found: NDArray, rules: Rules, numbers: NDArray, cut: bool
    ) -> NDArray[np.int64]:
        """``found`` with infinities and NaN where the format or an overflow has them."""
        nan, inf = np.flatnonzero(np.isnan(self.numbers)), np.flatnonzero(np.isinf(self.numbers))
        overflow = rules.get("overflow", "saturate-infinity")
        if overflow != "saturate-infinity":
            beyond = np.isinf(x)
            if overflow == "special" and not cut:
                border = numbers[-1] + (numbers[-1] - numbers[-2]) / 2
                odd = np.flatnonzero(self.numbers == numbers[-1])[0] % 2
                beyond |= (np.abs(x) > border) | ((np.abs(x) == border) & bool(odd))
            if len(inf):
                found = np.where(beyond, np.where(np.signbit(x), inf[-1], inf[0]), found)
            elif len(nan):
                found = np.where(beyond, np.where(np.signbit(x), nan[-1], nan[0]), found)
        missing = nan[0] if len(nan) else np.flatnonzero(self.numbers == 0)[0]
        return np.where(np.isnan(x), missing, found).astype(np.int64)

    def _scales(self, blocks: NDArray, tensor: float, rules: Rules) -> tuple[NDArray, NDArray]:
        """Stored scales, and what the values are divided by."""
        largest = np.abs(blocks).max(-1)
        if isinstance(self.scale, ScaleFormat):
            power = shared_exponent(largest, self.reach, self.fraction, rules["scale"])
            lowest = -self.scale.bias + (self.scale is _E5)  # fp16's field of subnormals is 1
            power = np.clip(power, lowest, self.scale.nan_bits - 1 - self.scale.bias)
            steps = np.ldexp(1.0, power)
            if rules.get("least", "stored") != "stored":
                least = 1.0 if rules["least"] == "one" else 2.0**FP32.min_exponent
                steps = np.where(power == lowest, least, steps)
            return power + self.scale.bias, steps
        assert self.scale is not None
        what, over = rules["scale"].split("/")
        if what == "max":  # with its sign
            place = np.abs(blocks).argmax(-1)[..., np.newaxis]
            largest = np.take_along_axis(blocks, place, -1)[..., 0]
        elif what == "range":
            largest = np.maximum(blocks.max(-1), 0) - np.minimum(blocks.min(-1), 0)
        how = rules.get("quotient", "exact")
        if how == "exact":
            exact = _divide(largest, np.array(float(over) * tensor), how)
        else:
            exact = _divide(largest, np.array(float(over)), "float32")
            exact = _divide(exact, np.array(tensor), "float32")
        patterns = encode(self.scale, exact, _SATURATE).astype(np.int64)
        if rules.get("least") == "normal":
            patterns = np.maximum(patterns, 1 << self.scale.mantissa_bits)
        elif rules.get("least") == "one":
            patterns = np.maximum(patterns, 1)
        elif rules.get("least") == "epsilon":
            epsilon = int(encode(self.scale, 2.0**-self.scale.mantissa_bits))
            patterns = np.where(patterns == 0, epsilon, patterns)
        stored = rules.get("divisor", "stored") == "stored"
        steps = decode(self.scale, patterns) if stored else exact
        return patterns, steps * tensor


def shared_exponent(
    largest: NDArray[np.float64], reach: float, fraction: int, rule: str
) -> NDArray[np.int64]:
    """Powers of two for blocks of those largest magnitudes; for zero a very small one.

    ``floor``: OCP's, floor(log2 largest) less that of the reach; ``ceil`` and ``nearest`` round
    log2 otherwise; ``even`` rounds the magnitude to the element's significand first, ``even-1bit``
    to that of E2M1; ``rceil`` is the least power for which nothing overflows, ``rceil-float32``
    with a float32 quotient; ``log2f`` rounds a logarithm that is a float32 number itself.
    """
    rule, _, arithmetic = rule.partition("-")
    top = frexp(reach)[1] - 1
    if rule == "rceil":
        top = 0
        if arithmetic:
            largest = (largest.astype(np.float32) / np.float32(reach)).astype(np.float64)
        else:
            largest = largest / reach
    if arithmetic == "log2f":
        log = np.log2(np.where(largest > 0, largest, 1)).astype(np.float32)
        take = {"floor": np.floor, "nearest": np.rint}.get(rule, np.ceil)
        power = take(log).astype(np.int64) - top
    elif rule == "rceil":
        part, exponent = np.frexp(largest)
        power = exponent - (part == 0.5)
    else:
        part, exponent = np.frexp(largest)
        more = {
            "floor": np.False_,
            "ceil": part > 0.5,
            "nearest": part * part > 0.5,
            "even": part >= 1 - ldexp(1.0, -(1 if arithmetic else fraction) - 2),
        }
        power = exponent - 1 - top + more[rule]
    return np.where(largest > 0, power, -(1 << 12)).astype(np.int64)


def _divide(x: NDArray, by: NDArray, how: str) -> NDArray[np.float64]:
    """Quotients in one of three arithmetics; 0 where the divisor is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        if how == "exact":
            found = x / by
        else:
            short, divisor = x.astype(np.float32), np.asarray(by, np.float32)
            quotient = short / divisor if how == "float32" else short * (np.float32(1) / divisor)
            found = quotient.astype(np.float64)
    return np.where(by == 0, np.copysign(0.0, x), found)


# NormalFloat4: quantiles of a normal distribution, of magnitude at most 1, with an exact zero
# (Dettmers et al., QLoRA, 2023, appendix E).
NF4_VALUES = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
_FLOAT_AXES = {"subnormals": ("keep", "flush"), "zero": ZEROS}
_NO_AXES: Mapping[str, tuple[str, ...]] = {}


def float_numbers(fmt: FloatFormat) -> NDArray[np.float64]:
    return decode(fmt, np.arange(1 << fmt.bits))


def fnuz_numbers(fmt: FloatFormat) -> NDArray[np.float64]:
    """Finite numbers of unsigned zero: a bias larger by one, and NaN in the place of -0."""
    finite = FloatFormat(
        name=fmt.name,
        exponent_bits=fmt.exponent_bits,
        mantissa_bits=fmt.mantissa_bits,
        specials=Specials.NONE,
    )
    found = float_numbers(finite) / 2
    found[1 << (fmt.bits - 1)] = np.nan
    return found


def int_numbers(bits: int, fraction: int = 0) -> NDArray[np.float64]:
    return np.ldexp(decode_int(IntFormat(bits=bits), np.arange(1 << bits)), -fraction)


def _first(axes: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    return {name: choices[0] for name, choices in axes.items()}


def plain_float(name: str, fmt: FloatFormat, source: str, *, fnuz: bool = False) -> LowBit:
    axes = {"rounding": ROUNDINGS, **_FLOAT_AXES}
    if fnuz:
        del axes["zero"]
    if fmt.specials is not Specials.NONE:
        axes["overflow"] = OVERFLOWS
    return LowBit(
        name=name,
        source=source,
        numbers=fnuz_numbers(fmt) if fnuz else float_numbers(fmt),
        bits=fmt.bits,
        fraction=fmt.mantissa_bits,
        normal=ldexp(1.0, fmt.min_exponent - fnuz),
        rules=_first(axes),
        axes=axes,
    )


def mx_float(fmt: FloatFormat, name: str) -> LowBit:
    """Blocks of 32 small floats with a power of two; beyond the largest they saturate."""
    plain = plain_float(name, fmt, "OCP Microscaling 1.0")
    axes = {**plain.axes, "scale": POWERS, "least": LEAST}
    saturate = {"overflow": "saturate"} if "overflow" in axes else {}
    return replace(plain, group=32, scale=E8M0, rules=_first(axes) | saturate, axes=axes)


def mx_int(bits: int) -> LowBit:
    """Integers over 2^(bits - 2), so that the largest power of two is 1."""
    axes = {"rounding": ROUNDINGS, "scale": POWERS, "low": ("full", "symmetric"), "least": LEAST}
    return LowBit(
        name=f"mxint{bits}",
        source="OCP Microscaling 1.0" if bits == 8 else "MXINT8's rule with fewer bits",
        numbers=int_numbers(bits, bits - 2),
        bits=bits,
        group=32,
        scale=E8M0,
        fraction=bits - 2,
        rules=_first(axes),
        axes=axes,
    )


def book(
    name: str,
    numbers: ArrayLike,
    scale: FloatFormat,
    group: int,
    source: str,
    scales: tuple[str, ...] = ("amax/1",),
    zero_bits: int = 0,
    further: Mapping[str, tuple[str, ...]] = _NO_AXES,
) -> LowBit:
    """Any numbers with a scale per group, ``scales`` being the rules for it."""
    values = np.asarray(numbers, np.float64)
    axes = {
        **{"rounding": ROUNDINGS, "scale": scales, "divisor": DIVISORS, "quotient": QUOTIENTS},
        **further,
    }
    return LowBit(
        name=name,
        source=source,
        numbers=values,
        bits=(len(values) - 1).bit_length(),
        group=group,
        scale=scale,
        zero_bits=zero_bits,
        rules=_first(axes),
        axes=axes,
    )


def integer(name: str, bits: int, scale: FloatFormat, group: int, source: str) -> LowBit:
    """Integers of two's complement with a scale per group."""
    most = (1 << (bits - 1)) - 1
    scales = tuple(f"amax/{most + more}" for more in (0, 1, 0.5))
    further = {"low": ("full", "symmetric"), "least": ("stored", "epsilon")}
    return book(name, int_numbers(bits), scale, group, source, scales, further=further)


def unsigned(name: str, bits: int, scale: FloatFormat, group: int, source: str) -> LowBit:
    """Integers without a sign, with a scale and a zero point per group."""
    scales = (f"range/{(1 << bits) - 1}",)
    return book(name, np.arange(1 << bits), scale, group, source, scales, zero_bits=bits)


def shared_exponent_blocks(group: int, mantissa_bits: int) -> LowBit:
    """Anda's and Harmonia's: sign and magnitude, cut toward zero, with fp16's exponent field."""
    magnitude = np.ldexp(np.arange(1 << mantissa_bits, dtype=np.float64), 1 - mantissa_bits)
    axes = {"rounding": ROUNDINGS, "scale": POWERS, "zero": _FLOAT_AXES["zero"]}
    return LowBit(
        name=f"bfp{mantissa_bits}g{group}",
        source="Anda and Harmonia",
        numbers=np.concatenate([magnitude, -magnitude]),
        bits=mantissa_bits + 1,
        group=group,
        scale=_E5,
        fraction=mantissa_bits - 1,
        inputs=FP16,
        rules=_first(axes) | {"rounding": "toward-zero"},
        axes=axes,
    )


def nvfp4() -> LowBit:
    further = {
        **{"quotient": (*QUOTIENTS[:3], "reciprocal-tensor")},
        **{**_FLOAT_AXES, "least": ("stored", "normal", "one")},
    }
    return replace(
        book("nvfp4", float_numbers(E2M1), E4M3, 16, "NVIDIA", ("amax/6",), further=further),
        tensor_reach=6.0 * 448.0,
        fraction=E2M1.mantissa_bits,
        normal=1.0,
    )
