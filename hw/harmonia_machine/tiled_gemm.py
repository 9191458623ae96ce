"""The dataflow controller: the instructions that a tiled GEMM consists of, one after the other."""

from enum import IntEnum

from amaranth import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.harmonia_machine import (
    COUNT_FIELD,
    INSTRUCTION_FIELDS,
    TILE_FIELD,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from tilewright.golden.params.machine import INSTRUCTION_BITS, LINE_FIELD, OPCODE_BITS, ROW_FIELD
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.machine.move import lines_of
from tilewright.hw.unit import field_shape

TILED_GEMM = data.StructLayout(
    {f.name: field_shape(f) for f in INSTRUCTION_FIELDS[Opcode.TILED_GEMM]} | {"row_major": 1}
)
# Parts of a tile in external memory.
ACTIVATIONS = (Memory.MANTISSAS, Memory.SIGNS, Memory.EXPONENTS)
WEIGHTS = (Memory.OPERANDS, Memory.SCALES)


class State(IntEnum):
    """Choose the next instruction."""

    IDLE = 0
    STAY = 1  # loads a tile that stays
    PASS = 2  # loads a tile that passes
    GEMM = 3
    STORE = 4


class TiledGemmController(wiring.Component):
    """Keeps tiles of weights on chip while token tiles pass, or token tiles while weights pass.

    ``start`` takes the ``product``. While ``active``, ``word`` is the next instruction of
    tilewright.golden.harmonia_machine.isa.expand; ``taken`` moves on to the next one; ``stop``
    ends it. A *round* is what the tiles of one stay take. All addresses come from incrementers.
    """

    def __init__(self, params: HarmoniaParams):
        self.params = params
        super().__init__(
            {
                "start": In(1),
                "stop": In(1),
                "product": In(TILED_GEMM),
                "active": Out(1),
                "word": Out(INSTRUCTION_BITS),
                "taken": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, x = self.params, Signal(TILED_GEMM)
        state = Signal(State)
        stays_left, passes_left = Signal(COUNT_FIELD), Signal(COUNT_FIELD)
        count, number = Signal(TILE_FIELD), Signal(TILE_FIELD)  # tiles that stay in this round
        row = Signal(ROW_FIELD)
        last_number = wire(m, "last_number", number == count - 1)
        next_number = [number.eq(Mux(last_number, 0, number + 1))]
        memory, line, last_of_tile = self._loads(m, x, state, last_number)
        store_line = self._stores(m, x, state, last_of_tile, number == 0)

        def begin_round(left: Value, keep: Value) -> None:
            m.d.sync += [
                stays_left.eq(left),
                count.eq(Mux(left < keep, left, keep)),
                row.eq(0),
                state.eq(State.STAY),
            ]

        move = {"memory": memory, "rows": x.groups, "line": line}
        tiles = {"tiles": Mux(x.row_major, 1, count), "token_tiles": Mux(x.row_major, count, 1)}
        result = {"memory": Memory.FP16, "rows": p.tile_words, "line": store_line}
        words = {
            State.STAY: _word(Opcode.LOAD, row=row, **move),
            State.PASS: _word(Opcode.LOAD, **move),
            State.GEMM: _word(Opcode.GEMM, operand=Operand.WEIGHTS, groups=x.groups, **tiles),
            State.STORE: _word(Opcode.STORE, row=row, **result),
        }
        m.d.comb += self.active.eq(state != State.IDLE)
        with m.Switch(state):
            for own, word in words.items():
                with m.Case(own):
                    m.d.comb += self.word.eq(word)
        with m.If(self.taken):
            with m.Switch(state):
                with m.Case(State.STAY):
                    with m.If(last_of_tile):
                        m.d.sync += [*next_number, row.eq(row + x.groups)]
                        with m.If(last_number):
                            passes = Mux(x.row_major, x.tiles, x.token_tiles)
                            m.d.sync += [state.eq(State.PASS), passes_left.eq(passes)]
                with m.Case(State.PASS):
                    with m.If(last_of_tile):
                        m.d.sync += state.eq(State.GEMM)
                with m.Case(State.GEMM):
                    m.d.sync += [state.eq(State.STORE), row.eq(0)]
                with m.Case(State.STORE):
                    m.d.sync += [*next_number, row.eq(row + p.tile_words)]
                    with m.If(last_number):
                        m.d.sync += [passes_left.eq(passes_left - 1), state.eq(State.PASS)]
                        with m.If(passes_left == 1):
                            with m.If(stays_left == count):
                                m.d.sync += state.eq(State.IDLE)
                            with m.Else():
                                begin_round(stays_left - count, x.keep)
        with m.If(self.start):
            given = self.product
            m.d.sync += [x.eq(given), number.eq(0)]
            begin_round(Mux(given.row_major, given.token_tiles, given.tiles), given.keep)
        with m.If(self.stop):
            m.d.sync += state.eq(State.IDLE)
        return m

    def _loads(self, m: Module, x: data.View, state: Value, last_number: Value) -> tuple:
        """The memory and line of the load on offer, and whether it is the tile's last."""
        p = self.params
        source, weights = Signal(LINE_FIELD), Signal(LINE_FIELD)  # the tile's next line
        place = Signal(range(len(ACTIVATIONS)))  # within the tile
        of_activations = wire(m, "of_activations", x.row_major == (state == State.STAY))
        lines = Signal(LINE_FIELD)
        memory = Mux(of_activations, Array(ACTIVATIONS)[place], Array(WEIGHTS)[place])
        memory = wire(m, "memory", memory)
        last = wire(
            m, "last_of_tile", place == Mux(of_activations, len(ACTIVATIONS), len(WEIGHTS)) - 1
        )
        with m.Switch(memory):
            for of in (*ACTIVATIONS, *WEIGHTS):
                with m.Case(of):
                    m.d.comb += lines.eq(lines_of(p, of, x.groups))
        with m.If(self.taken & ((state == State.STAY) | (state == State.PASS))):
            m.d.sync += place.eq(Mux(last, 0, place + 1))
            with m.If(of_activations):
                m.d.sync += source.eq(source + lines)
            with m.Else():
                m.d.sync += weights.eq(weights + lines)
            with m.If((state == State.STAY) & last & last_number):
                # Passing tiles start from the beginning.
                with m.If(x.row_major):
                    m.d.sync += weights.eq(x.weights)
                with m.Else():
                    m.d.sync += source.eq(x.source)
        with m.If(self.start):
            m.d.sync += [
                place.eq(0),
                source.eq(self.product.source),
                weights.eq(self.product.weights),
            ]
        return memory, wire(m, "line", Mux(of_activations, source, weights)), last

    def _stores(
        self, m: Module, x: data.View, state: Value, last_of_tile: Value, first_number: Value
    ) -> Value:
        """The line of the result tile: token tile after token tile, in them tile after tile."""
        size = lines_of(self.params, Memory.FP16, Const(self.params.tile_words))
        line, first, next_first = (
            Signal(LINE_FIELD, name=n) for n in ("store_line", "pass_line", "round_line")
        )
        down = wire(m, "down", x.tiles * size)  # to the same tile of the next token tile
        stay_step = Mux(x.row_major, down, size)
        pass_step = Mux(x.row_major, size, down)
        with m.If(self.taken):
            with m.Switch(state):
                with m.Case(State.STAY):
                    with m.If(last_of_tile):
                        m.d.sync += next_first.eq(next_first + stay_step)
                        with m.If(first_number):
                            m.d.sync += first.eq(next_first)
                with m.Case(State.GEMM):
                    m.d.sync += [line.eq(first), first.eq(first + pass_step)]
                with m.Case(State.STORE):
                    m.d.sync += line.eq(line + stay_step)
        with m.If(self.start):
            m.d.sync += next_first.eq(self.product.destination)
        return line


def _word(opcode: Opcode, **values: Value | int) -> Value:
    """An instruction; fields that are not given are 0."""
    parts = [Const(opcode, OPCODE_BITS)]
    for f in INSTRUCTION_FIELDS[opcode]:
        value = Value.cast(values.get(f.name, 0))
        parts.append((value | Const(0, f.bits))[: f.bits])
    return Cat(*parts)
