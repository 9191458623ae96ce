"""Weights compressed as DECA reads them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.base.table import Reported, Table
from tilewright.golden.deca import CompressedMatrix, resolve_scheme
from tilewright.golden.deca import compress as compress_matrix
from tilewright.golden.deca import restore as restore_matrix

if TYPE_CHECKING:
    from tilewright.golden.deca.packed import PackedModel


def compress(
    weights: ArrayLike, scheme: str = "mxfp4", *, density: float | None = None
) -> Compressed:
    """Prune, quantise and pack a matrix of weights for DECA.

    Parameters
    ----------
    weights
        A matrix; its sides are multiples of a tile's.
    scheme
        ``NAME[,group=N][,scale=none|e8m0|bf16]``, such as ``mxfp4``, ``bf8`` or ``int4,group=32``.
    density
        The share of weights that stay, the largest ones; None stores all of them.

    Examples
    --------
    >>> import numpy as np, tilewright as tw
    >>> weights = np.random.default_rng(0).normal(size=(64, 128))
    >>> packed = tw.compress(weights, "mxfp4", density=0.5)
    >>> f"{packed.bits_per_weight:.2f} bits, {packed.snr_db:.1f} dB"
    '3.25 bits, 10.7 dB'
    """
    values = np.asarray(weights, np.float32)
    if values.ndim != 2:
        raise ValueError(f"weights must be a matrix, not an array of {values.ndim} dimensions")
    return Compressed(values, compress_matrix(values, resolve_scheme(scheme), density))


@dataclass(frozen=True, eq=False)
class Compressed(Reported):
    """A compressed matrix and the weights that it was made from."""

    original: NDArray[np.float32]
    matrix: CompressedMatrix

    @property
    def bytes(self) -> int:
        """Bytes that a core reads to multiply with the matrix."""
        return self.matrix.size

    @property
    def bits_per_weight(self) -> float:
        """Stored bits over the number of weights, zeros included."""
        return 8 * self.matrix.size / prod(self.matrix.shape)

    def restore(self) -> NDArray[np.float32]:
        """Return the weights that DECA's tiles hold."""
        return restore_matrix(self.matrix)

    @property
    def snr_db(self) -> float:
        """Power of the weights over that of the error, in decibels."""
        error = self.restore() - self.original
        power = float(np.mean(np.square(self.original, dtype=np.float64)))
        noise = float(np.mean(np.square(error, dtype=np.float64)))
        return float("inf") if noise == 0 else 10 * float(np.log10(power / noise))

    @property
    def metrics(self) -> dict[str, float]:
        """Figures to compare with those of another scheme."""
        return {
            "bytes": self.bytes,
            "bits per weight": self.bits_per_weight,
            "SNR (dB)": self.snr_db,
        }

    @property
    def title(self) -> str:
        """Shape and scheme."""
        rows, columns = self.matrix.shape
        return f"{rows}x{columns} {self.matrix.scheme.name}"

    @property
    def report(self) -> Table:
        """Size and error."""
        rows = [(name, f"{value:.5g}") for name, value in self.metrics.items()]
        return Table(("FIGURE", "VALUE"), rows, self.title)


@dataclass(frozen=True)
class PackedWeights(Reported):
    """A packed file of ``tilewright pack``; its matrices are read when they are asked for."""

    path: Path
    model: PackedModel

    def __getitem__(self, name: str) -> CompressedMatrix:
        """The matrix of a tensor that is stored compressed."""
        return self.model.matrix(name)

    @property
    def report(self) -> Table:
        """One row for each tensor."""
        rows = [
            (name, "x".join(map(str, t.shape)), t.scheme.name if t.scheme else t.dtype, t.size)
            for name, t in self.model.tensors.items()
        ]
        return Table(("TENSOR", "SHAPE", "STORED AS", "BYTES"), rows, str(self.path))
