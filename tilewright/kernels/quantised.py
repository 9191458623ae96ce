"""Weights that were quantised elsewhere, for the look-up kernels: codes and scales as they are.

``FORMS`` have the values of their codes. Rows are outputs, groups lie along the inputs:

    q4_0, iq4_nl, mxfp4   blocks of 32 in files of llama.cpp, with an fp16 or e8m0 scale
    nvfp4                 e2m1 in groups of 16 with e4m3 scales, and an fp32 scale of the tensor
    w4a16                 int4 in groups of 32 or a multiple, with fp16 or bf16 scales
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca.scheme import float_book, int_book, value_book
from tilewright.golden.gguf_blocks import IQ4_NL_VALUES
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import E2M1
from tilewright.golden.sparamx.coded import ROW, CodedWeights, lay_out

FORMS = {
    "q4_0": value_book(range(-8, 8)),
    "iq4_nl": value_book(IQ4_NL_VALUES),
    "mxfp4": float_book(E2M1),
    "nvfp4": float_book(E2M1),
    "w4a16": int_book(4),
}
BLOCKS = {"q4_0": "fp16", "iq4_nl": "fp16", "mxfp4": "e8m0"}  # of GGUF, and their scale


class Quantised(NamedTuple):
    """A matrix in one of ``FORMS``."""

    form: str
    codes: NDArray[np.uint8]  # (outputs, inputs)
    scales: NDArray  # (outputs, groups) patterns
    scale: str  # their format, a name of golden.sparamx.coded.SCALES
    tensor_scale: float = 1.0

    def rows(self, order: NDArray[np.int64]) -> "Quantised":
        """The matrix with its rows in another order."""
        return self._replace(codes=self.codes[order], scales=self.scales[order])


def lay_out_rows(parts: Sequence[Quantised], order: NDArray[np.int64]) -> CodedWeights:
    """Matrices one below the other, then with rows in ``order``, as one; they must be alike."""
    first = parts[0]
    for part in parts[1:]:
        require(part.form == first.form, f"layers of one product are {first.form} and {part.form}")
        require(
            part.tensor_scale == first.tensor_scale,
            f"layers of one product have tensor scales of {first.tensor_scale:g} and"
            f" {part.tensor_scale:g}",
        )
    codes = np.concatenate([part.codes for part in parts])[order]
    scales = np.concatenate([part.scales for part in parts])[order]
    values = np.array(FORMS[first.form], np.uint16)
    return lay_out(codes, scales, values, first.scale, first.tensor_scale)


def from_blocks(form: str, data: NDArray[np.uint8]) -> Quantised:
    """Rows of a GGUF tensor: a scale, then the low and the high halves of 16 bytes."""
    head = 1 if BLOCKS[form] == "e8m0" else 2
    blocks = data.reshape(len(data), -1, head + ROW // 2)
    scales = np.ascontiguousarray(blocks[..., :head])
    codes = np.concatenate([blocks[..., head:] & 15, blocks[..., head:] >> 4], axis=-1)
    patterns = scales[..., 0] if head == 1 else scales.view("<u2")[..., 0]
    return Quantised(form, codes.reshape(len(data), -1), patterns, BLOCKS[form])


def nvfp4(packed: NDArray[np.uint8], scales: NDArray[np.uint8], divisor: float) -> Quantised:
    """Two codes a byte, the first one in the low half; scales are to be divided by ``divisor``."""
    tensor_scale = float(np.float32(1) / np.float32(divisor))
    return Quantised("nvfp4", _halves(packed), scales, "e4m3", tensor_scale)


def w4a16(
    packed: NDArray[np.int32], scales: NDArray[np.uint16], scale: str, inputs: int
) -> Quantised:
    """Words of eight codes, which are 8 above their value, the first one in the lowest bits."""
    codes = _halves(np.ascontiguousarray(packed).view(np.uint8))[:, :inputs] ^ np.uint8(8)
    group, rest = divmod(inputs, scales.shape[1])
    require(not rest and not group % ROW, f"groups of {inputs / scales.shape[1]:g} weights")
    return Quantised("w4a16", codes, scales.repeat(group // ROW, axis=1), scale)


def _halves(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)
