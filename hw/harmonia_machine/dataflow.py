"""Flexible dataflow of a gemm: which rows the array multiplies, and where its results go."""

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import Mode
from tilewright.golden.params.harmonia_machine import (
    COUNT_FIELD,
    SCALAR_FIELD,
    TILE_FIELD,
    TOKENS_FIELD,
    HarmoniaParams,
    Operand,
    Sums,
)
from tilewright.golden.params.machine import EXPONENT_BYTE, ROW_FIELD, SIZE_FIELD
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.harmonia_machine.buffers import MaskedWritePort, activation_row, halves_row
from tilewright.hw.harmonia_machine.operands import sums_layout
from tilewright.hw.machine.lane_parts import MINUS_INFINITY
from tilewright.hw.unit import payload_layout

# Operands of a gemm, constant while it runs.
GEMM = data.StructLayout(
    {
        "operand": 2,
        "source": ROW_FIELD,
        "operands": ROW_FIELD,
        "low_halves": ROW_FIELD,
        "metadata": ROW_FIELD,
        "destination": ROW_FIELD,
        "groups": COUNT_FIELD,
        "tiles": COUNT_FIELD,
        "token_tiles": TILE_FIELD,
        "maxima": 1,
        "register": SCALAR_FIELD,
        "tokens": TOKENS_FIELD,  # in the cache
        "row_major": 1,
        "causal_limit": SIZE_FIELD,
    }
)


def maxima_layout(params: HarmoniaParams) -> data.StructLayout:
    """A value of every row for the largest ones that a scalar register holds."""
    return data.StructLayout(
        {
            "enable": 1,
            "restart": 1,  # the first values: what the register held does not count
            "register": SCALAR_FIELD,
            "values": data.ArrayLayout(FP16.bits, params.rows),
        }
    )


def stays_open(gemm: data.View) -> Value:
    """Whether a gemm leaves its sums in the array, where the next goes on, and has no results."""
    return (gemm.operand == Operand.SHARED) & (gemm.register & Sums.OPEN).any()


class _Tiles:
    """Counters over tiles and token tiles, in either order. ``step`` moves to the next pair.

    A shared gemm, of ``row_groups``, works on as many tiles at once.
    """

    def __init__(
        self, m: Module, name: str, gemm: data.View, start: Value, step: Value, row_groups: int
    ):
        shared = gemm.operand == Operand.SHARED
        each = Mux(shared, row_groups, 1) if row_groups > 1 else 1
        self.tile = Signal(COUNT_FIELD, name=f"{name}_tile")
        self.token_tile = Signal(TILE_FIELD, name=f"{name}_token_tile")
        self.last_tile = wire(m, f"{name}_last_tile", self.tile == gemm.tiles - each)
        self.last_token_tile = wire(
            m, f"{name}_last_token_tile", self.token_tile == gemm.token_tiles - 1
        )
        # Whether the next pair has another tile, or another token tile, than this one.
        self.tile_moves = wire(m, f"{name}_tile_moves", gemm.row_major | self.last_token_tile)
        self.token_tile_moves = wire(
            m, f"{name}_token_tile_moves", ~gemm.row_major | self.last_tile
        )
        self.last = wire(m, f"{name}_last", self.last_tile & self.last_token_tile)
        with m.If(step):
            with m.If(self.tile_moves):
                m.d.sync += self.tile.eq(Mux(self.last_tile, 0, self.tile + each))
            with m.If(self.token_tile_moves):
                m.d.sync += self.token_tile.eq(Mux(self.last_token_tile, 0, self.token_tile + 1))
        with m.If(start):
            m.d.sync += [self.tile.eq(0), self.token_tile.eq(0)]


class SumFeeder(wiring.Component):
    """The sums of a gemm, from the activation memories to the array.

    Column-major takes every token tile with a tile of operands before the next tile; row-major
    every tile with a token tile. A group with 8-bit operands is two sums, high halves first. Which
    operands those are is the precision of the cache at ``tokens``
    (:meth:`tilewright.golden.params.harmonia_machine.HarmoniaParams.has_low`), and where their low
    halves lie a ring (``low_slot``).

    Timing: the first sum is offered two cycles after ``start``, then one a cycle as they are taken.
    """

    def __init__(self, params: HarmoniaParams):
        self.params = params
        super().__init__(
            {
                "start": In(1),
                "gemm": In(GEMM),
                "busy": Out(1),
                "sums": Out(stream.Signature(sums_layout(params))),
                "read_enable": Out(1),
                "read_row": Out(range(params.activation_rows)),
                "read_data": In(activation_row(params)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        o, gemm = self.sums, self.gemm
        active, low = Signal(), Signal()  # low: the second sum of a group is next
        group = Signal(COUNT_FIELD)
        is_values = wire(m, "is_values", gemm.operand == Operand.VALUES)
        step = wire(m, "step", active & (~o.valid | o.ready))
        last_group = wire(m, "last_group", group == gemm.groups - 1)
        group_ends = Signal()
        tile_ends = wire(m, "tile_ends", step & group_ends & last_group)
        tiles = _Tiles(m, "sums", gemm, self.start, tile_ends, self.params.row_groups)

        # Rows: where the group, the tile and the token tile begin.
        source, first_source = Signal(ROW_FIELD), Signal(ROW_FIELD)
        place, first_place = Signal(ROW_FIELD), Signal(ROW_FIELD)  # from ``operands`` on
        next_source = wire(m, "next_source", (source + 1)[:ROW_FIELD])
        row_groups = self.params.row_groups
        weights = gemm.operand == Operand.WEIGHTS
        every, another = Mux(is_values, gemm.tiles, 1), is_values
        if row_groups > 1:  # a row of every tile of a block, group by group
            shared = wire(m, "shared", gemm.operand == Operand.SHARED)
            every = Mux(shared | weights, row_groups, every)
            another = is_values | weights
            weights = weights | shared
        next_place = wire(m, "next_place", (place + every)[:ROW_FIELD])
        next_tile = wire(m, "next_tile", Mux(another, first_place + 1, next_place)[:ROW_FIELD])
        if row_groups > 1:
            block_ends = tiles.tile[: (row_groups - 1).bit_length()].all()
            with m.If((gemm.operand == Operand.WEIGHTS) & block_ends):
                m.d.comb += next_tile.eq(place + 1)
        with m.If(step & group_ends):
            m.d.sync += [group.eq(group + 1), source.eq(next_source), place.eq(next_place)]
        with m.If(tile_ends):
            m.d.sync += group.eq(0)
            new_source = Mux(
                tiles.token_tile_moves,
                Mux(tiles.last_token_tile, gemm.source, next_source),
                first_source,
            )
            new_place = Mux(tiles.tile_moves, Mux(tiles.last_tile, 0, next_tile), first_place)
            for row, new in (
                (source, new_source),
                (first_source, new_source),
                (place, new_place),
                (first_place, new_place),
            ):
                m.d.sync += row.eq(new)
            with m.If(tiles.last):
                m.d.sync += active.eq(0)
        with m.If(self.start):
            m.d.sync += [
                active.eq(1),
                low.eq(0),
                group.eq(0),
                source.eq(gemm.source),
                first_source.eq(gemm.source),
                place.eq(0),
                first_place.eq(0),
            ]

        long, low_row = self._precision(m, group, tiles.tile)
        m.d.comb += group_ends.eq(low | ~long)
        with m.If(step):
            m.d.sync += low.eq(~group_ends)

        m.d.comb += [
            self.read_enable.eq(step),
            self.read_row.eq(source),
            self.busy.eq(active | o.valid),
        ]
        mode = Mux(
            weights,
            Mode.M8W4.code,
            Mux(long, Mode.M8M8.code, Mode.M8M4.code),
        )
        with m.If(o.ready):
            m.d.sync += o.valid.eq(0)
        with m.If(step):
            m.d.sync += [
                o.valid.eq(1),
                o.p.mode.eq(mode),
                o.p.first.eq((group == 0) & ~low),
                o.p.last.eq(last_group & group_ends),
                o.p.address.operands.eq(Mux(low, low_row, gemm.operands + place)),
                o.p.address.facts.eq(gemm.metadata + place),
            ]
            if row_groups > 1:
                m.d.sync += o.p.shared.eq(shared)
                with m.If(stays_open(gemm)):
                    m.d.sync += o.p.last.eq(0)
        row = self.read_data
        octets = row.exponents.as_value()
        m.d.comb += [
            o.p.a_signs.as_value().eq(row.signs),
            o.p.a.as_value().eq(row.mantissas),
            *(
                exponent.eq(octets.word_select(r, EXPONENT_BYTE))
                for r, exponent in enumerate(o.p.a_exponents)
            ),
        ]
        return m

    def _precision(self, m: Module, group: Value, tile: Value) -> tuple[Value, Value]:
        """Whether the group has 8-bit operands, and the row of their low halves."""
        p, gemm = self.params, self.gemm
        long = Signal()
        slot, across, within = (Signal(COUNT_FIELD + 1, name=n) for n in ("slot", "across", "at"))
        with m.Switch(gemm.operand):
            for operand in (Operand.KEYS, Operand.VALUES):
                is_keys = operand is Operand.KEYS
                unit = tile if is_keys else group
                initial, ring = p.initial_slots(operand), p.ring(operand)
                begins = unit < initial
                with m.Case(operand):
                    end = (unit + 1) * p.unit(operand) + p.local
                    m.d.comb += [
                        long.eq(begins | (end > gemm.tokens)),
                        slot.eq(Mux(begins, unit, initial + (unit & (ring - 1)))),
                        across.eq(gemm.groups if is_keys else gemm.tiles),
                        within.eq(group if is_keys else tile),
                    ]
        skipped = wire(m, "skipped", slot * across)
        return long, wire(m, "low_row", gemm.low_halves + skipped + within)


class ResultWriter(wiring.Component):
    """Columns of results, gathered to rows of the fp16 memory.

    With ``maxima`` every column also goes to the scalar register of its token tile: minus infinity
    where a row does not see the column. Of a shared gemm a column has results of a tile of every
    row group: they go to rows of their own, in the banks of equal number within their row groups.

    Timing: takes a column a cycle; a row is written in the cycle in which its last column arrives,
    those of further row groups in the cycles after it.
    """

    def __init__(self, params: HarmoniaParams):
        self.params = params
        (results,) = params.array.outputs
        super().__init__(
            {
                "start": In(1),
                "gemm": In(GEMM),
                "busy": Out(1),
                "results": In(stream.Signature(payload_layout(results))),
                "write": Out(MaskedWritePort(params.halves_rows, halves_row(params))),
                "maxima": Out(maxima_layout(params)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, gemm, i = self.params, self.gemm, self.results
        column = Signal(range(p.word_values))
        row, first_row, tile_row = (Signal(ROW_FIELD, name=n) for n in ("row", "first", "tile_row"))
        gathered = Signal(data.ArrayLayout((p.word_values - 1) * FP16.bits, p.rows))
        takes = wire(m, "takes", i.valid & i.ready)
        tile_ends = wire(m, "tile_ends", takes & i.p.last)
        tiles = _Tiles(m, "results", gemm, self.start, tile_ends, p.row_groups)
        m.d.comb += [
            i.ready.eq(1),
            self.write.enable.eq(takes & (column == p.word_values - 1)),
            self.write.address.eq(row),
        ]
        words = [Cat(gathered[r], i.p.values[r]) for r in range(p.rows)]
        for r, word in enumerate(words):
            m.d.comb += self.write.data[r].eq(word)
            with m.If(takes):
                m.d.sync += gathered[r].eq(word[FP16.bits :])
        self._maxima(m, takes, tiles)
        full, tile_words, beyond = self.write.enable, p.tile_words, None
        if p.row_groups > 1:
            shared = wire(m, "shared", gemm.operand == Operand.SHARED)
            full = wire(m, "full", takes & (column == p.word_values - 1))
            left = self._row_groups(m, shared, full, row, words)
            tile_words = Mux(shared, p.row_groups * p.tile_words, p.tile_words)
            beyond = Mux(shared, (p.row_groups - 1) * p.tile_words, 0)
            ending = Signal()  # the last words are left
        # A token tile's rows follow those of the one before it.
        stride = wire(m, "stride", gemm.tiles * p.tile_words)
        next_row = wire(m, "next_row", (row + 1)[:ROW_FIELD])
        with m.If(takes):
            m.d.sync += column.eq(column + 1)
        with m.If(full):
            m.d.sync += row.eq(next_row)
        with m.If(tile_ends):
            down = Mux(tiles.last_token_tile, tile_row + tile_words, first_row + stride)
            following = next_row if beyond is None else next_row + beyond
            new_row = wire(m, "new_row", Mux(gemm.row_major, following, down)[:ROW_FIELD])
            m.d.sync += [row.eq(new_row), first_row.eq(new_row)]
            with m.If(tiles.last_token_tile):
                m.d.sync += tile_row.eq(new_row)
            if beyond is None:
                ends = tiles.last
            else:
                ends = tiles.last & ~shared
                m.d.sync += ending.eq(tiles.last & shared)
            with m.If(ends):
                m.d.sync += self.busy.eq(0)
        if beyond is not None:
            with m.If(ending & (left == 1)):
                m.d.sync += [self.busy.eq(0), ending.eq(0)]
        with m.If(self.start):
            has_results = ~stays_open(gemm) if p.row_groups > 1 else 1
            m.d.sync += [
                self.busy.eq(has_results),
                column.eq(0),
                *(r.eq(gemm.destination) for r in (row, first_row, tile_row)),
            ]
        return m

    def _row_groups(
        self, m: Module, shared: Value, full: Value, row: Value, words: list[Value]
    ) -> Value:
        """Write the words of a shared gemm, a row group a cycle; how many are left to be written.

        They go to all banks with the number that they have within their row group.
        """
        p, write = self.params, self.write
        left = Signal(range(p.row_groups))
        held = Signal(data.ArrayLayout(len(words[0]), p.rows - p.group_rows))
        held_row = Signal(ROW_FIELD)
        with m.If(full & shared):
            m.d.sync += [
                left.eq(p.row_groups - 1),
                held.eq(Cat(words[p.group_rows :])),
                held_row.eq(row + p.tile_words),
            ]
        with m.Elif(left != 0):
            m.d.sync += [
                left.eq(left - 1),
                held.eq(held.as_value() >> p.group_rows * len(words[0])),
                held_row.eq(held_row + p.tile_words),
            ]
        with m.If(shared):
            for bank in range(p.group_rows, p.rows):
                m.d.comb += write.data[bank].eq(words[bank % p.group_rows])
        with m.If(left != 0):
            m.d.comb += [write.enable.eq(1), write.address.eq(held_row)]
            for bank in range(p.rows):
                m.d.comb += write.data[bank].eq(held[bank % p.group_rows])
        return left

    def _maxima(self, m: Module, takes: Value, tiles: _Tiles) -> None:
        """Feed those results of a column that count to the maxima of the rows."""
        p, gemm, i, o = self.params, self.gemm, self.results, self.maxima
        within = Signal(range(p.columns))  # the tile
        with m.If(takes):
            m.d.sync += within.eq(Mux(i.p.last, 0, within + 1))
        with m.If(self.start):
            m.d.sync += within.eq(0)
        column = wire(m, "column_number", tiles.tile * p.columns + within)
        is_key = wire(m, "is_key", (gemm.operand != Operand.KEYS) | (column < gemm.tokens))
        limit = wire(m, "limit", gemm.causal_limit + tiles.token_tile * p.rows)
        m.d.comb += [
            o.enable.eq(takes & gemm.maxima),
            o.restart.eq(column == 0),
            o.register.eq(gemm.register + tiles.token_tile),
        ]
        for r, value in enumerate(o["values"]):
            seen = (gemm.causal_limit == 0) | (column < limit + r)
            m.d.comb += value.eq(Mux(is_key & seen, i.p.values[r], MINUS_INFINITY))
