"""Balanced exact sum."""

from operator import add

from amaranth import Value

from hw.arith.reduction import reduction_stages
from hw.stream.pipeline import PipelinedUnit, Stage

__all__ = ["AdderTree", "tree_sum"]


def tree_sum(terms: list) -> Value:
    """Balanced sum; the shape grows a bit per level, so nothing is ever lost."""
    while len(terms) > 1:
        rest = terms[len(terms) & ~1 :]
        terms = [a + b for a, b in zip(terms[0::2], terms[1::2], strict=False)] + rest
    return terms[0]


class AdderTree(PipelinedUnit):
    """Exact sum of ``terms``: one a cycle, latency ``params.latency``, a stage per tree level."""

    def stages(self) -> list[Stage]:
        return reduction_stages("terms", "sum", self.params.terms, add)
