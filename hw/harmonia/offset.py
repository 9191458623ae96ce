"""The K-offset generator: learns the largest channels of the first tokens, shifts all tokens."""

from amaranth import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data

from tilewright.golden.params.arith import FloatAddParams
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import HarmoniaOffsetParams
from tilewright.hw.arith.float_add import FloatAdd
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.sram import Sram
from tilewright.hw.unit import Unit

MAGNITUDE_BITS = FP16.bits - 1


class OffsetGenerator(Unit[HarmoniaOffsetParams]):
    """Offsets of K's channels, found in the initial window and subtracted from every token.

    Numerics: :mod:`tilewright.golden.harmonia.offset`.
    Timing: a beat a cycle, latency ``params.latency``. After the last beat of a window as many
    cycles pass as there are channels, and two more, before the next beat is taken. While no beat
    learns, nothing of the learning part changes: its inputs are held at zero.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        entry = data.StructLayout({"channel": range(p.channels), "value": FP16.bits})
        chosen = Array(Signal(entry, name=f"chosen_{k}") for k in range(p.offsets))
        scanning = Signal()
        take = wire(m, "take", self.i.valid & self.i.ready)
        learns = wire(m, "learns", take & self.i.p.learn)
        step = wire(m, "step", ~self.o.valid | self.o.ready)
        m.d.comb += self.i.ready.eq(~scanning & (self.i.p.learn | step))

        self._learn(m, learns, scanning, chosen)
        self._apply(m, take & ~self.i.p.learn, step, chosen)
        return m

    def _learn(self, m: Module, learns: Value, scanning: Value, chosen: list[data.View]) -> None:
        """Per channel the value of largest magnitude; then all of them into the sorted list."""
        p = self.params
        m.submodules.maxima = maxima = Sram(p.channels, FP16.bits)
        own = [self.i.p.values[r] for r in range(p.rows)]
        values = [v & learns.replicate(FP16.bits) for v in own]
        while len(values) > 1:
            pairs = zip(values[0::2], values[1::2], strict=False)
            values = [_larger(*pair) for pair in pairs] + values[len(values) & ~1 :]
        of_rows = Signal(FP16.bits)
        channel = Signal(range(p.channels))
        fresh = Signal()
        pending = Signal()
        m.d.sync += pending.eq(learns)
        with m.If(learns):
            m.d.sync += [
                of_rows.eq(values[0]),
                channel.eq(self.i.p.channel),
                fresh.eq(self.i.p.first),
            ]
        with m.If(learns & self.i.p.last):
            m.d.sync += scanning.eq(1)
        # ``channel`` is then the last one: the scan ends there.
        scanned = Signal(range(p.channels))
        reading = Signal()
        arrived = Signal()
        arrived_channel = Signal(range(p.channels))
        m.d.comb += [
            reading.eq(scanning & ~pending & (~arrived | (arrived_channel != channel))),
            maxima.read_enable.eq(learns | reading),
            maxima.read_address.eq(Mux(scanning, scanned, self.i.p.channel)),
            maxima.write_enable.eq(pending),
            maxima.write_address.eq(channel),
            maxima.write_data.eq(Mux(fresh, of_rows, _larger(maxima.read_data, of_rows))),
        ]
        m.d.sync += arrived.eq(reading)
        with m.If(reading):
            m.d.sync += [arrived_channel.eq(scanned), scanned.eq(scanned + 1)]
        with m.If(arrived):
            self._insert(m, chosen, arrived_channel, maxima.read_data)
            with m.If(arrived_channel == channel):
                m.d.sync += [scanning.eq(0), scanned.eq(0)]

    def _insert(self, m: Module, chosen: list[data.View], channel: Value, value: Value) -> None:
        """Into the list, largest first; equal ones go last, so lower channels win."""
        empty = channel == 0  # the list of an earlier window is forgotten
        beats = [
            wire(m, f"beats_{k}", empty | (value[:-1] > held.value[:-1]))
            for k, held in enumerate(chosen)
        ]
        for k, held in enumerate(chosen):
            with m.If(beats[k]):
                if k == 0:
                    m.d.sync += [held.channel.eq(channel), held.value.eq(value)]
                else:
                    above = chosen[k - 1]
                    with m.If(empty):
                        m.d.sync += [held.channel.eq(0), held.value.eq(0)]
                    with m.Elif(beats[k - 1]):
                        m.d.sync += held.eq(above)
                    with m.Else():
                        m.d.sync += [held.channel.eq(channel), held.value.eq(value)]

    def _apply(self, m: Module, applies: Value, step: Value, chosen: list[data.View]) -> None:
        """Values less the offset of their channel; without one, unchanged."""
        found = [self._offset(m, j, chosen) for j in range(self.params.width)]
        if self.params.pipelined:
            self._apply_later(m, applies, step, found)
            return
        with m.If(step):
            m.d.sync += self.o.valid.eq(applies)
        for k, value in enumerate(self.i.p.values):
            offset, any_hit = found[k // self.params.rows]
            add = FloatAdd(FloatAddParams(a=FP16, b=FP16, out=FP16))
            m.submodules[f"subtract_{k}"] = add
            m.d.comb += [
                add.i.valid.eq(1),
                add.o.ready.eq(1),
                add.i.p.a[0].eq(value & any_hit.replicate(FP16.bits)),
                add.i.p.b[0].eq(offset ^ (1 << MAGNITUDE_BITS)),
            ]
            with m.If(applies):
                m.d.sync += self.o.p.values[k].eq(Mux(any_hit, add.o.p.y[0], value))

    def _apply_later(self, m: Module, applies: Value, step: Value, found: list) -> None:
        """The same with a register before the subtraction and one within: all move in step."""
        on_the_way = Signal(2)
        with m.If(step):
            m.d.sync += [on_the_way.eq(Cat(applies, on_the_way)), self.o.valid.eq(on_the_way[-1])]
        for k, value in enumerate(self.i.p.values):
            offset, any_hit = found[k // self.params.rows]
            names = {"value": value, "offset": offset, "hit": any_hit}
            first = {
                name: Signal.like(Value.cast(x), name=f"{name}{k}", reset_less=True)
                for name, x in names.items()
            }
            value_then, hit_then = (
                Signal.like(first[name], name=f"{name}{k}_then") for name in ("value", "hit")
            )
            add = FloatAdd(FloatAddParams(a=FP16, b=FP16, out=FP16, latency=1))
            add.followed = True
            m.submodules[f"subtract_{k}"] = add
            m.d.comb += [
                add.i.valid.eq(1),
                add.o.ready.eq(step),
                add.i.p.a[0].eq(first["value"] & first["hit"].replicate(FP16.bits)),
                add.i.p.b[0].eq(first["offset"] ^ (1 << MAGNITUDE_BITS)),
            ]
            with m.If(step):
                m.d.sync += [
                    *(first[name].eq(x) for name, x in names.items()),
                    value_then.eq(first["value"]),
                    hit_then.eq(first["hit"]),
                    self.o.p.values[k].eq(Mux(hit_then, add.o.p.y[0], value_then)),
                ]

    def _offset(self, m: Module, within: int, chosen: list[data.View]) -> tuple[Value, Value]:
        """The offset of a beat's channel number ``within``, and whether it has one."""
        width, name = self.params.width, f"_{within}" if self.params.width > 1 else ""
        channel = self.i.p.channel
        if width > 1:  # the first channel of a beat is a multiple of the width
            channel = Cat(Const(within, width.bit_length() - 1), channel[width.bit_length() - 1 :])
        hits = [(held.channel == channel) & held.value[:-1].any() for held in chosen]
        offset = Const(0, FP16.bits)
        for hit, held in zip(hits, chosen, strict=True):
            offset = offset | (_half(held.value) & hit.replicate(FP16.bits))
        offset = wire(m, f"offset{name}", offset)
        return offset, wire(m, f"any_hit{name}", offset[:-1].any())


def _larger(a: Value, b: Value) -> Value:
    """The pattern of larger magnitude, the first of equal ones."""
    return Mux(b[:-1] > a[:-1], b, a)


def _half(pattern: Value) -> Value:
    """Half of an fp16 value, nearest even: one less in the exponent, or a shift below."""
    magnitude = pattern[:-1]
    small = ~magnitude[FP16.mantissa_bits + 1 :].any()  # exponent field 0 or 1
    shifted = magnitude[1 : FP16.mantissa_bits + 1] + (magnitude[0] & magnitude[1])
    halved = Mux(small, shifted, magnitude - (1 << FP16.mantissa_bits))
    return Cat(halved[:MAGNITUDE_BITS], pattern[-1])
