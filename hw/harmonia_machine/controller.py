"""Top controller: sizes and errors of the instructions, and the parts of a tiled GEMM."""

from collections.abc import Callable
from functools import partial

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.harmonia_machine import (
    INSTRUCTION_FIELDS,
    TOKENS_FIELD,
    Conversion,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from tilewright.golden.params.machine import OPCODE_BITS, SCALARS, SIZE_FIELD, Error
from tilewright.hw.harmonia_machine.tiled_gemm import TiledGemmController
from tilewright.hw.machine.sequencer import (
    END_BITS,
    InstructionSet,
    Sequencer,
    first_error,
    is_one_of,
    parts_of,
)
from tilewright.hw.machine.vector_operands import VectorOperands

__all__ = ["INSTRUCTIONS", "Controller", "fields_of"]

INSTRUCTIONS = InstructionSet(Opcode, INSTRUCTION_FIELDS, Memory)
fields_of = INSTRUCTIONS.fields_of


class Controller(Sequencer):
    """The sequencer of Harmonia's instructions.

    Members
    -------
    lanes, tokens, row_major, causal_limit : Out
        What ``configure`` has set.
    words, groups, tiles : Out
        Of a tensor with the instruction's elements: rows of a token tile, groups, tiles of
        columns; one word where a vector instruction has no tensor. They hold while it runs.
    """

    params: HarmoniaParams

    def __init__(self, params: HarmoniaParams):
        self.product = TiledGemmController(params)
        super().__init__(
            params,
            INSTRUCTIONS,
            {
                "converting": In(1),  # a conversion runs
                "lanes": Out(params.rows),
                "tokens": Out(TOKENS_FIELD),
                "row_major": Out(1),
                "causal_limit": Out(SIZE_FIELD),
                "words": Out(SIZE_FIELD),
                "groups": Out(SIZE_FIELD),
                "tiles": Out(SIZE_FIELD),
            },
        )

    def reset_formats(self) -> list:
        return [
            self.lanes.eq(~0),
            self.tokens.eq(0),
            self.row_major.eq(0),
            self.causal_limit.eq(0),
        ]

    def configure(self) -> list:
        configure = fields_of(Opcode.CONFIGURE, self.word)
        return [
            self.lanes.eq(configure.lanes),
            self.tokens.eq(configure.tokens),
            self.row_major.eq(configure.dataflow),
            self.causal_limit.eq(configure.causal_limit),
        ]

    def next_word(self, m: Module) -> Value:
        m.d.comb += self.product.taken.eq(self.product.active)
        return Mux(self.product.active, self.product.word, self.fetched)

    def next_number(self, number: Value) -> Value:
        """The number stays that of a tiled GEMM until its last part is done."""
        return number + ~self.product.active

    def stalled(self) -> Value:
        """Beside a conversion in the background only gemms run."""
        runs_beside = (Opcode.GEMM, Opcode.CONFIGURE, Opcode.TILED_GEMM, Opcode.LOOP)
        return self.converting & ~is_one_of(self.word[:OPCODE_BITS], runs_beside)

    def background_idle(self) -> Value:
        return self.dma_idle & ~self.converting

    def dispatch(self, m: Module, proceed: Callable[[], None]) -> None:
        with m.Case(Opcode.TILED_GEMM):
            m.d.comb += self.product.start.eq(1)
            m.next = "FETCH"
        with m.Case(Opcode.CONVERT):
            m.d.comb += self.go.eq(1)
            with m.If(fields_of(Opcode.CONVERT, self.word).background):
                proceed()
            with m.Else():
                m.next = "RUN"

    def elaborate(self, platform: object) -> Module:
        m = super().elaborate(platform)
        m.submodules.product = product = self.product
        x = fields_of(Opcode.TILED_GEMM, self.word)
        m.d.comb += [
            product.stop.eq(self.start),
            product.product.row_major.eq(self.row_major),
            *(product.product[name].eq(x[name]) for name, _ in x.shape() if name != "opcode"),
        ]
        return m

    def check(self, m: Module) -> Value:
        ends = self._measure(m)
        p, word = self.params, self.word
        opcode = word[:OPCODE_BITS]
        gemm, convert = fields_of(Opcode.GEMM, word), fields_of(Opcode.CONVERT, word)
        vector = VectorOperands(self, fields_of(Opcode.VECTOR, word))
        move = fields_of(Opcode.LOAD, word)
        learn, clear = fields_of(Opcode.LEARN, word), fields_of(Opcode.CLEAR, word)
        product = fields_of(Opcode.TILED_GEMM, word)
        over = Signal()
        limits = {
            "activations": p.activation_rows,
            "halves": p.halves_rows,
            "operands": p.operand_rows,
        }
        m.d.comb += over.eq(
            Cat(end > limits[name] for name, several in ends.items() for end in several).any()
        )
        error = Signal(Error)
        check = partial(first_error, m, error)

        def any_zero(*sizes: Value) -> Value:
            return Cat(size == 0 for size in sizes).any()

        with m.Switch(opcode):
            with m.Case(Opcode.HALT, Opcode.WAIT, Opcode.CONFIGURE):
                pass
            with m.Case(Opcode.LOAD, Opcode.STORE):
                stores = is_one_of(move.memory, [memory for memory in Memory if memory.stores])
                check(
                    ((opcode == Opcode.STORE) & ~stores, Error.OPERAND),
                    (any_zero(move.rows), Error.SIZE),
                    (over, Error.ADDRESS),
                )
            with m.Case(Opcode.GEMM):
                check(
                    (~is_one_of(gemm.operand, Operand), Error.OPERAND),
                    (any_zero(gemm.groups, gemm.tiles, gemm.token_tiles), Error.SIZE),
                    (gemm.maxima & (gemm.token_tiles > SCALARS), Error.SIZE),
                    (over, Error.ADDRESS),
                )
            with m.Case(Opcode.VECTOR):
                check(*vector.errors(over))
            with m.Case(Opcode.CONVERT):
                keys = convert.conversion == Conversion.KEYS
                values = convert.conversion == Conversion.VALUES
                check(
                    (~is_one_of(convert.conversion, Conversion), Error.OPERAND),
                    (keys & (convert.part >= p.parts), Error.OPERAND),
                    (any_zero(convert.elements), Error.SIZE),
                    (values & any_zero(convert.tokens), Error.SIZE),
                    (values & (convert.tokens > p.group), Error.SIZE),
                    (over | (keys & (convert.elements > p.channels)), Error.ADDRESS),
                )
            with m.Case(Opcode.LEARN):
                check(
                    (any_zero(learn.elements), Error.SIZE),
                    (over | (learn.elements > p.channels), Error.ADDRESS),
                )
            with m.Case(Opcode.CLEAR):
                check(
                    (clear.part >= p.parts, Error.OPERAND),
                    (any_zero(clear.rows), Error.SIZE),
                    (over, Error.ADDRESS),
                )
            with m.Case(Opcode.TILED_GEMM):
                sizes = (product.groups, product.tiles, product.token_tiles, product.keep)
                check((any_zero(*sizes), Error.SIZE))
            with m.Case(Opcode.LOOP):
                check(*self.loop_errors())
            with m.Default():
                m.d.comb += error.eq(Error.OPCODE)
        return error

    def _measure(self, m: Module) -> dict[str, list[Signal]]:
        """Sizes, and by memory the row behind the last of every range, 0 where there is none."""
        p, word = self.params, self.word
        opcode = word[:OPCODE_BITS]
        gemm, convert = fields_of(Opcode.GEMM, word), fields_of(Opcode.CONVERT, word)
        vector = VectorOperands(self, fields_of(Opcode.VECTOR, word))
        move = fields_of(Opcode.LOAD, word)
        learn, clear = fields_of(Opcode.LEARN, word), fields_of(Opcode.CLEAR, word)
        elements = Signal(SIZE_FIELD)
        words, groups, tiles = (
            Signal(SIZE_FIELD, name=n) for n in ("words_now", "groups_now", "tiles_now")
        )
        m.d.comb += [
            words.eq(parts_of(elements, p.word_values)),
            groups.eq(parts_of(elements, p.group)),
            tiles.eq(parts_of(elements, p.columns)),
            *vector.meanings(),
        ]
        ends = {
            name: [Signal(END_BITS, name=f"{name}_end{k}") for k in range(count)]
            for name, count in (("activations", 1), ("halves", 3), ("operands", 3))
        }
        activations, halves, operands = ends.values()
        m.d.sync += [
            self.words.eq(words),
            self.groups.eq(groups),
            self.tiles.eq(tiles),
            *(end.eq(0) for several in ends.values() for end in several),
        ]
        with m.Switch(opcode):
            with m.Case(Opcode.LOAD, Opcode.STORE):
                with m.Switch(move.memory):
                    for memory in Memory:
                        own = {Memory.FP16: halves}.get(
                            memory, operands if memory >= Memory.OPERANDS else activations
                        )
                        with m.Case(memory):
                            m.d.sync += own[0].eq(move.row + move.rows)
            with m.Case(Opcode.GEMM):
                rows = gemm.tiles * gemm.groups
                m.d.sync += [
                    activations[0].eq(gemm.source + gemm.token_tiles * gemm.groups),
                    halves[0].eq(gemm.destination + gemm.token_tiles * gemm.tiles * p.tile_words),
                    operands[0].eq(gemm.operands + rows),
                    operands[1].eq(gemm.metadata + rows),
                ]
                for operand, across in (
                    (Operand.KEYS, gemm.groups),
                    (Operand.VALUES, gemm.tiles),
                ):
                    with m.If(gemm.operand == operand):
                        m.d.sync += operands[2].eq(gemm.low_halves + p.low_slots(operand) * across)
            with m.Case(Opcode.VECTOR):
                m.d.comb += elements.eq(vector.fields.elements)
                vector.measure(m, halves, words)
            with m.Case(Opcode.CONVERT):
                m.d.comb += elements.eq(convert.elements)
                spatial = convert.conversion == Conversion.VALUES
                rows = Mux(spatial, tiles, groups)
                loops = Mux(spatial, p.converter.loops, 1)
                m.d.sync += halves[0].eq(convert.source + words * loops)
                with m.If(convert.conversion == Conversion.ACTIVATIONS):
                    m.d.sync += activations[0].eq(convert.destination + rows)
                with m.Else():
                    m.d.sync += [
                        operands[0].eq(convert.destination + rows),
                        operands[1].eq(convert.metadata + rows),
                        operands[2].eq(Mux(convert.short, 0, convert.low_halves + rows)),
                    ]
            with m.Case(Opcode.LEARN):
                m.d.comb += elements.eq(learn.elements)
                m.d.sync += halves[0].eq(learn.source + words)
            with m.Case(Opcode.CLEAR):
                m.d.sync += operands[0].eq(clear.low_halves + clear.rows)
        return ends
