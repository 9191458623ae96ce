"""The array: activations move through the columns, each column holds its operands."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from types import SimpleNamespace

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from tilewright.golden.params.arith import FloatConvertParams
from tilewright.golden.params.block import Port
from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.params.harmonia import ACTIVATION_BITS, HarmoniaArrayParams
from tilewright.hw.arith.float_convert import FloatConvert
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.harmonia.pe import HarmoniaPE
from tilewright.hw.shared import Shared
from tilewright.hw.sram import Sram
from tilewright.hw.stream.queue import Queue
from tilewright.hw.unit import Unit, payload_layout, unit_signature


class HarmoniaArray(Unit[HarmoniaArrayParams]):
    """``rows`` x ``columns`` PEs, output stationary.

    Numerics: :class:`tilewright.golden.params.harmonia.HarmoniaNumerics`.
    Timing: a sum a cycle. Column c works c cycles behind column 0, so a tile's columns complete
    one after the other; the last sum of a tile waits until the tile before it has left the
    PEs and until the result queue has room for a whole tile. The first column is offered
    ``params.latency`` cycles after the tile's last sum was taken.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        memories = self._memories(m)
        taken = self._admit(m)

        # Systolic: what column 0 takes now, column c has c cycles later.
        valid, beat = wire(m, "taken", taken), self.i.p
        completed = []
        for c, memory in enumerate(memories):
            m.d.comb += [memory.read_enable.eq(valid), memory.read_address.eq(beat.address)]
            held_valid = Signal(name=f"valid_{c}")
            held = Signal(beat.shape(), name=f"beat_{c}")
            m.d.sync += held_valid.eq(valid)
            with m.If(valid):
                m.d.sync += held.eq(beat)
            valid, beat = held_valid, held
            completed.append(self._column(m, c, valid, beat, [memory.read_data]))
        self._drain(m, completed)
        return m

    def _memories(self, m: Module) -> Sequence[Sram | SimpleNamespace]:
        """One for each column, filled by ``load``."""
        p = self.params
        load = self.load.p
        m.d.comb += self.load.ready.eq(1)
        memories = []
        for c in range(p.columns):
            m.submodules[f"operands_{c}"] = memory = Sram(p.words, self._operand_layout.size)
            m.d.comb += [
                memory.write_enable.eq(self.load.valid & (load.column == c)),
                memory.write_address.eq(load.address),
                memory.write_data.eq(Cat(load[f.name] for f in p.operand_fields)),
            ]
            memories.append(memory)
        return memories

    @property
    def _operand_layout(self) -> data.StructLayout:
        return payload_layout(Port("operands", self.params.operand_fields))

    def _admit(self, m: Module) -> Value:
        """Whether a sum is taken now. Only the last one of a tile can have to wait."""
        p = self.params
        clear = Signal(range(p.columns))  # cycles until another tile may end
        room = Signal(range(p.result_places + 1), init=p.result_places)
        blocked = wire(m, "blocked", self.i.p.last & ((clear != 0) | (room < p.columns)))
        m.d.comb += self.i.ready.eq(self._in_time(m, ~blocked))
        taken = self.i.valid & self.i.ready
        ends = wire(m, "ends", taken & self.i.p.last)
        with m.If(ends):
            m.d.sync += clear.eq(p.columns - 1)
        with m.Elif(clear != 0):
            m.d.sync += clear.eq(clear - 1)
        left = self.o.valid & self.o.ready
        m.d.sync += room.eq(room - Mux(ends, p.columns, 0) + left)
        return taken

    def _in_time(self, m: Module, ready: Value) -> Value:
        """Whether elements can take a sum: whole ``beat_cycles`` after those that they have."""
        p = self.params
        if p.beat_cycles == 1:
            return ready
        taken = self.i.valid & self.i.ready
        left = Signal(range(p.beat_cycles), name="cycles_left")
        coming = Signal(range(p.steps + 1), name="steps_left")
        with m.If(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.Elif(taken):
            m.d.sync += [left.eq(p.beat_cycles - 1), coming.eq(p.steps)]
        with m.Elif(coming != 0):
            m.d.sync += [left.eq(p.beat_cycles - 1), coming.eq(coming - 1)]
        return ready & (left == 0)

    def _column(
        self, m: Module, c: int, valid: Value, beat: data.View, operand_bits: Sequence[Value]
    ) -> tuple:
        """Elements of one column; whether they are complete, and their fp32 sums.

        As many consecutive rows take the same of the given operands.
        """
        p = self.params
        given = [data.View(self._operand_layout, bits) for bits in operand_bits]
        totals = []
        for r in range(p.rows):
            operands = given[r * len(given) // p.rows]
            m.submodules[f"element_{r}_{c}"] = element = Shared(
                p.pe.slug, unit_signature(p.pe), lambda: HarmoniaPE(p.pe)
            )
            port = element.i.p
            lane, end = r * p.group, (r + 1) * p.group
            m.d.comb += [
                element.i.valid.eq(valid),
                element.o.ready.eq(1),
                port.mode.eq(beat.mode),
                port.first.eq(beat.first),
                port.last.eq(beat.last),
                port.a_signs.as_value().eq(beat.a_signs.as_value()[lane:end]),
                port.a.as_value().eq(
                    beat.a.as_value()[lane * ACTIVATION_BITS : end * ACTIVATION_BITS]
                ),
                port.b_signs.as_value().eq(operands.b_signs.as_value()),
                port.b.as_value().eq(operands.b.as_value()),
                port.a_exponents[0].eq(beat.a_exponents[r]),
                port.b_exponents[0].eq(operands.b_exponent),
                port.scale.eq(operands.scale),
            ]
            totals.append(element.o.p.y)
            complete = element.o.valid
        return complete, totals

    def _drain(self, m: Module, completed: list[tuple]) -> None:
        """The one column that is complete, rounded to fp16, into the result queue."""
        p = self.params
        any_complete, is_last = Signal(), Signal()
        rows = [Signal(FP32.bits, name=f"row_{r}") for r in range(p.rows)]
        m.d.sync += [
            any_complete.eq(reduce(or_, (complete for complete, _ in completed))),
            is_last.eq(completed[-1][0]),
        ]
        for r, row in enumerate(rows):
            chosen = (totals[r] & complete.replicate(FP32.bits) for complete, totals in completed)
            m.d.sync += row.eq(reduce(or_, chosen))
        m.submodules.to_half = to_half = FloatConvert(
            FloatConvertParams(a=FP32, out=FP16, lanes=p.rows)
        )
        m.submodules.results = results = Queue(self.o.p.shape(), p.result_places)
        m.d.comb += [to_half.i.valid.eq(1), to_half.o.ready.eq(1)]
        m.d.comb += [to_half.i.p.a[r].eq(row) for r, row in enumerate(rows)]
        m.d.comb += [
            results.i.valid.eq(any_complete),
            results.i.payload.eq(Cat(to_half.o.p.y, is_last)),
            self.o.valid.eq(results.o.valid),
            self.o.payload.eq(results.o.payload),
            results.o.ready.eq(self.o.ready),
        ]
