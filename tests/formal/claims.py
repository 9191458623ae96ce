"""Claims about stream units: components whose output ``bad`` must never be 1.

A claim holds the unit, a source that keeps the rules of a stream and a sink that takes when it
likes. Both are free: the solver chooses every offer, payload and ready of every cycle.
"""

from collections.abc import Callable

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.hw.unit import Unit

# Facts that induction needs of a unit whose words lie out of sight. Given the module, the unit, how
# many words must be inside and a place counted from the head: what holds of the unit's registers
# in every reachable state, and the word in that place.
Inside = Callable[[Module, Unit, Value, Value], tuple[list[Value], Value]]


class _Claim(wiring.Component):
    """Inputs ``offer*`` and ``data*`` feed the unit's inputs, ``ready*`` its outputs.

    ``ports_only`` leaves out what the claim says of the unit's registers: induction needs that to
    start from reachable states only, but a counterexample should not.
    """

    def __init__(self, unit: Unit, *, ports_only: bool, **more):
        self.unit, self.ports_only = unit, ports_only
        inputs, outputs = unit.params.inputs, unit.params.outputs
        super().__init__(
            {f"offer_{p.name}": In(1) for p in inputs}
            | {f"data_{p.name}": In(p.bits) for p in inputs}
            | {f"ready_{p.name}": In(1) for p in outputs}
            | more
            | {"bad": Out(1)}
        )
        self.inputs = [getattr(unit, p.name) for p in inputs]
        self.outputs = [getattr(unit, p.name) for p in outputs]
        self.waiting = [Signal(name=f"waiting_{p.name}") for p in inputs]

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = self.unit
        for port, stream, waiting in zip(
            self.unit.params.inputs, self.inputs, self.waiting, strict=True
        ):
            offer, data = getattr(self, f"offer_{port.name}"), getattr(self, f"data_{port.name}")
            held = Signal(port.bits)
            m.d.comb += [
                stream.valid.eq(waiting | offer),
                _word(stream).eq(Mux(waiting, held, data)),
            ]
            m.d.sync += [waiting.eq(stream.valid & ~stream.ready), held.eq(_word(stream))]
        faults, invariants = self.faults(m)
        wrong = faults if self.ports_only else [*faults, *(~holds.bool() for holds in invariants)]
        for port, stream in zip(self.unit.params.outputs, self.outputs, strict=True):
            m.d.comb += stream.ready.eq(getattr(self, f"ready_{port.name}"))
            pending, offered = Signal(), Signal(port.bits)
            m.d.sync += [pending.eq(stream.valid & ~stream.ready), offered.eq(_word(stream))]
            wrong.append(pending & (~stream.valid | (_word(stream) != offered)))
        m.d.comb += self.bad.eq(Cat(w.any() for w in wrong).any())
        return m

    def faults(self, m: Module) -> tuple[list[Value], list[Value]]:
        """Faults that must never show at the ports, and invariants of the registers.

        An offer that is withdrawn or changed is always a fault.
        """
        raise NotImplementedError


def _word(stream) -> Value:
    return stream.payload.as_value()


def _moves(stream) -> Value:
    return stream.valid & stream.ready


class KeepsOrder(_Claim):
    """Words that enter at ``i`` leave at ``o``: every word, once, in order, in bounded time.

    ``mark`` lets the solver pick any word as it enters. The claim counts the words in front of it,
    and knows when it must appear: with none in front, at the latest ``latency`` cycles after it
    entered. A unit with fewer than ``capacity`` words inside must be ready.
    """

    def __init__(self, unit: Unit, *, capacity: int, look: Inside | None = None):
        super().__init__(unit, ports_only=look is None, mark=In(1))
        self.capacity, self.look = capacity, look

    def faults(self, m):
        (i,), (o,) = self.inputs, self.outputs
        latency = self.unit.params.timing.latency
        put, get = _moves(i), _moves(o)
        inside = Signal(range(self.capacity + 2))
        m.d.sync += inside.eq(inside + put - get)

        followed = Signal()  # the marked word is inside
        word, ahead, age = Signal(len(_word(i))), Signal.like(inside), Signal(range(latency + 1))
        with m.If(~followed):
            m.d.sync += [followed.eq(put & self.mark), word.eq(_word(i)), ahead.eq(inside - get)]
            m.d.sync += age.eq(1)
        with m.Else():
            m.d.sync += age.eq(Mux(age == latency, latency, age + 1))
            with m.If(get):
                m.d.sync += [ahead.eq(ahead - 1), followed.eq(ahead != 0)]

        first = followed & (ahead == 0)
        faults = [
            o.valid & (inside == 0),  # a word that never went in
            inside > self.capacity,
            ~i.ready & (inside < self.capacity),
            first & o.valid & (_word(o) != word),
            first & (age == latency) & ~o.valid,
        ]
        if self.ports_only:
            return faults, []
        holds, stored = self.look(m, self.unit, inside, ahead)
        return faults, [*holds, ~followed | ((ahead < inside) & (stored == word))]
