"""Converted activations of a product, as Harmonia loads them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.plan import Matrix
from tilewright.golden.harmonia_machine import layout

__all__ = ["activation_rows"]


def activation_rows(machine: Any, matrix: Matrix, values: NDArray[np.uint16]) -> list[NDArray]:
    """Rows of mantissas, signs and exponents of a token tile."""
    return list(layout.activation_rows(machine.params, values))
