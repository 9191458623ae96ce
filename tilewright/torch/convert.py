"""Conversions in PyTorch that equal the golden models bit for bit, on any device.

Every step is exact or rounds once by IEEE rules, so a processor, a GPU and the golden models give
the same bits, compiled or not; on a GPU with Triton ``tilewright.torch.fused`` has them as single
kernels. Block floating point and integer weights keep subnormals: where a device or a mode
flushes them (``torch.set_flush_denormal``), values below 2^-126 are lost, which no fp16 value is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp
from typing import NamedTuple, TypeAlias

import torch

from tilewright.golden.deca.quantise import thresholds_of
from tilewright.golden.deca.scheme import Scheme, float_book
from tilewright.golden.params.deca import TILE_ROWS, ScaleKind
from tilewright.golden.params.formats import E2M1, E2M3, E3M2, E4M3, E5M2
from tilewright.torch import fused

Tensor: TypeAlias = torch.Tensor

EXPONENT, MAGNITUDE, SIGN = 0x7F800000, 0x7FFFFFFF, -(1 << 31)  # of a float32
INVERSE = 254 << 23  # pattern of a power of two plus that of its inverse
SMALLEST_NORMAL, LARGEST = 2.0**-14, 65504.0  # of fp16
BEYOND = 65520.0  # from here on fp16 rounds to infinity
FP16_LARGEST = 0x477FE000  # as a pattern of float32
FP16_BIAS, FP16_FRACTION = 15, 10
BF16_SMALLEST = 2.0**-126
# Products below it round to less than the smallest normal bf16, whatever the exponent's range.
BF16_FLUSH = BF16_SMALLEST - 2.0**-135
BF16_LARGEST = 2.0**128 - 2.0**120
E8M0_BIAS = 127


def to_fp16(values: Tensor) -> Tensor:
    """fp16 values as float32; beyond fp16, and NaN, its largest magnitude, with their signs."""
    # By their bits: a cast of a NaN may lose its sign, and a minimum may keep a signalling NaN.
    negative = values.view(torch.int32 if values.dtype == torch.float32 else torch.int16) < 0
    magnitude = values.float().view(torch.int32) & MAGNITUDE
    magnitude = _nearest_half(magnitude.clamp(max=FP16_LARGEST).view(torch.float32))
    return _signed(magnitude, negative)


def _signed(magnitude: Tensor, negative: Tensor) -> Tensor:
    """Magnitudes with their signs, by the bit: a compiled ``-x`` may be 0 - x, which loses -0."""
    bits = magnitude.view(torch.int32)
    return torch.where(negative, bits | SIGN, bits).view(torch.float32)


def _nearest_half(magnitude: Tensor) -> Tensor:
    """Magnitudes up to fp16's largest, rounded to fp16, as float32."""
    if not torch.compiler.is_compiling():
        return magnitude.half().float()
    # A compiler may leave out a cast to fp16 and back: the rounding by arithmetic.
    step = mantissa_step(magnitude, FP16_FRACTION + 1)
    return (magnitude * _inverse(step)).round() * step


def round_half(values: Tensor) -> Tensor:
    """Values rounded to fp16, as float32; infinity beyond its largest."""
    if not torch.compiler.is_compiling():
        return values.half().float()
    wide = values.float()
    magnitude = wide.abs()
    near = _nearest_half(magnitude.clamp(max=LARGEST))
    return torch.where(magnitude < BEYOND, near, torch.inf).copysign(wide)


def _nearest_bf16(values: Tensor) -> Tensor:
    if not torch.compiler.is_compiling():
        return values.bfloat16().float()
    bits = values.view(torch.int32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & ~0xFFFF).view(torch.float32)


def _inverse(power: Tensor) -> Tensor:
    """1 / a power of two of 2^-126..2^126, exactly: a compiled division may be one bit off."""
    return (INVERSE - power.view(torch.int32)).view(torch.float32)


def _quotient(values: Tensor, divisors: Tensor) -> Tensor:
    """float32 quotients rounded once: compiled, by float64, which rounds the same in the end."""
    if not torch.compiler.is_compiling():
        return values / divisors
    return (values.double() / divisors.double()).float()


def power_of_two(exponent: Tensor) -> Tensor:
    """2^exponent as float32, exactly: ``exp2`` of a device may be one bit off."""
    return ((exponent.long() + 1023) << 52).view(torch.float64).float()


def mantissa_step(largest: Tensor, mantissa_bits: int) -> Tensor:
    """Value of a mantissa's last bit where ``largest`` is a group's largest magnitude."""
    power = (largest.view(torch.int32) & EXPONENT).view(torch.float32)
    return power.clamp(min=SMALLEST_NORMAL) * 2.0 ** (1 - mantissa_bits)


def to_block_float(
    values: Tensor, group: int, mantissa_bits: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Block floating point along the last axis, exact in float32, else rounded to ``dtype``.

    Equals ``bfp.decode(fmt, bfp.encode(fmt, fp16(values), saturate=True))`` of
    ``tilewright.golden``, signs of zero included. The last group may be short.
    """
    if fused.usable(values, group):
        return fused.block_float(values, group, mantissa_bits, dtype)
    length = values.shape[-1]
    halves = _grouped(to_fp16(values), group)
    step = mantissa_step(halves.abs().amax(-1, keepdim=True), mantissa_bits)
    return ((halves * _inverse(step)).trunc() * step).flatten(-2)[..., :length].to(dtype)


class Blocks(NamedTuple):
    """The fields of ``tilewright.golden.bfp.Blocks``: (..., groups, group), and one exponent."""

    sign: Tensor  # bool
    mantissa: Tensor  # int32
    exponent: Tensor  # int32 (..., groups), fp16's biased form

    def values(self, mantissa_bits: int) -> Tensor:
        """Exact values (..., groups, group) as float32."""
        magnitude = self.mantissa.float() * self.step(mantissa_bits)[..., None]
        return _signed(magnitude, self.sign)

    def step(self, mantissa_bits: int) -> Tensor:
        """Value of the last bit of a group's mantissas."""
        return power_of_two(self.exponent - FP16_BIAS - (mantissa_bits - 1))


def block_parts(values: Tensor, group: int, mantissa_bits: int) -> Blocks:
    """Signs, mantissas and exponents of values in block floating point; see ``to_block_float``."""
    halves = _grouped(to_fp16(values), group)
    largest = halves.abs().amax(-1)
    step = mantissa_step(largest, mantissa_bits)
    field = (largest.view(torch.int32) >> 23) - 127 + FP16_BIAS
    mantissa = (halves.abs() * _inverse(step)[..., None]).to(torch.int32)
    return Blocks(halves.signbit(), mantissa, field.clamp(min=1))


def _grouped(values: Tensor, group: int) -> Tensor:
    """(..., length) -> (..., groups, group), padded with 0."""
    missing = -values.shape[-1] % group
    if missing:
        values = torch.nn.functional.pad(values, (0, missing))
    return values.unflatten(-1, (-1, group))


class IntegerWeights(NamedTuple):
    """``tilewright.golden.weights.Weights``: integers and an fp16 scale per group of inputs."""

    values: Tensor  # int8 (outputs, inputs)
    scales: Tensor  # fp16 (outputs, groups)
    group: int

    def dequantised(self) -> Tensor:
        """The float32 values that the integers and scales stand for, exactly."""
        inputs = self.values.shape[1]
        steps = self.scales.float().repeat_interleave(self.group, dim=1)[:, :inputs]
        return self.values.float() * steps


def quantise_integers(weights: Tensor, bits: int, group: int) -> IntegerWeights:
    """Round to nearest, symmetric: ``tilewright.golden.weights.quantise``, bit for bit.

    Groups whose scale fp16 cannot hold are refused by ``weights_problem`` before.
    """
    inputs = weights.shape[1]
    grouped = _grouped(weights.double(), group)
    top = (1 << (bits - 1)) - 1
    largest = grouped.abs().amax(-1)
    scales = _nearest_fp16(torch.where(largest == 0, 1.0, largest / top))
    codes = (grouped / scales[..., None]).round().clamp(-top - 1, top)
    return IntegerWeights(codes.flatten(1)[:, :inputs].to(torch.int8), scales.half(), group)


def integer_values(
    weights: Tensor, bits: int, group: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Values of the integers of ``quantise_integers``, rounded to ``dtype``."""
    if fused.usable(weights, group):
        return fused.integers(weights, bits, group, dtype)
    return quantise_integers(weights, bits, group).dequantised().to(dtype)


def _nearest_fp16(values: Tensor) -> Tensor:
    """Nonnegative float64 values rounded once to fp16, still float64; infinity beyond it."""
    _, exponent = torch.frexp(values)  # PyTorch's own cast goes through float32: it rounds twice
    step = power_of_two((exponent - 1).clamp(min=-14) - FP16_FRACTION).double()
    nearest = (values / step).round() * step
    return torch.where(nearest > LARGEST, torch.inf, nearest)


@dataclass(frozen=True)
class Book:
    """A scheme for a device: plain numbers, and tables of patterns that no cast of a model changes.

    16-bit elements are their own codes: their tables are empty.
    """

    scale: str  # none, e8m0 or bf16
    reach: float  # what a scale maps a group's largest magnitude to
    reach_power: int  # its exponent
    group: int  # elements that share a scale
    width: int  # columns of a tile
    thresholds: Tensor  # int32 patterns of float32: from here on, inclusive, the next value
    codes: Tensor  # uint8 in the order of the values
    values: Tensor  # int16 patterns of bf16, by code
    mini: fused.MiniFloat | None = None  # where a kernel rounds instead of looking up


def book_of(scheme: Scheme, device: torch.device | str = "cpu") -> Book:
    """The tables of a scheme for ``device``."""
    if scheme.config.int8:
        raise ValueError(
            f"{scheme.name}: tiles of int8 multiply int8 activations, which no layer has"
        )
    thresholds, codes, values = (torch.zeros(0, dtype=torch.int32),) * 3
    if scheme.book:
        ordered, limits = thresholds_of(scheme.values)
        patterns = torch.tensor(scheme.book, dtype=torch.int32)
        thresholds = torch.from_numpy(limits).view(torch.int32)
        codes = torch.from_numpy(ordered)
        values = torch.where(patterns >= 1 << 15, patterns - (1 << 16), patterns)
    return Book(
        scale=scheme.config.scale.value,
        reach=float(scheme.reach),
        reach_power=frexp(scheme.reach)[1] - 1,
        group=scheme.config.group,
        width=scheme.config.elements // TILE_ROWS,
        thresholds=thresholds.to(device),
        codes=codes.to(device, torch.uint8),
        values=values.to(device, torch.int16),
        mini=_mini_float(scheme),
    )


def _mini_float(scheme: Scheme) -> fused.MiniFloat | None:
    """The floating point format of a scheme with power-of-two scales, if it is one."""
    if scheme.config.scale is not ScaleKind.E8M0:
        return None
    for form in (E5M2, E4M3, E3M2, E2M3, E2M1):
        if scheme.book == float_book(form):
            reach, power = float(scheme.reach), frexp(scheme.reach)[1] - 1
            return fused.MiniFloat(2.0**-form.mantissa_bits, 2.0 ** (1 - form.bias), reach, power)
    return None


def code_groups(book: Book, groups: Tensor) -> tuple[Tensor, Tensor]:
    """Codes and float32 scales (..., 1) of finite float32 groups (..., group).

    Codes are those of ``tilewright.golden.deca.quantise``; 16-bit elements are bf16 values.
    """
    if book.scale == "none":
        scales = torch.ones((), device=groups.device)
        quotients = groups
    else:
        scales = _group_scales(book, groups.abs().amax(-1, keepdim=True))
        quotients = _quotient(groups, scales)
    if book.codes.numel() == 0:
        return quotients.clamp(-BF16_LARGEST, BF16_LARGEST).bfloat16(), scales
    index = torch.bucketize(quotients, book.thresholds.view(torch.float32), right=True)
    return book.codes[index], scales


def _group_scales(book: Book, largest: Tensor) -> Tensor:
    if book.scale == "bf16":
        exact = largest.double() / book.reach
        rounded = _nearest_bf16(_odd_float32(exact).clamp(max=BF16_LARGEST))
        return rounded.clamp(min=BF16_SMALLEST)  # the scaler counts a subnormal scale as zero
    _, exponent = torch.frexp(largest)
    power = torch.where(largest > 0, exponent - 1 - book.reach_power, -E8M0_BIAS)
    return power_of_two(power.clamp(-E8M0_BIAS, E8M0_BIAS))


def _odd_float32(values: Tensor) -> Tensor:
    """Nonnegative float64 as float32, the last bit set where inexact: rounding again is the first.

    The next rounding, to bf16, then sees on which side of a midpoint the value was.
    """
    near = values.float()
    low = torch.where(near.double() > values, near.view(torch.int32) - 1, near.view(torch.int32))
    inexact = low.view(torch.float32).double() != values
    return torch.where(inexact, low | 1, low).view(torch.float32)


def to_scheme(book: Book, groups: Tensor) -> Tensor:
    """Decode groups (..., group) as hardware does: bf16 values as float32."""
    if book.mini is not None and fused.usable(groups, book.group):
        return fused.minifloat(groups, book.group, book.mini, torch.float32)
    return restore_scheme(book, *code_groups(book, groups))


def restore_scheme(book: Book, codes: Tensor, scales: Tensor) -> Tensor:
    """``tilewright.golden.deca.decompress`` of codes and scales, as float32.

    A product is rounded once to bf16; what is subnormal then becomes a zero of its sign.
    """
    if book.codes.numel():
        elements = book.values.view(torch.bfloat16)[codes.int()].float()
    else:
        elements = codes.float()
    if book.scale == "none":
        return elements
    flushed = torch.where(elements.abs() < BF16_SMALLEST, elements * 0, elements)
    product = flushed * scales
    rounded = _nearest_bf16(product)
    return torch.where(product.abs() < BF16_FLUSH, product * 0, rounded)


def along_inputs(book: Book, values: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Values in groups along the last axis through the book: activations in an MX format."""
    if book.mini is not None and fused.usable(values, book.group):
        return fused.minifloat(values, book.group, book.mini, dtype)
    length = values.shape[-1]
    groups = _grouped(values.float(), book.group)
    return to_scheme(book, groups).flatten(-2)[..., :length].to(dtype)


def weight_tiles(book: Book, matrix: Tensor) -> Tensor:
    """(rows, columns) -> (tiles, elements) in the order of DECA's tiles, padded with 0."""
    rows, columns = matrix.shape
    padded = torch.nn.functional.pad(matrix, (0, -columns % book.width, 0, -rows % TILE_ROWS))
    blocks = padded.unflatten(0, (-1, TILE_ROWS)).unflatten(2, (-1, book.width)).transpose(1, 2)
    return blocks.reshape(-1, TILE_ROWS * book.width)


def weights_of_tiles(book: Book, tiles: Tensor, rows: int, columns: int) -> Tensor:
    along = -(-columns // book.width)
    blocks = tiles.reshape(-1, along, TILE_ROWS, book.width).transpose(1, 2)
    return blocks.reshape(-1, along * book.width)[:rows, :columns]


def compressed_weights(book: Book, matrix: Tensor, density: float | None = None) -> Tensor:
    """The float32 weights that a multiplication with the compressed matrix uses.

    ``tilewright.golden.deca``'s ``restore(compress(matrix, scheme, density))``: with a density the
    round(density * weights) largest magnitudes stay, the first of equal ones in tile order.
    """
    rows, columns = matrix.shape
    tiles = weight_tiles(book, matrix.float())
    mask = None
    if density is not None:
        mask = prune_mask(tiles, round(density * rows * columns))
        tiles = torch.where(mask, tiles, 0.0)
    values = to_scheme(book, tiles.reshape(-1, book.group)).reshape(tiles.shape)
    if mask is not None:
        values = torch.where(mask, values, 0.0)
    return weights_of_tiles(book, values, rows, columns)


def prune_mask(tiles: Tensor, keep: int) -> Tensor:
    """Which elements stay if the ``keep`` largest magnitudes do; the first of equal ones.

    As ``tilewright.golden.deca.quantise``: zeros never stay.
    """
    magnitude = tiles.float().reshape(-1).view(torch.int32) & 0x7FFFFFFF
    if keep == 0:
        return torch.zeros_like(tiles, dtype=torch.bool)
    order = magnitude.sort(descending=True).values
    limit = order[min(keep, magnitude.numel()) - 1]
    stay = magnitude > limit
    ties = keep - stay.sum()
    equal = (magnitude == limit) & (limit > 0)
    return (stay | (equal & (equal.cumsum(0) <= ties))).reshape(tiles.shape)


class _StraightThrough(torch.autograd.Function):
    """The converted values forward, the gradient unchanged backward."""

    @staticmethod
    def forward(ctx: object, values: Tensor, converted: Tensor) -> Tensor:
        return converted.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def straight_through(values: Tensor, converted: Tensor) -> Tensor:
    """``converted`` for the forward pass; gradients pass as if nothing had been converted."""
    result = _StraightThrough.apply(values, converted.to(values.dtype))
    return result
