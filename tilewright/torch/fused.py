"""Conversions as one Triton kernel each, with the bits of ``tilewright.torch.convert``.

A conversion in plain PyTorch reads and writes a tensor a dozen times; a kernel reads it once and
writes it once. ``tilewright.torch.convert`` asks ``usable`` and takes these where they serve:
contiguous tensors on a GPU, groups that are powers of two, outside of ``torch.compile``, which
fuses plain PyTorch by itself. Rows whose last group is short are padded on the way.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import torch

LANES = 4096  # elements of one program: a multiple of every group that is used
LONGEST_GROUP = 1024
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


class MiniFloat(NamedTuple):
    """Elements of few bits under a power-of-two scale: the formats of the OCP specification."""

    last: float  # weight of the last bit over that of the leading one
    smallest: float  # normal number
    largest: float
    power: int  # exponent of the largest one


def usable(values: torch.Tensor, group: int) -> bool:
    """Whether a tensor's groups along the last axis can be converted by a kernel."""
    return (
        values.is_cuda
        and not torch.compiler.is_compiling()
        and _has_triton()
        and values.dtype in DTYPES
        and values.is_contiguous()
        and values.numel() > 0
        and fits(group)
    )


def fits(group: int) -> bool:
    return group & (group - 1) == 0 and group <= LONGEST_GROUP


def _has_triton() -> bool:
    global _found
    if _found is None:
        _found = find_spec("triton") is not None
    return _found


_found: bool | None = None


def block_float(
    values: torch.Tensor, group: int, mantissa_bits: int, dtype: torch.dtype
) -> torch.Tensor:
    """``to_block_float(values, group, mantissa_bits).to(dtype)``."""
    from tilewright.torch import _kernels

    return _converted(_kernels.block_float_kernel, values, dtype, group, 2.0 ** (1 - mantissa_bits))


def integers(weights: torch.Tensor, bits: int, group: int, dtype: torch.dtype) -> torch.Tensor:
    """``quantise_integers(weights, bits, group).dequantised().to(dtype)``."""
    from tilewright.torch import _kernels

    top = float((1 << (bits - 1)) - 1)
    return _converted(_kernels.integer_kernel, weights, dtype, group, top)


def minifloat(
    values: torch.Tensor, group: int, form: MiniFloat, dtype: torch.dtype
) -> torch.Tensor:
    """``along_inputs(book, values).to(dtype)`` of a format whose scale is a power of two."""
    from tilewright.torch import _kernels

    return _converted(_kernels.minifloat_kernel, values, dtype, group, *form)


def _converted(
    kernel: Any, values: torch.Tensor, dtype: torch.dtype, group: int, *rest: Any
) -> torch.Tensor:
    """One program for every ``LANES`` elements."""
    length = values.shape[-1]
    if length % group:
        values = torch.nn.functional.pad(values, (0, -length % group))
    out = torch.empty_like(values, dtype=dtype)
    lanes = max(LANES, group)
    # As integers: a GPU's conversion of a NaN loses its sign.
    kind = torch.int32 if values.dtype == torch.float32 else torch.int16
    target = out.view(torch.int16) if dtype == torch.bfloat16 else out
    half = values.dtype == torch.float16
    kernel[(-(-values.numel() // lanes),)](
        values.view(kind), target, values.numel(), half, group, lanes // group, *rest
    )
    return out[..., :length] if length % group else out
