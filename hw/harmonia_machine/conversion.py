"""From fp16 values to block floating point: through the offsets and the converter."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia_machine import Conversion, HarmoniaParams
from tilewright.golden.params.machine import ROW_FIELD, SIZE_FIELD
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.harmonia.converter import Converter
from tilewright.hw.harmonia.offset import OffsetGenerator
from tilewright.hw.harmonia_machine.buffers import halves_row
from tilewright.hw.harmonia_machine.group_writer import GroupWriter, command_layout, group_writes
from tilewright.hw.machine.banks import ReadPort
from tilewright.hw.stream.register_slice import RegisterSlice


class HalvesFeeder(wiring.Component):
    """Values of a tensor as the converter and the offset generator take them.

    In time: the elements of a token tile, padded to whole groups, the converter's ``width`` of them
    a beat, one where the offset generator learns. In space, ``spatial_width`` a beat: a block of
    channels after the other, each once for every token tile of the group. Padding is +0, and so are
    tokens that do not count.

    Timing: the first beat is offered two cycles after ``start``, then one a cycle.
    """

    def __init__(self, params: HarmoniaParams):
        self.params = params
        beat = data.StructLayout(
            {
                "values": data.ArrayLayout(FP16.bits, params.converter.lanes),
                "element": SIZE_FIELD,  # the first
                "padding": params.converter_width,
                "last": 1,  # of a learn
            }
        )
        super().__init__(
            {
                "start": In(1),
                "command": In(command_layout(params)),
                "busy": Out(1),
                "beats": Out(stream.Signature(beat)),
                "read": Out(ReadPort(params.halves_rows, halves_row(params))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, x, o = self.params, self.command, self.beats
        loops = p.converter.loops
        active = Signal()
        place, loop = Signal(range(max(p.columns, p.group))), Signal(range(loops))
        base, blocks_left = Signal(SIZE_FIELD), Signal(SIZE_FIELD)
        tile_row = Signal(ROW_FIELD)  # where the token tile begins
        step = wire(m, "step", active & (~o.valid | o.ready))
        spatial = wire(m, "spatial", ~x.learn & (x.conversion == Conversion.VALUES))
        element = wire(m, "element", (base + place)[:SIZE_FIELD])
        width, spatial_width = p.converter_width, p.spatial_width
        padding = wire(m, "padding", Cat(element + j >= x.elements for j in range(width)))
        last_place = wire(
            m,
            "last_place",
            Mux(spatial, p.columns - spatial_width, p.group - Mux(x.learn, 1, width)),
        )
        place_ends = wire(m, "place_ends", place == last_place)
        # In space as wide as in time, or one.
        one = spatial | x.learn if spatial_width == 1 else x.learn
        next_place = place + Mux(one, 1, width)
        block_ends = wire(m, "block_ends", place_ends & (~spatial | (loop == loops - 1)))
        ends = wire(
            m, "ends", Mux(x.learn, element == x.elements - 1, block_ends & (blocks_left == 1))
        )
        word_bits = (p.word_values - 1).bit_length()
        m.d.comb += [
            self.read.enable.eq(step & ~padding[0] & (place[:word_bits] == 0)),
            self.read.address.eq(tile_row + (element >> word_bits)),
            self.busy.eq(active | o.valid),
        ]
        with m.If(step):
            m.d.sync += place.eq(Mux(place_ends, 0, next_place))
            with m.If(place_ends):
                m.d.sync += [
                    loop.eq(Mux(block_ends, 0, loop + 1)),
                    tile_row.eq(Mux(block_ends, x.source, tile_row + x.words)),
                ]
            with m.If(block_ends):
                m.d.sync += [
                    base.eq(base + Mux(spatial, p.columns, p.group)),
                    blocks_left.eq(blocks_left - 1),
                ]
            with m.If(ends):
                m.d.sync += active.eq(0)
        with m.If(self.start):
            m.d.sync += [
                active.eq(1),
                place.eq(0),
                loop.eq(0),
                base.eq(0),
                blocks_left.eq(x.blocks),
                tile_row.eq(x.source),
            ]

        within = Signal(word_bits)
        counts = Signal(p.rows)  # tokens that do
        with m.If(o.ready):
            m.d.sync += o.valid.eq(0)
        with m.If(step):
            m.d.sync += [
                o.valid.eq(1),
                o.p.element.eq(element),
                o.p.padding.eq(padding),
                o.p.last.eq(ends),
                within.eq(place[:word_bits]),
            ]
            for r in range(p.rows):
                token = loop * p.rows + r
                m.d.sync += counts[r].eq(Mux(x.learn, x.lanes[r], ~spatial | (token < x.tokens)))
        for k, value in enumerate(o.p.values):
            j, r = divmod(k, p.rows)
            read = self.read.data[r].word_select((within + j)[:word_bits], FP16.bits)
            shown = counts[r] & ~o.p.padding[j]
            m.d.comb += value.eq(read & shown.replicate(FP16.bits))
        return m


class ConversionPath(wiring.Component):
    """Convert, learn and clear: fp16 memory, offset generator, converter, groups.

    ``start`` takes the ``command``, which need not hold; ``busy`` until all is written, and after
    the last learn until the offsets are found. Keys pass the offset generator, everything else
    bypasses it.
    """

    def __init__(self, params: HarmoniaParams):
        self.params = params
        super().__init__(
            {
                "start": In(1),
                "command": In(command_layout(params)),
                "busy": Out(1),
                "saturated": Out(1),
                "read": Out(ReadPort(params.halves_rows, halves_row(params))),
                **group_writes(params),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        x, command = Signal(self.command.shape()), Signal(self.command.shape())
        m.d.comb += command.eq(Mux(self.start, self.command, x))
        with m.If(self.start):
            m.d.sync += x.eq(self.command)
        m.submodules.feeder = feeder = HalvesFeeder(p)
        m.submodules.offsets = offset = OffsetGenerator(p.offset)
        m.submodules.converter = converter = Converter(p.converter)
        m.submodules.writer = writer = GroupWriter(p)
        wiring.connect(m, feeder.read, wiring.flipped(self.read))
        wiring.connect(m, converter.o, writer.beats)
        shifted = wire(m, "shifted", x.learn | (x.conversion == Conversion.KEYS))
        beat, waiting = self._beats(m, feeder)
        padding = self._padding(m, offset, beat)
        m.d.comb += [
            feeder.start.eq(self.start & ~command.clear),
            feeder.command.eq(command),
            writer.start.eq(self.start),
            writer.command.eq(command),
            offset.i.valid.eq(beat.valid & shifted),
            offset.i.p.learn.eq(x.learn),
            offset.i.p.first.eq(x.first),
            offset.i.p.last.eq(x.last & beat.p.last),
            offset.i.p.channel.eq(beat.p.element),
            offset.i.p.values.eq(beat.p["values"]),
            offset.o.ready.eq(converter.i.ready),
            beat.ready.eq(Mux(shifted, offset.i.ready, converter.i.ready)),
            converter.i.valid.eq(Mux(shifted, offset.o.valid, beat.valid)),
            converter.i.p.spatial.eq(x.conversion == Conversion.VALUES),
            converter.i.p.short.eq(0),  # the high half of 8 bits is what 4 bits would be
            self.busy.eq(waiting | writer.busy | (x.learn & ~offset.i.ready)),
            self.saturated.eq(converter.o.valid & converter.o.p.saturated),
            self.converted.eq(writer.converted),
            self.write_activations.eq(writer.write_activations),
            self.write_operands.eq(writer.write_operands),
        ]
        for k, value in enumerate(converter.i.p.values):
            less = offset.o.p.values[k] & ~padding[k // p.rows].replicate(FP16.bits)
            m.d.comb += value.eq(Mux(shifted, less, beat.p.values[k]))
        return m

    def _beats(self, m: Module, feeder: HalvesFeeder) -> tuple[Any, Value]:
        """The feeder's beats, for FPGAs a cycle later; whether there are any."""
        if self.params.feeder_cycles == 1:
            return feeder.beats, feeder.busy
        m.submodules.near = near = RegisterSlice(feeder.beats.payload.shape())
        wiring.connect(m, feeder.beats, near.i)
        return near.o, feeder.busy | near.o.valid

    def _padding(self, m: Module, offset: OffsetGenerator, beat: Any) -> Value:
        """Which values of the beat that leaves the offset generator are padding."""
        padding = Signal(self.params.converter_width)
        if self.params.offset.latency == 1:
            with m.If(offset.i.valid & offset.i.ready):
                m.d.sync += padding.eq(beat.p.padding)
            return padding
        before = [Signal.like(padding, name=f"padding{k}") for k in (1, 2)]
        with m.If(~offset.o.valid | offset.o.ready):
            m.d.sync += [padding.eq(before[1]), before[1].eq(before[0])]
            m.d.sync += before[0].eq(beat.p.padding)
        return padding
