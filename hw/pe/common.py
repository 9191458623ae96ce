"""Shared by all processing elements: the handshake, accumulators, and the output."""

from collections.abc import Callable
from typing import TypeVar

from amaranth import Module, Mux, Shape, Signal, Value
from amaranth.lib import data

from tilewright.golden.params.arith import (
    IEEE_RULES,
    FloatAddParams,
    FloatConvertParams,
    FloatMulParams,
    FloatRules,
)
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.formats import FP16, FP32, FloatFormat
from tilewright.hw.arith.accumulate import Accumulate
from tilewright.hw.arith.float_add import FloatAdd
from tilewright.hw.arith.float_convert import FloatConvert
from tilewright.hw.arith.float_mul import FloatMul
from tilewright.hw.arith.followed import followed
from tilewright.hw.arith.lanes import LanewiseUnit
from tilewright.hw.unit import Unit

P = TypeVar("P", bound=BlockParams)

# From how many stages on a register is there, in elements that scale sums of groups.
SCALED, RESULT, PARTIAL, PRODUCTS = 3, 4, 5, 6


class ProcessingElement(Unit[P]):
    """A beat a cycle from ``i``; a result at ``o`` after the last beat of each dot product.

    Everything inside moves together, and stalls while a result waits at ``o``. Subclasses build
    their datapath from ``self.beat``, which is ``self.i.p`` or the registers that hold it, in
    ``datapath(m, valid)``, and end it with :meth:`give`.

    Where ``cycles``, the parameters' ``beat_cycles``, is not 1, everything moves so many cycles
    apart at least, and operands stand still in between: registers inside float operations, one
    fewer than cycles, load in every cycle.
    """

    @property
    def cycles(self) -> int:
        return getattr(self.params, "beat_cycles", 1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self.step = Signal()
        if self.cycles == 1:
            m.d.comb += [self.step.eq(~self.o.valid | self.o.ready), self.i.ready.eq(self.step)]
        else:
            self._pace(m)
        self.beat, valid = self.i.p, self.i.valid
        if self.params.registered or self.cycles > 1:  # type: ignore[attr-defined]  # of all PEs
            self.beat, valid = self._held(m)
        self.datapath(m, valid)
        return m

    def _pace(self, m: Module) -> None:
        """Let everything move at most every ``cycles`` cycles, until what was taken is through."""
        left = Signal(range(self.cycles), name="cycles_left")
        steps = self.params.steps_in_flight  # type: ignore[attr-defined]  # of PEs with a pace
        coming = Signal(range(steps + 1), name="steps_left")
        self.moves = moves = Signal(name="moves")
        m.d.comb += [
            moves.eq((left == 0) & (~self.o.valid | self.o.ready)),
            self.step.eq(moves & (self.i.valid | (coming != 0))),
            self.i.ready.eq(moves),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(self.step):
            m.d.sync += left.eq(self.cycles - 1)
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += coming.eq(steps)
            with m.Else():
                m.d.sync += coming.eq(coming - 1)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)

    def _held(self, m: Module) -> tuple[data.View, Value]:
        """The beat that was taken last, and whether there is one."""
        held = Signal(self.i.p.shape(), reset_less=True)
        held_valid = Signal()
        with m.If(self.i.ready):
            m.d.sync += held_valid.eq(self.i.valid)
            with m.If(self.i.valid):
                m.d.sync += self.hold(m, held)
        return held, held_valid

    def hold(self, m: Module, held: data.View) -> list:
        """Statements that take a beat into its registers."""
        return [held.eq(self.i.p)]

    def datapath(self, m: Module, valid: Value) -> None:
        raise NotImplementedError

    def registered(self, m: Module, name: str, valid: Value, **values: Value) -> tuple:
        """``valid`` and ``values`` a step later; values change only when they are valid."""
        held_valid = Signal(name=f"{name}_valid")
        held = {
            n: Signal(Value.cast(v).shape(), name=f"{name}_{n}", reset_less=True)
            for n, v in values.items()
        }
        with m.If(self.step):
            m.d.sync += held_valid.eq(valid)
            with m.If(valid):
                m.d.sync += [held[n].eq(v) for n, v in values.items()]
        return held_valid, *held.values()

    def accumulated(
        self,
        m: Module,
        name: str,
        valid: Value,
        end: Value,
        shape: Shape,
        grown: Callable[[Value], Value],
        restart: Signal | None = None,
    ) -> tuple[Signal, Signal]:
        """A register that has ``grown`` from itself with every valid beat, from 0 after an ``end``.

        Returns whether it holds a complete sum, true for one step, and the register. ``restart``
        is the register that says to start from 0, from a caller whose sum wants to know.
        """
        total = Signal(shape, name=f"{name}_total", reset_less=True)
        if restart is None:
            restart = Signal(init=1, name=f"{name}_restart")
        complete = Signal(name=f"{name}_complete")
        carried = Signal(shape, name=f"{name}_carried")
        m.d.comb += carried.eq(Mux(restart, 0, total))
        following = grown(carried)
        with m.If(self.step):
            m.d.sync += complete.eq(valid & end)
            with m.If(valid):
                m.d.sync += [total.eq(following), restart.eq(end)]
        return complete, total

    def give(self, m: Module, valid: Value, total: Value, *, held: bool = True) -> None:
        """The fp32 sum ``total``, complete where ``valid``, to ``o``, rounded where elements round.

        A rounded one may be ``held`` in a register; otherwise what sums stalls while ``o`` waits.
        """
        y = self.rounded(m, valid, total, self.params.result)  # type: ignore[attr-defined]
        if held and self.params.rounds:  # type: ignore[attr-defined]  # of all PEs
            valid, y = self.registered(m, "result", valid, y=y)
        m.d.comb += [self.o.valid.eq(valid), self.o.p.y.eq(y)]

    def give_groups(
        self, m: Module, valid: Value, partial: Value, scale: Value, last: Value
    ) -> None:
        """The tail of integer weights: sums of groups, scaled, added, and to ``o`` after ``last``.

        Its registers and its accumulator are those of
        :class:`tilewright.golden.params.pe.GroupScaledParams`.
        """
        if self._stages >= PARTIAL:
            valid, partial, scale, last = self.registered(
                m, "partial", valid, value=partial, scale=scale, last=last
            )
        self.give_scaled(m, valid, partial, scale, last)

    def give_scaled(
        self, m: Module, valid: Value, partial: Value, scale: Value, last: Value
    ) -> None:
        """As :meth:`give_groups`, without a register for a group's sum."""
        source: FloatFormat = self.params.partial  # type: ignore[attr-defined]  # of such PEs
        scaled = self.product(m, "scaled", source, FP16, partial, scale)
        if self._stages >= SCALED:
            valid, scaled, last = self.registered(m, "scaled", valid, product=scaled, last=last)
        complete, total = self._sums(m, valid, last, scaled)
        self.give(m, complete, total, held=self._stages >= RESULT)

    @property
    def _stages(self) -> int:
        return getattr(self.params, "stages", RESULT)

    def _sums(self, m: Module, valid: Value, last: Value, scaled: Value) -> tuple[Signal, Signal]:
        if not getattr(self.params, "bounded", False):
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

    def rounded(self, m: Module, valid: Value, total: Value, result: FloatFormat) -> Value:
        """A sum in the format ``result``; isolated, of zeros until it is complete."""
        if result is not FP32 and getattr(self.params, "isolated", False):
            total = total & valid.replicate(len(total))
        return self.converted(m, "result", FP32, result, total)

    def converted(
        self, m: Module, name: str, source: FloatFormat, result: FloatFormat, x: Value
    ) -> Value:
        if source == result:
            return x
        unit = FloatConvert(FloatConvertParams(a=source, out=result, latency=self.cycles - 1))
        return self._paced(m, f"{name}_round", unit, a=x)

    def product(
        self,
        m: Module,
        name: str,
        a: FloatFormat,
        b: FloatFormat,
        x: Value,
        y: Value,
        out: FloatFormat = FP32,
        rules: FloatRules = IEEE_RULES,
    ) -> Value:
        """The product, rounded once."""
        latency = self.cycles - 1
        unit = FloatMul(FloatMulParams(a=a, b=b, out=out, latency=latency, **vars(rules)))
        return self._paced(m, f"{name}_product", unit, a=x, b=y)

    def sum(
        self, m: Module, name: str, x: Value, y: Value, rules: FloatRules = IEEE_RULES
    ) -> Value:
        """The sum of two fp32 values."""
        latency = self.cycles - 1
        unit = FloatAdd(FloatAddParams(a=FP32, b=FP32, out=FP32, latency=latency, **vars(rules)))
        return self._paced(m, f"{name}_sum", unit, a=x, b=y)

    def _paced(self, m: Module, name: str, unit: LanewiseUnit, **operands: Value) -> Value:
        """A unit before a register that moves with ``step``."""
        return combinational(m, name, followed(unit), **operands)


def combinational(m: Module, name: str, unit: Unit, **operands: Value) -> Value:
    """Return the result of a unit of one lane, which never waits; its handshake is not used."""
    known = [field.name for field in unit.params.inputs[0].fields]
    for field in operands:
        if field not in known:
            raise ValueError(
                f"block {unit.params.block}, port i has no field {field!r};"
                f" fields: {', '.join(known)}"
            )
    m.submodules[name] = unit
    m.d.comb += [unit.i.p[field][0].eq(value) for field, value in operands.items()]
    m.d.comb += [unit.i.valid.eq(1), unit.o.ready.eq(1)]
    return unit.o.p.y[0]
