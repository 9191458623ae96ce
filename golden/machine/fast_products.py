"""Products of activations with a part's weights, as numpy finds them soonest.

A sum over a group is exact: whole numbers of 8 and of 4 bits, and one power of two. So their order
is free. Partial sums are rounded, and added one behind the other.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
FEW_BANKS = 2  # that are multiplied one by one


class PartWeights(NamedTuple):
    """Weights of a part of a matrix."""

    values: Floats  # (groups, columns, group)
    scales: Floats  # (groups, 1, columns)

    def product(self, activations: Floats) -> Floats:
        """Sums (banks, columns) of activations (groups, banks, group)."""
        rounded = self._sums(activations).astype(np.float16).astype(np.float32)
        rounded *= self.scales
        return added(rounded)

    def _sums(self, activations: Floats) -> Floats:
        """(groups, banks, columns), each over one group."""
        banks = activations.shape[1]
        if banks > FEW_BANKS:
            return (self.values @ activations.swapaxes(1, 2)).swapaxes(1, 2)
        across = self.values.swapaxes(1, 2)
        if banks == 1:
            return activations @ across
        return np.concatenate([activations[:, k : k + 1] @ across for k in range(banks)], axis=1)


class Banks(NamedTuple):
    """Activations of all banks, of which those without a token of their own are mostly alike."""

    distinct: Floats  # (groups, some banks, group)
    place: NDArray[np.intp]  # of every bank among them

    @classmethod
    def of(cls, activations: Floats) -> "Banks":
        """Compare (groups, banks, group) bank by bank, in every bit."""
        places: dict[bytes, int] = {}
        by_bank = activations.swapaxes(0, 1)
        place = [places.setdefault(bank.tobytes(), len(places)) for bank in by_bank]
        first = [place.index(k) for k in range(len(places))]
        return cls(np.ascontiguousarray(activations[:, first]), np.array(place))


def added(partials: Floats) -> Floats:
    """The sum over the first axis, from zero.

    Each addition rounds, so their order is part of the result: numpy adds one after the other along
    the first axis.
    """
    total: Floats = np.add.reduce(partials, axis=0, initial=np.float32(0))
    return total
