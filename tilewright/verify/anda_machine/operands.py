"""Converted activations of a product, as Anda loads them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.plan import Matrix
from tilewright.golden.anda_machine.layout import anda_rows

__all__ = ["activation_rows"]


def activation_rows(machine: Any, matrix: Matrix, values: NDArray[np.uint16]) -> list[NDArray]:
    """Rows of mantissas and of exponents of a token tile."""
    return list(anda_rows(machine.params, machine.mantissa(matrix), values))
