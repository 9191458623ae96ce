"""Largest of many."""

from amaranth import Mux, Value

from tilewright.golden.params.arith import MaxTreeParams
from tilewright.hw.arith.reduction import reduction_stages
from tilewright.hw.stream.pipeline import PipelinedUnit, Stage


def larger(a: Value, b: Value) -> Value:
    return Mux(a > b, a, b)


class MaxTree(PipelinedUnit[MaxTreeParams]):
    """Largest of ``terms``: one a cycle, latency ``params.latency``, a stage per tree level."""

    def stages(self) -> list[Stage]:
        return reduction_stages("terms", "max", self.params.terms, larger)
