"""Products with the accelerators' accumulation order and roundings, for checks.

Slow: a step per group of inputs. Results equal ``tilewright.golden.anda.dot_products.gemm``,
``tilewright.golden.harmonia.gemm`` and ``tilewright.golden.deca.gemm`` in every bit, on any device
whose float32 products are not shortened (``torch.backends.cuda.matmul.allow_tf32`` off).
"""

from __future__ import annotations

import torch

from tilewright.torch.convert import BF16_SMALLEST, Blocks, IntegerWeights, Tensor, block_parts

# A sum below it rounds to less than the smallest normal float32, whatever the exponent's range.
FP32_FLUSH = BF16_SMALLEST - 2.0**-151
AMX_DEPTH = 32  # bf16 elements of a tile's row


def integer_product(
    activations: Tensor,
    weights: IntegerWeights,
    group: int,
    mantissa_bits: int,
    partial: torch.dtype = torch.float16,
) -> Tensor:
    """fp16 (..., outputs): block floating point by integer weights, as Anda and Harmonia sum.

    Per group the exact sum, rounded to ``partial``; times the weight scale into float32; added to
    a float32 sum from +0 in the order of the groups; the sum leaves as fp16.
    """
    rows = activations.reshape(-1, activations.shape[-1])
    values = block_parts(rows, group, mantissa_bits).values(mantissa_bits).double()
    groups = values.shape[1]
    outputs = weights.values.shape[0]
    missing = groups * group - weights.values.shape[1]
    factors = torch.nn.functional.pad(weights.values.double(), (0, missing))
    factors = factors.unflatten(1, (groups, group))
    scales = weights.scales.float().repeat_interleave(weights.group // group, dim=1)
    total = torch.zeros(len(rows), outputs, device=rows.device)
    for k in range(groups):
        # Integers below 2^53 times a power of two: exact in any order of summation.
        sums = values[:, k] @ factors[:, k].T
        total = total + _partial(sums, partial) * scales[:, k]
    return total.half().reshape(*activations.shape[:-1], outputs)


def block_product(
    a: Blocks, a_bits: int, b: Blocks, b_bits: Tensor, partial: torch.dtype = torch.float16
) -> Tensor:
    """fp16 (rows of a, rows of b): both operands in block floating point, as Harmonia sums.

    ``b_bits`` (rows of b, groups) are the mantissa lengths of b's groups.
    """
    left = a.values(a_bits).double()
    step = Blocks(b.sign, b.mantissa, b.exponent - (b_bits.int() - 1)).values(1).double()
    total = torch.zeros(len(left), len(step), device=left.device)
    for k in range(left.shape[1]):
        total = total + _partial(left[:, k] @ step[:, k].T, partial)
    return total.half()


def _partial(sums: Tensor, dtype: torch.dtype) -> Tensor:
    """Exact float64 sums rounded once to ``dtype``, as float32; they have at most 24 bits."""
    return sums.float().to(dtype).float()


def amx_product(weights: Tensor, activations: Tensor) -> Tensor:
    """float32 (rows, batch) of bf16 weights (rows, inputs) and activations (batch, inputs).

    TDPBF16PS over tiles of 32 inputs from left to right: even and odd inputs apart, each by fused
    multiply-adds from +0; subnormals count as zero and become zero at every step.
    """
    missing = -weights.shape[1] % AMX_DEPTH
    left, right = (
        _without_subnormals(torch.nn.functional.pad(x.float(), (0, missing))).double()
        for x in (weights, activations)
    )
    total = torch.zeros(len(left), len(right), device=left.device)
    for first in range(0, left.shape[1], AMX_DEPTH):
        sums = [torch.zeros_like(total), torch.zeros_like(total)]
        for k in range(first, first + AMX_DEPTH, 2):
            for parity in (0, 1):
                x, y = left[:, k + parity, None], right[None, :, k + parity]
                sums[parity] = _fused(x * y, sums[parity])
        total = _flushed_sum(total, _flushed_sum(*sums))
    return total


def _without_subnormals(values: Tensor) -> Tensor:
    return torch.where(values.abs() < BF16_SMALLEST, values * 0, values)


def _flushed_sum(a: Tensor, b: Tensor) -> Tensor:
    return _fused(a.double(), b)


def _fused(product: Tensor, total: Tensor) -> Tensor:
    """An exact float64 product plus a float32, rounded once to float32, subnormals to zero."""
    wide = total.double()
    near = product + wide
    # The part lost (Knuth's two-sum); its sign tells on which side of ``near`` the sum lies.
    other = near - product
    lost = (product - (near - other)) + (wide - other)
    bits = near.view(torch.int64)
    beyond = (lost > 0) == (near > 0)
    odd = torch.where(beyond, bits | 1, torch.where(bits & 1 == 0, bits - 1, bits))
    inexact = torch.isfinite(near) & (lost != 0)
    exact = torch.where(inexact, odd, bits).view(torch.float64)
    return torch.where(exact.abs() < FP32_FLUSH, exact * 0, exact).float()
