"""The kernels of ``tilewright.torch.fused``, in Triton's language; imported where it is installed.

Each program converts whole adjacent groups. Inputs arrive as bit patterns. Roundings
to nearest add and subtract 1.5 times the power of two whose last bit is worth 1, which rounds as
IEEE does; everything else is exact, or a division that IEEE rounds.
"""

# mypy: disable-error-code="no-untyped-def"
# Parameters are tensors of Triton's language, which has no types.

import triton
import triton.language as tl

SIGN = tl.constexpr(-(1 << 31))
MAGNITUDE = tl.constexpr(0x7FFFFFFF)
EXPONENT = tl.constexpr(0x7F800000)
FP16_LARGEST = tl.constexpr(0x477FE000)  # 65504 as a float32
FP16_SMALLEST = tl.constexpr(0x38800000)  # 2^-14
BF16_LAST = tl.constexpr(2.0**-7)
FP16_LAST = tl.constexpr(2.0**-10)
ROUND32 = tl.constexpr(1.5 * 2.0**23)
SNAP = tl.constexpr(1.5 * 2.0**10)
ROUND64 = tl.constexpr(1.5 * 2.0**52)
E8M0_BIAS = tl.constexpr(127)
SMALLEST = tl.constexpr(2.0**-126)  # normal number of float32 and bf16


@triton.jit
def _offsets(group: tl.constexpr, groups: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * groups + tl.arange(0, groups)
    return row[:, None] * group + tl.arange(0, group)[None, :]


@triton.jit
def _patterns(source, at, inside, half: tl.constexpr):
    """Values as patterns of float32, and those of a NaN beyond infinity's, with their signs."""
    raw = tl.load(source + at, mask=inside, other=0)
    if source.dtype.element_ty == tl.int32:
        bits = raw
    elif half:
        wide = raw.to(tl.int32)
        magnitude = (wide & 0x7FFF).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
        finite = magnitude.to(tl.int32, bitcast=True)
        bits = tl.where((wide & 0x7FFF) > 0x7C00, MAGNITUDE, finite) | (wide & SIGN)
    else:
        bits = raw.to(tl.int32) << 16
    return bits


@triton.jit
def _store(target, at, inside, bits, short: tl.constexpr):
    """Patterns of finite float32 values; bf16 are patterns too, ``short`` if nothing is rounded."""
    if target.dtype.element_ty == tl.int16:
        if not short:
            bits += 0x7FFF + ((bits >> 16) & 1)
        tl.store(target + at, (bits >> 16).to(tl.int16), mask=inside)
    else:
        values = bits.to(tl.float32, bitcast=True)
        tl.store(target + at, values.to(target.dtype.element_ty), mask=inside)


@triton.jit
def _power(exponent):
    """2^exponent as float32, -126..127."""
    return ((exponent + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def block_float_kernel(
    source, target, count, half: tl.constexpr, group: tl.constexpr, groups: tl.constexpr,
    last: tl.constexpr,
):  # fmt: skip
    """Block floating point: the group's largest exponent, mantissas cut off."""
    at = _offsets(group, groups)
    inside = at < count
    bits = _patterns(source, at, inside, half)
    # Patterns of magnitudes have the order of their values, NaN above all.
    magnitude = tl.minimum(bits & MAGNITUDE, FP16_LARGEST)
    if source.dtype.element_ty == tl.int32 or not half:
        # To fp16: its last bit is worth 2^-10 of the binade, 2^-24 at least.
        step = _binade(magnitude) * FP16_LAST
        scaled = magnitude.to(tl.float32, bitcast=True) * _inverse(step)
        magnitude = (((scaled + ROUND32) - ROUND32) * step).to(tl.int32, bitcast=True)
    step = _binade(tl.max(magnitude, axis=1)) * last
    scaled = magnitude.to(tl.float32, bitcast=True) * _inverse(step)[:, None]
    found = scaled.to(tl.int32).to(tl.float32) * step[:, None]
    signed = found.to(tl.int32, bitcast=True) | (bits & SIGN)
    _store(target, at, inside, signed, last >= BF16_LAST)


@triton.jit
def _binade(magnitude):
    """The power of two of a magnitude's exponent, that of fp16's smallest normal at least."""
    return tl.maximum(magnitude & EXPONENT, FP16_SMALLEST).to(tl.float32, bitcast=True)


@triton.jit
def _inverse(power):
    """1 / power of two, exactly."""
    return ((254 << 23) - power.to(tl.int32, bitcast=True)).to(tl.float32, bitcast=True)


@triton.jit
def integer_kernel(
    source, target, count, half: tl.constexpr, group: tl.constexpr, groups: tl.constexpr,
    top: tl.constexpr,
):  # fmt: skip
    """Integers times an fp16 scale."""
    at = _offsets(group, groups)
    inside = at < count
    pattern = _patterns(source, at, inside, half)
    values = pattern.to(tl.float32, bitcast=True)
    largest = tl.max(pattern & MAGNITUDE, axis=1).to(tl.float32, bitcast=True)
    if source.dtype.element_ty == tl.int32:
        # In float64 as the golden model has it: a quotient of float32 could be rounded onto a
        # midpoint.
        exact = tl.where(largest == 0, 1.0, largest.to(tl.float64) / top)
        # fp16: the exponent's power of two by its bits, the last place 2^-10 of it.
        field = (exact.to(tl.int64, bitcast=True) >> 52) & 0x7FF
        place = ((tl.maximum(field, 1023 - 14) - 10) << 52).to(tl.float64, bitcast=True)
        scale = ((exact / place + ROUND64) - ROUND64) * place
        codes = ((values.to(tl.float64) / scale[:, None] + ROUND64) - ROUND64).to(tl.float32)
        step = scale.to(tl.float32)
    else:
        # Numbers of 11 bits, a divisor of 7: no quotient is closer than 2^-20 of itself to a
        # midpoint of fp16, if not on it, so float32 rounds it to the right side.
        exact = tl.where(largest == 0, 1.0, tl.div_rn(largest, top + largest * 0))
        place = _binade(exact.to(tl.int32, bitcast=True)) * FP16_LAST
        step = ((exact * _inverse(place) + ROUND32) - ROUND32) * place
        # Nor is one of two numbers of 11 bits closer than 2^-12 to a midpoint of integers: the
        # product with an inverse, rounded to multiples of 2^-13, is on it where the quotient is.
        inverse = tl.div_rn(step * 0 + 1.0, step)
        near = (values * inverse[:, None] + SNAP) - SNAP
        codes = (near + ROUND32) - ROUND32
    codes = tl.minimum(tl.maximum(codes, -top - 1.0), top)
    _store(target, at, inside, (codes * step[:, None]).to(tl.int32, bitcast=True), False)


@triton.jit
def minifloat_kernel(
    source, target, count, half: tl.constexpr, group: tl.constexpr, groups: tl.constexpr,
    last: tl.constexpr, smallest: tl.constexpr, reach: tl.constexpr, power: tl.constexpr,
):  # fmt: skip
    """An element of few bits under a power of two, then the bf16 that a decompressor makes."""
    at = _offsets(group, groups)
    inside = at < count
    bits = _patterns(source, at, inside, half)
    magnitude = bits & MAGNITUDE
    # Below the normal numbers any exponent ends at the smallest scale.
    exponent = tl.maximum((tl.max(magnitude, axis=1) >> 23) - 127 - power, -E8M0_BIAS)
    quotient = magnitude.to(tl.float32, bitcast=True) * _power(-exponent)[:, None]
    binade = (quotient.to(tl.int32, bitcast=True) & EXPONENT).to(tl.float32, bitcast=True)
    step = tl.maximum(binade, smallest) * last
    rounded = (quotient * _inverse(step) + ROUND32) - ROUND32
    # The scale may be 2^-127, below the normal numbers: half of the element times twice the scale.
    halved = tl.minimum(rounded * (step * 0.5), reach * 0.5)
    product = halved * _power(exponent + 1)[:, None]
    # Few bits fit into a bf16 as they are; its subnormals become zeros of their sign, and
    # elements that are 0 have none.
    word = tl.where(product < SMALLEST, 0, product.to(tl.int32, bitcast=True))
    word |= tl.where(rounded == 0, 0, bits & SIGN)
    _store(target, at, inside, word, True)
