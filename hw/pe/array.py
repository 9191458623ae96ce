"""Processing elements of one kind as an output-stationary array."""

from amaranth import Const, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from tilewright.golden.params.pe import FignaChunkParams, GroupScaledParams, PeArrayParams
from tilewright.hw.anda.output_dispatcher import OutputDispatcher
from tilewright.hw.catalog import build
from tilewright.hw.shared import Shared
from tilewright.hw.unit import Unit, unit_signature


class PeArray(Unit[PeArrayParams]):
    """``params.rows`` x ``params.columns`` elements in step.

    Numerics: each result is that of ``params.pe``.
    Timing: a beat a cycle. A tile's first row is offered ``params.element.latency`` + 2 cycles
    after its last beat is taken, one row a cycle follows. Everything waits while a tile is complete
    and the one before it has not left; see :func:`tilewright.golden.pe.array_cycles`.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, given = self.params, self.i.p
        m.submodules.results = output = OutputDispatcher(p)
        connect(m, output.o, flipped(self.o))
        taken, valid = Signal(), Signal()
        flags = {name: Signal(name=f"held_{name}") for name in ("group_end", "last")}
        m.d.comb += taken.eq(self.i.valid & self.i.ready)
        with m.If(self.i.ready):
            m.d.sync += valid.eq(self.i.valid)
        with m.If(taken):
            m.d.sync += [held.eq(given[name]) for name, held in flags.items()]

        # Where only the ends of groups have a scale or an exponent, those of other beats stay out.
        ends = taken & given.group_end
        loads = {
            "activation": taken & self._first_bits(m, taken),
            "exponent": taken if isinstance(p.pe, FignaChunkParams) else ends,
            "weight": taken,
            "scale": ends if isinstance(p.pe, GroupScaledParams) else taken,
        }
        operands = {}
        for name, load in loads.items():
            m.submodules[f"{name}s"] = held = OperandRegisters(given[name].shape())
            m.d.comb += [held.load.eq(load), held.given.eq(given[name])]
            operands[name] = Value.cast(held.held)

        for row in range(p.rows):
            for column in range(p.columns):
                m.submodules[f"element_{row}_{column}"] = element = Shared(
                    p.element.slug, unit_signature(p.element), lambda: build(p.element)
                )
                for name, k in zip(operands, (row, row, column, column), strict=True):
                    port = Value.cast(element.i.p[name])
                    m.d.comb += port.eq(operands[name].word_select(k, len(port)))
                m.d.comb += [
                    element.i.valid.eq(valid),
                    *(element.i.p[name].eq(held) for name, held in flags.items()),
                    element.o.ready.eq(output.room),
                    output.sums[row][column].eq(element.o.p.y),
                ]
        # All elements are in step.
        m.d.comb += [self.i.ready.eq(element.i.ready), output.offered.eq(element.o.valid)]
        return m

    def _first_bits(self, m: Module, taken: Value) -> Value:
        """Whether a beat has the first bits of its weights, with which activations arrive."""
        beats = self.params.weight_beats
        if beats == 1:
            return Const(1)
        arriving = Signal(range(beats))
        with m.If(taken):
            m.d.sync += arriving.eq(Mux(arriving == beats - 1, 0, arriving + 1))
        return arriving == 0


class OperandRegisters(wiring.Component):
    """Operands at the edge of the array: ``held`` is what was ``given`` with the last ``load``."""

    def __init__(self, shape: ShapeLike):
        super().__init__({"load": In(1), "given": In(shape), "held": Out(shape)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held = Signal(self.held.shape(), reset_less=True)
        m.d.comb += self.held.eq(held)
        with m.If(self.load):
            m.d.sync += held.eq(self.given)
        return m
