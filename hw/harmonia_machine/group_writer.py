"""Groups of the converter on their way into the memories, and low halves that are cleared."""

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import ACTIVATION_BITS, OPERAND_BITS
from tilewright.golden.params.harmonia_machine import Conversion, HarmoniaParams
from tilewright.golden.params.machine import EXPONENT_BYTE, ROW_FIELD, SIZE_FIELD
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.harmonia_machine.buffers import activation_row
from tilewright.hw.harmonia_machine.operands import write_layout
from tilewright.hw.unit import payload_layout

# Operands of instructions whose signals in a command have older names, which the emitted Verilog
# keeps.
COMMAND_NAMES = {"low_halves": "lows", "metadata": "facts"}


def command_layout(params: HarmoniaParams) -> data.StructLayout:
    """Operands of a convert, learn or clear, constant while it runs."""
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

    def elaborate(self, platform: object) -> Module:
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
            first = c - c % p.spatial_width
            m.d.comb += columns[c].eq(Mux(is_values, column == first, of_token))
        m.d.comb += [
            self.beats.ready.eq(1),
            activations.enable.eq(complete & is_activations),
            activations.row.eq(x.destination + number),
            self.converted.eq(Mux(complete, Mux(is_values, p.spatial_width, p.rows), 0)),
        ]
        for r in range(p.rows):
            m.d.comb += [
                activations.data.signs[r].eq(signs[r][self._width :]),
                activations.data.mantissas[r].eq(mantissas[r][self._width * ACTIVATION_BITS :]),
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

    @property
    def _width(self) -> int:
        """Elements of a token in a beat."""
        return self.params.converter_width

    def _count(self, m: Module) -> tuple[Value, Value, Value, Value]:
        """Whether a group is complete, its number and column; whether a beat has arrived since."""
        p, x, i = self.params, self.command, self.beats
        loops = p.converter.loops
        spatial = x.conversion == Conversion.VALUES
        self._left = Signal(SIZE_FIELD)  # blocks to come
        complete, taken_again = Signal(), Signal()
        beat = Signal(range(loops))
        number = Signal(SIZE_FIELD)
        column = Signal(range(p.columns))
        column_ends = wire(m, "column_ends", spatial & (beat == loops - 1))
        m.d.sync += [complete.eq(i.valid & (i.p.last | column_ends)), taken_again.eq(i.valid)]
        with m.If(i.valid):
            m.d.sync += beat.eq(Mux(~spatial | column_ends, 0, beat + 1))
            with m.If(i.p.last):
                m.d.sync += self._left.eq(self._left - 1)
        with m.If(complete):
            row_ends = ~spatial | (column == p.columns - p.spatial_width)
            m.d.sync += [
                column.eq(Mux(row_ends, 0, column + p.spatial_width)),
                number.eq(number + row_ends),
            ]
        with m.If(self.start):
            m.d.sync += [beat.eq(0), number.eq(0), column.eq(0)]
            m.d.sync += self._left.eq(Mux(x.learn | x.clear, 0, x.blocks))
        return complete, number, column, taken_again

    def _gather(self, m: Module) -> tuple[list[Signal], list[Signal], list[Signal]]:
        """The last group of every row and the elements of a beat before it; the last exponent."""
        p, i, width = self.params, self.beats, self._width
        spatial = self.command.conversion == Conversion.VALUES
        length = p.group + width
        signs = [Signal(length, name=f"signs_{r}") for r in range(p.rows)]
        mantissas = [Signal(length * ACTIVATION_BITS, name=f"mantissas_{r}") for r in range(p.rows)]
        exponents = [Signal(FP16.exponent_bits, name=f"exponent_{r}") for r in range(p.rows)]
        with m.If(i.valid):
            for r in range(p.rows):
                m.d.sync += [
                    signs[r].eq(Cat(signs[r][1:], i.p.signs[r])),
                    mantissas[r].eq(Cat(mantissas[r][ACTIVATION_BITS:], i.p.mantissas[r])),
                    exponents[r].eq(i.p.exponents[r]),
                ]
                if width > 1:
                    own = range(r, p.converter.lanes, p.rows)
                    with m.If(~spatial if p.spatial_width == 1 else Const(1)):
                        m.d.sync += [
                            signs[r].eq(Cat(signs[r][width:], *(i.p.signs[k] for k in own))),
                            mantissas[r].eq(
                                Cat(
                                    mantissas[r][width * ACTIVATION_BITS :],
                                    *(i.p.mantissas[k] for k in own),
                                )
                            ),
                        ]
        return signs, mantissas, exponents

    def _columns(
        self,
        m: Module,
        signs: list[Value],
        mantissas: list[Value],
        octet: Value,
        is_values: Value,
        second: Value,
        taken_again: Value,
        clearing: Value,
    ) -> None:
        """Each column's content: a token's group, or the gathered group of a channel."""
        p = self.params
        words = []
        for r in range(p.rows):
            newest = mantissas[r][self._width * ACTIVATION_BITS :]
            # A beat that has arrived since has moved the group, of a channel by one element.
            before = mantissas[r][: p.group * ACTIVATION_BITS]
            if self._width > p.spatial_width:
                moved = mantissas[r][(self._width - 1) * ACTIVATION_BITS : -ACTIVATION_BITS]
                before = Mux(is_values, moved, before)
            highs = [newest.word_select(k, ACTIVATION_BITS)[OPERAND_BITS:] for k in range(p.group)]
            held = wire(m, f"held_{r}", Mux(taken_again, before, newest))
            lows = [held.word_select(k, ACTIVATION_BITS)[:OPERAND_BITS] for k in range(p.group)]
            chosen = Signal(p.group * OPERAND_BITS, name=f"halves_{r}")
            m.d.comb += chosen.eq(Mux(second, Cat(*lows), Cat(*highs)))
            words.append(chosen)
        # In space only the last few beats are the group's.
        apart = p.spatial_width
        first = p.group - p.converter.loops * apart
        places = [
            [(k % p.rows, first + k // p.rows * apart + j) for k in range(p.group)]
            for j in range(apart)
        ]
        channels = []
        for j, own in enumerate(places):
            halves = Cat(*(words[r].word_select(k, OPERAND_BITS) for r, k in own))
            of_channel = Cat(*(signs[r][self._width + k] for r, k in own))
            suffix = f"_{j}" if apart > 1 else ""
            channels.append(
                (
                    wire(m, f"channel_halves{suffix}", halves),
                    wire(m, f"channel_signs{suffix}", of_channel),
                )
            )
        for c, word in enumerate(self.write_operands.data):
            r, (halves, of_channel) = c % p.rows, channels[c % apart]
            m.d.comb += [
                word.operands.eq(Mux(is_values, halves, words[r])),
                word.signs.eq(Mux(is_values, of_channel, signs[r][self._width :])),
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
