"""Products of activations with weights or cached keys and values, as fast as numpy has them.

The sum of a group is exact in any order: products of short integers and one power of two. It is
rounded to fp16, scaled, and added in fp32, group after group.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
FEW_BANKS = 2  # up to which banks are multiplied one by one


class PartWeights(NamedTuple):
    """Second operands of a part of a matrix; without scales those are 1."""

    values: Floats  # (groups, columns, group)
    scales: Floats | None = None  # (groups, 1, columns)

    def product(self, activations: Floats, before: Floats | None = None) -> Floats:
        """Sums (banks, columns) of activations (groups, banks, group), from those ``before`` on."""
        partials = self._sums(activations).astype(np.float16).astype(np.float32)
        if self.scales is not None:
            partials *= self.scales
        if before is not None:
            own = (len(partials), *np.broadcast_shapes(before.shape, partials.shape[1:]))
            partials = np.concatenate(
                [np.broadcast_to(before, own)[:1], np.broadcast_to(partials, own)]
            )
        # Each addition rounds, in order along the first axis.
        total: Floats = np.add.reduce(partials, axis=0, initial=np.float32(0))
        return total

    def _sums(self, activations: Floats) -> Floats:
        """(groups, banks, columns), each over one group."""
        banks = activations.shape[1]
        if not 1 <= banks <= FEW_BANKS:
            return (self.values @ activations.swapaxes(1, 2)).swapaxes(1, 2)
        across = self.values.swapaxes(1, 2)
        return np.concatenate([activations[:, k : k + 1] @ across for k in range(banks)], axis=1)


class Banks(NamedTuple):
    """Activations of all banks; those without a token of their own are mostly alike."""

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
