"""One workload for every processing element: the same dot products, in the form each one takes.

``tilewright compare pe`` gives all PEs the same tensors. A bench derived from :class:`ComparedPE`
says how these become the operands of its PE, so that a new PE enters the comparison by its bench
alone; :class:`PEBench` does most of it for the PEs with the one signature of
:mod:`tilewright.golden.params.pe`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.pe import PEParams
from tilewright.golden.payload import Columns
from tilewright.verify.bench import PortColumns, StreamBench
from tilewright.verify.stimuli.dots import BENCH_BEATS, beats_of

GROUP = 64  # elements of the shared tensors that have one scale

B = TypeVar("B", bound=BlockParams)
P = TypeVar("P", bound=PEParams)


@dataclass(frozen=True)
class Tensors:
    """Streams of dot products: fp16 activations times small integer weights in scaled groups."""

    activation: NDArray[np.int64]  # (streams, dots, length) fp16 patterns
    weight: NDArray[np.int64]  # the same shape, integers of 4 bits
    scale: NDArray[np.int64]  # (streams, dots, length // GROUP) fp16 patterns

    @property
    def groups(self) -> NDArray[np.int64]:
        """The activations with an axis of groups, (streams, dots, groups, GROUP)."""
        return self.activation.reshape(*self.activation.shape[:2], -1, GROUP)


@dataclass(frozen=True)
class DotProducts:
    """The operands of one PE and the results that they must give."""

    columns: PortColumns  # per port: (streams, dots, beats) or (streams, dots, beats, count)
    results: NDArray  # (streams, dots) fp16 patterns


class ComparedPE(ABC, Generic[B]):
    """Methods with which ``tilewright compare pe`` can measure the PE of a bench."""

    # Modes of the PE, and the one for data that is not real.
    variants: ClassVar[tuple[str, ...]] = ("",)
    usual_variant: ClassVar[str] = ""

    @abstractmethod
    def dot_products(self, params: B, tensors: Tensors, variant: str) -> DotProducts:
        """Turn the shared tensors into the operands of this PE, with the golden results."""


class PEBench(StreamBench[P], ComparedPE[P]):
    """The bench of a PE with the one signature of :mod:`tilewright.golden.params.pe`."""

    @abstractmethod
    def dot(self, params: P, beats: Columns) -> NDArray:
        """Compute one fp16 pattern per dot product by the golden model.

        Columns have the shape (..., beats, lanes) or (..., beats).
        """

    def operands(self, params: P, tensors: Tensors) -> Columns:
        """Turn the shared tensors into the columns of ``i``, in beats.

        By default fp16 activations and integer weights arrive as they are (:func:`in_beats`).
        """
        return in_beats(params, tensors)

    def result_beats(self, params: P) -> int:
        return BENCH_BEATS

    def expected(self, params: P, columns: PortColumns) -> PortColumns:
        return {"o": {"y": self.dot(params, beats_of(columns["i"]))}}

    def dot_products(self, params: P, tensors: Tensors, variant: str) -> DotProducts:
        columns = self.operands(params, tensors)
        return DotProducts({"i": columns}, self.dot(params, columns))


def in_beats(params: PEParams, tensors: Tensors) -> Columns:
    """Split the tensors into beats of ``lanes``; every beat has the scale of its group."""
    streams, dots, length = tensors.activation.shape
    beats, per_group = length // params.lanes, GROUP // params.lanes
    ends = np.zeros((streams, dots, beats), np.int64)
    ends[..., per_group - 1 :: per_group] = 1
    last = np.zeros_like(ends)
    last[..., -1] = 1
    shape = (streams, dots, beats, params.lanes)
    return {
        "activation": tensors.activation.reshape(shape),
        "weight": tensors.weight.reshape(shape),
        "exponent": np.ones_like(ends),
        "scale": np.repeat(tensors.scale, per_group, axis=-1),
        "group_end": ends,
        "last": last,
    }
