"""The tail of all elements with integer weights: from a group's sum to the result."""

from typing import TypeVar

from amaranth import Module, Signal, Value

from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.params.pe import GroupScaledParams
from tilewright.hw.arith.accumulate import Accumulate
from tilewright.hw.pe.common import ProcessingElement

P = TypeVar("P", bound=GroupScaledParams)

# From how many stages on a register is there: the ladder of GroupScaledParams.
SCALED, RESULT, PARTIAL, PRODUCTS = 3, 4, 5, 6


class GroupScaledElement(ProcessingElement[P]):
    """An element that scales the sum of each group and accumulates these in fp32."""

    def give_groups(
        self, m: Module, valid: Value, partial: Value, scale: Value, last: Value
    ) -> None:
        """A group's rounded sum, scaled, accumulated, and to ``o`` after ``last``."""
        stages = self.params.stages
        if stages >= PARTIAL:
            valid, partial, scale, last = self.registered(
                m, "partial", valid, value=partial, scale=scale, last=last
            )
        scaled = self.product(m, "scaled", self.params.partial, FP16, partial, scale)
        if stages >= SCALED:
            valid, scaled, last = self.registered(m, "scaled", valid, product=scaled, last=last)
        complete, total = self._sums(m, valid, last, scaled)
        if stages >= RESULT:
            self.give(m, complete, total)
        else:
            # The accumulator stalls while ``o`` waits, as everything does.
            result = self.converted(m, "result", FP32, self.params.result, total)
            m.d.comb += [self.o.valid.eq(complete), self.o.p.y.eq(result)]

    def _sums(self, m: Module, valid: Value, last: Value, scaled: Value) -> tuple[Signal, Signal]:
        if not self.params.bounded:
            return self.accumulated(
                m,
                "sum",
                valid,
                last,
                FP32.bits,
                lambda carried: self.sum(m, "grown", carried, scaled),
            )
        m.submodules.grown_sum = adder = Accumulate()
        restart = Signal(init=1, name="sum_restart")
        complete, total = self.accumulated(
            m, "sum", valid, last, FP32.bits, lambda _: adder.y, restart
        )
        m.d.comb += [adder.restart.eq(restart), adder.total.eq(total), adder.product.eq(scaled)]
        return complete, total
