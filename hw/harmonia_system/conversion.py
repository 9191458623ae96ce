"""From fp16 values to block floating point: offsets, the converter, and where its groups go."""

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from golden.params.formats import FP16
from golden.params.harmonia import ACTIVATION_BITS, OPERAND_BITS
from golden.params.harmonia_system import Conversion, HarmoniaParams
from golden.params.program import EXPONENT_BYTE, ROW_FIELD, SIZE_FIELD
from hw.anda_system.buffers import ReadPort
from hw.arith.float_unpack import wire
from hw.harmonia.converter import Converter
from hw.harmonia.offset import OffsetGenerator
from hw.harmonia_system.buffers import activation_row, halves_row
from hw.harmonia_system.operands import write_layout
from hw.unit import payload_layout

__all__ = ["ConversionPath", "GroupWriter", "HalvesFeeder", "command_layout"]


def command_layout(params: HarmoniaParams) -> data.StructLayout:
    """What a convert, learn or clear works on; it holds while it runs."""
    return data.StructLayout(
        {
            "learn": 1,
            "clear": 1,
            "conversion": Conversion,
            "source": ROW_FIELD,
            "elements": SIZE_FIELD,
            "words": SIZE_FIELD,  # rows of a token tile
            "blocks": SIZE_FIELD,  # groups of a token, or tiles of channels
            "destination": ROW_FIELD,
            "lows": ROW_FIELD,
            "facts": ROW_FIELD,
            "part": 8,
            "tokens": 8,
            "short": 1,
            "first": 1,
            "last": 1,
            "rows": SIZE_FIELD,  # of a clear
            "lanes": params.rows,
        }
    )


class HalvesFeeder(wiring.Component):
    """Values of a tensor one element a beat, as the converter and the offset generator take them.

    In time: the elements of a token tile, padded to whole groups. In space: a block of channels
    after the other, each once for every token tile of the group. Padding is +0, and so are tokens
    that do not count.

    Timing: the first beat is offered two cycles after ``start``, then one a cycle.
    """

    def __init__(self, params: HarmoniaParams):
        self.params = params
        beat = data.StructLayout(
            {
                "values": data.ArrayLayout(FP16.bits, params.rows),
                "element": SIZE_FIELD,
                "padding": 1,
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

    def elaborate(self, platform):
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
        padding = wire(m, "padding", element >= x.elements)
        place_ends = wire(m, "place_ends", place == Mux(spatial, p.columns - 1, p.group - 1))
        block_ends = wire(m, "block_ends", place_ends & (~spatial | (loop == loops - 1)))
        ends = wire(
            m,
            "ends",
            Mux(x.learn, element == x.elements - 1, block_ends & (blocks_left == 1)),
        )
        word_bits = (p.word_values - 1).bit_length()
        m.d.comb += [
            self.read.enable.eq(step & ~padding & (place[:word_bits] == 0)),
            self.read.address.eq(tile_row + (element >> word_bits)),
            self.busy.eq(active | o.valid),
        ]
        with m.If(step):
            m.d.sync += place.eq(Mux(place_ends, 0, place + 1))
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
        for r, value in enumerate(o.p.values):
            read = self.read.data[r].word_select(within, FP16.bits)
            shown = counts[r] & ~o.p.padding
            m.d.comb += value.eq(read & shown.replicate(FP16.bits))
        return m


def group_writes(params: HarmoniaParams) -> dict[str, Out]:
    """Rows that a group writer gives."""
    place = {"enable": 1, "row": range(params.activation_rows)}
    return {
        "converted": Out(range(params.rows + 1)),  # groups that are written now
        "write_activations": Out(data.StructLayout(place | {"data": activation_row(params)})),
        "write_operands": Out(write_layout(params)),
    }


class GroupWriter(wiring.Component):
    """Gathers the converter's beats to groups and writes them where the command says.

    A group for the operand memories is two rows of halves of mantissas: high halves, signs and
    exponents in one cycle, low halves in the next. ``clear`` writes +0 to low halves, a row a
    cycle. Takes a beat in every cycle.

    Timing: a group is written in the cycle after its last beat.
    """

    def __init__(self, params: HarmoniaParams):
        self.params = params
        (beats,) = params.converter.outputs
        super().__init__(
            {
                "start": In(1),
                "command": In(command_layout(params)),
                "busy": Out(1),
                "beats": In(stream.Signature(payload_layout(beats))),
                **group_writes(params),
            }
        )

    def elaborate(self, platform):
        m = Module()
        p, x = self.params, self.command
        complete, number, column, taken_again = self._count(m)
        signs, mantissas, exponents = self._gather(m)

        # High halves, signs, exponents; low halves a cycle later.
        activations, operands = self.write_activations, self.write_operands
        is_activations = wire(m, "is_activations", x.conversion == Conversion.ACTIVATIONS)
        is_values = wire(m, "is_values", x.conversion == Conversion.VALUES)
        columns = Signal(p.columns)
        for c in range(p.columns):
            of_token = x.lanes[c % p.rows] & (x.part == c // p.rows)
            m.d.comb += columns[c].eq(Mux(is_values & ~x.clear, column == c, of_token))
        m.d.comb += [
            self.beats.ready.eq(1),
            activations.enable.eq(complete & is_activations),
            activations.row.eq(x.destination + number),
            self.converted.eq(Mux(complete, Mux(is_values, 1, p.rows), 0)),
        ]
        for r in range(p.rows):
            m.d.comb += [
                activations.data.signs[r].eq(signs[r][1:]),
                activations.data.mantissas[r].eq(mantissas[r][ACTIVATION_BITS:]),
            ]
        octet = [Cat(e, Const(0, EXPONENT_BYTE - len(e))) for e in exponents]
        m.d.comb += activations.data.exponents[0].eq(Cat(*octet))

        second = Signal()
        low_columns, low_number = Signal(p.columns), Signal(SIZE_FIELD)
        m.d.sync += second.eq(complete & ~is_activations & ~x.short)
        with m.If(complete):
            m.d.sync += [low_columns.eq(columns), low_number.eq(number)]
        clearing = self._clear(m)
        writes = wire(m, "writes", complete & ~is_activations)
        of_lows = Mux(clearing.any(), columns, low_columns & second.replicate(p.columns))
        of_highs = columns & writes.replicate(p.columns)
        m.d.comb += [
            operands.enable.operands.eq(of_highs | of_lows),
            operands.enable.signs.eq(of_highs),
            operands.enable.exponent.eq(of_highs),
            operands.row.facts.eq(x.facts + number),
            operands.row.operands.eq(
                Mux(second | clearing.any(), x.lows + low_number, x.destination + number)
            ),
        ]
        with m.If(clearing.any()):
            m.d.sync += low_number.eq(low_number + 1)
        with m.If(self.start):
            m.d.sync += low_number.eq(0)
        self._columns(m, signs, mantissas, octet, is_values, second, taken_again, clearing.any())
        m.d.comb += self.busy.eq(self._left.any() | complete | second | clearing.any())
        return m

    def _count(self, m: Module) -> tuple[Value, Value, Value, Value]:
        """Whether a group is complete, its number and column; whether a beat came since."""
        p, x, i = self.params, self.command, self.beats
        loops = p.converter.loops
        spatial = x.conversion == Conversion.VALUES
        self._left = Signal(SIZE_FIELD)  # blocks to come
        complete, taken_again = Signal(), Signal()
        beat = Signal(range(loops))
        number = Signal(SIZE_FIELD)
        column = Signal(range(p.columns))
        column_ends = wire(m, "column_ends", spatial & (beat == loops - 1))
        m.d.sync += [
            complete.eq(i.valid & (i.p.last | column_ends)),
            taken_again.eq(i.valid),
        ]
        with m.If(i.valid):
            m.d.sync += beat.eq(Mux(~spatial | column_ends, 0, beat + 1))
            with m.If(i.p.last):
                m.d.sync += self._left.eq(self._left - 1)
        with m.If(complete):
            row_ends = ~spatial | (column == p.columns - 1)
            m.d.sync += [
                column.eq(Mux(row_ends, 0, column + 1)),
                number.eq(number + row_ends),
            ]
        with m.If(self.start):
            m.d.sync += [beat.eq(0), number.eq(0), column.eq(0)]
            m.d.sync += self._left.eq(Mux(x.learn | x.clear, 0, x.blocks))
        return complete, number, column, taken_again

    def _gather(self, m: Module) -> tuple[list[Signal], list[Signal], list[Signal]]:
        """Of every lane the last ``group + 1`` beats, and the last exponent."""
        p, i = self.params, self.beats
        signs = [Signal(p.group + 1, name=f"signs_{r}") for r in range(p.rows)]
        mantissas = [
            Signal((p.group + 1) * ACTIVATION_BITS, name=f"mantissas_{r}") for r in range(p.rows)
        ]
        exponents = [Signal(FP16.exponent_bits, name=f"exponent_{r}") for r in range(p.rows)]
        with m.If(i.valid):
            for r in range(p.rows):
                m.d.sync += [
                    signs[r].eq(Cat(signs[r][1:], i.p.signs[r])),
                    mantissas[r].eq(Cat(mantissas[r][ACTIVATION_BITS:], i.p.mantissas[r])),
                    exponents[r].eq(i.p.exponents[r]),
                ]
        return signs, mantissas, exponents

    def _columns(
        self, m, signs, mantissas, octet, is_values, second, taken_again, clearing
    ) -> None:
        """What each column would be written: a token's group, or the gathered one of a channel."""
        p = self.params
        words = []
        for r in range(p.rows):
            newest = mantissas[r][ACTIVATION_BITS:]
            before = mantissas[r][:-ACTIVATION_BITS]
            highs = [newest.word_select(k, ACTIVATION_BITS)[OPERAND_BITS:] for k in range(p.group)]
            held = wire(m, f"held_{r}", Mux(taken_again, before, newest))
            lows = [held.word_select(k, ACTIVATION_BITS)[:OPERAND_BITS] for k in range(p.group)]
            chosen = Signal(p.group * OPERAND_BITS, name=f"halves_{r}")
            m.d.comb += chosen.eq(Mux(second, Cat(*lows), Cat(*highs)))
            words.append(chosen)
        first = p.group - p.converter.loops  # in space only the last few beats are the group's
        channel_halves = [
            words[k % p.rows].word_select(first + k // p.rows, OPERAND_BITS) for k in range(p.group)
        ]
        channel_signs = [signs[k % p.rows][1 + first + k // p.rows] for k in range(p.group)]
        channel = wire(m, "channel_halves", Cat(*channel_halves))
        of_channel = wire(m, "channel_signs", Cat(*channel_signs))
        for c, word in enumerate(self.write_operands.data):
            r = c % p.rows
            m.d.comb += [
                word.operands.eq(Mux(is_values, channel, words[r])),
                word.signs.eq(Mux(is_values, of_channel, signs[r][1:])),
                word.exponent.eq(octet[r]),
            ]
            with m.If(clearing):
                m.d.comb += word.operands.eq(0)

    def _clear(self, m: Module) -> Value:
        """Rows still to clear."""
        rows_left = Signal(SIZE_FIELD)
        with m.If(rows_left.any()):
            m.d.sync += rows_left.eq(rows_left - 1)
        with m.If(self.start & self.command.clear):
            m.d.sync += rows_left.eq(self.command.rows)
        return rows_left


class ConversionPath(wiring.Component):
    """Convert, learn and clear: fp16 memory, offset generator, converter, groups.

    ``start`` takes the ``command``; ``busy`` until all is written, and after the last learn until
    the offsets are found. Keys pass the offset generator, everything else goes past it.
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

    def elaborate(self, platform):
        m = Module()
        p, x = self.params, self.command
        m.submodules.feeder = feeder = HalvesFeeder(p)
        m.submodules.offset = offset = OffsetGenerator(p.offset)
        m.submodules.converter = converter = Converter(p.converter)
        m.submodules.writer = writer = GroupWriter(p)
        wiring.connect(m, feeder.read, wiring.flipped(self.read))
        wiring.connect(m, converter.o, writer.beats)
        shifted = wire(m, "shifted", x.learn | (x.conversion == Conversion.KEYS))
        beat = feeder.beats
        padding = Signal()  # of the beat that leaves the offset generator
        with m.If(offset.i.valid & offset.i.ready):
            m.d.sync += padding.eq(beat.p.padding)
        m.d.comb += [
            feeder.start.eq(self.start & ~x.clear),
            feeder.command.eq(x),
            writer.start.eq(self.start),
            writer.command.eq(x),
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
            self.busy.eq(feeder.busy | writer.busy | (x.learn & ~offset.i.ready)),
            self.saturated.eq(converter.o.valid & converter.o.p.saturated),
            self.converted.eq(writer.converted),
            self.write_activations.eq(writer.write_activations),
            self.write_operands.eq(writer.write_operands),
        ]
        for value, own, less in zip(
            converter.i.p.values, beat.p["values"], offset.o.p["values"], strict=True
        ):
            m.d.comb += value.eq(Mux(shifted, less & ~padding.replicate(FP16.bits), own))
        return m
