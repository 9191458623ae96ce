"""Expansion crossbar."""

from amaranth import Mux, Value

from golden.params.arith import PrefixStyle
from hw.arith.prefix_sum import prefix_level, prefix_network
from hw.stream.pipeline import PipelinedUnit, Stage

__all__ = ["Expand", "select"]


def select(words: list[Value], index: Value) -> Value:
    """``words[index]`` by a tree of two-way multiplexers, one level per bit of ``index``."""
    for bit in index:
        odd = words[len(words) & ~1 :]
        words = [Mux(bit, b, a) for a, b in zip(words[0::2], words[1::2], strict=False)] + odd
    return words[0]


class Expand(PipelinedUnit):
    """Moves the words of ``x``, in order, to the lanes whose ``mask`` bit is set; 0 elsewhere.

    One a cycle, latency ``params.latency``. Lane k can only need ``x[0]`` to ``x[k]``, so the
    multiplexers form a triangle. Stages: the levels of the prefix sum, then the crossbar.
    """

    def stages(self) -> list[Stage]:
        network = prefix_network(PrefixStyle.SKLANSKY, self.params.lanes)

        def level(k: int) -> Stage:
            def stage(m, s):
                counts = prefix_level(list(s.counts if k else s.mask), network[k])
                return {"counts": counts, "mask": s.mask, "x": s.x}

            return stage

        return [*(level(k) for k in range(len(network))), self._cross]

    def _cross(self, m, s) -> dict:
        words = list(s.x)
        y = [words[0], *(select(words[: k + 2], c) for k, c in enumerate(s.counts[:-1]))]
        return {"y": [Mux(bit, word, 0) for bit, word in zip(s.mask, y, strict=True)]}
