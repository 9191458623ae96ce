"""Top controller: sizes and errors of the instructions, and the parts of a tiled GEMM."""

from functools import partial

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import Out

from tilewright.golden.params.harmonia_machine import (
    INSTRUCTION_FIELDS,
    SCALAR_FIELD,
    TOKENS_FIELD,
    Conversion,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
    Sums,
)
from tilewright.golden.params.machine import OPCODE_BITS, SCALARS, SIZE_FIELD, Error, UnitOfWork
from tilewright.hw.harmonia_machine.tiled_gemm import TiledGemmController
from tilewright.hw.machine.ranges import Range, regions_of
from tilewright.hw.machine.sequencer import (
    InstructionSet,
    Sequencer,
    first_error,
    is_one_of,
    parts_of,
)
from tilewright.hw.machine.vector_operands import VectorOperands

UNITS = {
    UnitOfWork.LOAD: (Opcode.LOAD,),
    UnitOfWork.STORE: (Opcode.STORE,),
    UnitOfWork.MATRIX: (Opcode.GEMM,),
    UnitOfWork.VECTOR: (Opcode.VECTOR,),
    UnitOfWork.CONVERT: (Opcode.CONVERT, Opcode.LEARN, Opcode.CLEAR),
}
INSTRUCTIONS = InstructionSet(Opcode, INSTRUCTION_FIELDS, Memory, UNITS)
fields_of = INSTRUCTIONS.fields_of
# Memories whose regions are held, and how many ranges of each an instruction has at most.
BUFFERS = {Memory.MANTISSAS: 1, Memory.FP16: 3, Memory.OPERANDS: 3}


class Controller(Sequencer):
    """The sequencer of Harmonia's instructions.

    Members
    -------
    lanes, tokens, row_major, causal_limit : Out
        Settings of ``configure``.
    words, groups, tiles : Out
        Sizes of a tensor with the instruction's elements: rows of a token tile, groups, tiles of
        columns; one word where a vector instruction has no tensor.
    """

    params: HarmoniaParams

    def __init__(self, params: HarmoniaParams):
        self.product = TiledGemmController(params)
        self._ranges = {
            memory: [Range(params, f"{memory.name.lower()}{k}") for k in range(count)]
            for memory, count in BUFFERS.items()
        }
        super().__init__(
            params,
            INSTRUCTIONS,
            {
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
        return [self.lanes.eq(~0), self.tokens.eq(0), self.row_major.eq(0), self.causal_limit.eq(0)]

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

    def dispatch(self, m: Module) -> None:
        with m.Case(Opcode.TILED_GEMM):
            m.d.comb += self.product.start.eq(1)
            m.next = "FETCH"

    def needs(self) -> Value:
        """Regions, and scalar registers, which a gemm's maxima and the vector unit share."""
        opcode, gemm = self.word[:OPCODE_BITS], fields_of(Opcode.GEMM, self.word)
        vector = VectorOperands(self, fields_of(Opcode.VECTOR, self.word))
        maxima = Cat(
            gemm.maxima & ((k - gemm.register)[:SCALAR_FIELD] < gemm.token_tiles)
            for k in range(SCALARS)
        )
        scalars = Mux(
            opcode == Opcode.VECTOR, vector.scalars(), Mux(opcode == Opcode.GEMM, maxima, 0)
        )
        regions = (regions_of(self.params, memory, self._ranges[memory]) for memory in BUFFERS)
        return Cat(*regions, scalars)

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
        self._measure(m)
        p, word = self.params, self.word
        opcode = word[:OPCODE_BITS]
        gemm, convert = fields_of(Opcode.GEMM, word), fields_of(Opcode.CONVERT, word)
        vector = VectorOperands(self, fields_of(Opcode.VECTOR, word))
        move = fields_of(Opcode.LOAD, word)
        learn, clear = fields_of(Opcode.LEARN, word), fields_of(Opcode.CLEAR, word)
        product = fields_of(Opcode.TILED_GEMM, word)
        over = Signal()
        beyond = (x.end > p.depth(memory) for memory in BUFFERS for x in self._ranges[memory])
        m.d.comb += over.eq(Cat(beyond).any())
        error = Signal(Error)
        check = partial(first_error, m, error)

        def any_zero(*sizes: Value) -> Value:
            return Cat(size == 0 for size in sizes).any()

        with m.Switch(opcode):
            with m.Case(Opcode.HALT, Opcode.WAIT, Opcode.CONFIGURE):
                pass
            with m.Case(Opcode.LOAD, Opcode.STORE):
                stores = is_one_of(move.memory, [memory for memory in Memory if memory.stores])
                spread = move.spread > Mux(move.memory == Memory.FP16, p.rows, 0)
                check(
                    ((opcode == Opcode.STORE) & ~stores, Error.OPERAND),
                    ((opcode == Opcode.LOAD) & spread, Error.OPERAND),
                    (any_zero(move.rows), Error.SIZE),
                    (over, Error.ADDRESS),
                )
            with m.Case(Opcode.GEMM):
                check(
                    (~is_one_of(gemm.operand, p.operands), Error.OPERAND),
                    *self._shared_errors(gemm, Error.OPERAND),
                    (any_zero(gemm.groups, gemm.tiles, gemm.token_tiles), Error.SIZE),
                    (gemm.maxima & (gemm.token_tiles > SCALARS), Error.SIZE),
                    *self._shared_errors(gemm, Error.SIZE),
                    *self._shared_errors(gemm, Error.ADDRESS),
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
            if p.row_groups == 1:
                with m.Case(Opcode.TILED_GEMM):
                    sizes = (product.groups, product.tiles, product.token_tiles, product.keep)
                    check((any_zero(*sizes), Error.SIZE))
            with m.Case(Opcode.LOOP):
                check(*self.loop_errors())
            with m.Default():
                m.d.comb += error.eq(Error.OPCODE)
        return error

    def _shared_errors(self, gemm: data.View, error: Error) -> list[tuple[Value, Error]]:
        """A shared gemm: no maxima, whole blocks of tiles, and rows from that of a block on.

        One block of a token tile where its sums stay open.
        """
        count = self.params.row_groups
        if count == 1:
            return []
        bits = (count - 1).bit_length()
        several = (gemm.tiles != count) | (gemm.token_tiles != 1)
        wrong = {
            Error.OPERAND: gemm.maxima,
            Error.SIZE: gemm.tiles[:bits].any() | ((gemm.register & Sums.OPEN).any() & several),
            Error.ADDRESS: (gemm.operands[:bits] | gemm.metadata[:bits]).any(),
        }
        return [((gemm.operand == Operand.SHARED) & wrong[error], error)]

    def _measure(self, m: Module) -> None:
        """Sizes, and all ranges of rows."""
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
        found = m.d.comb if p.measure_cycles == 1 else m.d.sync
        found += [
            words.eq(parts_of(elements, p.word_values)),
            groups.eq(parts_of(elements, p.group)),
            tiles.eq(parts_of(elements, p.columns)),
        ]
        m.d.comb += vector.meanings()
        activations, halves, operands = self._ranges.values()
        m.d.sync += [
            self.words.eq(words),
            self.groups.eq(groups),
            self.tiles.eq(tiles),
            *(x.is_empty() for several in self._ranges.values() for x in several),
            *(x.settles() for several in self._ranges.values() for x in several),
        ]
        with m.Switch(opcode):
            with m.Case(Opcode.LOAD, Opcode.STORE):
                with m.Switch(move.memory):
                    for memory in Memory:
                        with m.Case(memory):
                            m.d.sync += self._ranges[memory.buffer][0].covers(move.row, move.rows)
            with m.Case(Opcode.GEMM):
                tiles_taken = gemm.tiles
                if p.row_groups > 1:  # of weights whole blocks
                    cached = is_one_of(gemm.operand, (Operand.KEYS, Operand.VALUES))
                    blocks = parts_of(gemm.tiles, p.row_groups)
                    tiles_taken = Mux(cached, gemm.tiles, blocks * p.row_groups)
                rows = tiles_taken * gemm.groups
                m.d.sync += [
                    activations[0].covers(gemm.source, gemm.token_tiles * gemm.groups),
                    halves[0].covers(
                        gemm.destination, gemm.token_tiles * gemm.tiles * p.tile_words
                    ),
                    operands[0].covers(gemm.operands, rows),
                    operands[1].covers(gemm.metadata, rows),
                ]
                for operand, across in ((Operand.KEYS, gemm.groups), (Operand.VALUES, gemm.tiles)):
                    with m.If(gemm.operand == operand):
                        ring = p.low_slots(operand) * across
                        m.d.sync += operands[2].covers(gemm.low_halves, ring)
            with m.Case(Opcode.VECTOR):
                m.d.comb += elements.eq(vector.fields.elements)
                vector.measure(m, halves, words)
            with m.Case(Opcode.CONVERT):
                m.d.comb += elements.eq(convert.elements)
                spatial = convert.conversion == Conversion.VALUES
                rows = Mux(spatial, tiles, groups)
                loops = Mux(spatial, p.converter.loops, 1)
                m.d.sync += halves[0].covers(convert.source, words * loops)
                with m.If(convert.conversion == Conversion.ACTIVATIONS):
                    m.d.sync += activations[0].covers(convert.destination, rows)
                with m.Else():
                    m.d.sync += [
                        operands[0].covers(convert.destination, rows),
                        operands[1].covers(convert.metadata, rows),
                    ]
                    with m.If(~convert.short):
                        m.d.sync += operands[2].covers(convert.low_halves, rows)
            with m.Case(Opcode.LEARN):
                m.d.comb += elements.eq(learn.elements)
                m.d.sync += halves[0].covers(learn.source, words)
            with m.Case(Opcode.CLEAR):
                m.d.sync += operands[0].covers(clear.low_halves, clear.rows)
