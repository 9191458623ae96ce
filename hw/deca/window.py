"""Window logic of one loader: from the bitmask to the steps of its vector operations."""

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.arith import PrefixStyle
from tilewright.golden.params.deca import CODE_BITS, TILE_BYTES, DecaParams
from tilewright.hw.arith.prefix_sum import prefix_level, prefix_network
from tilewright.hw.deca.layout import CONFIG, chunk_index_bits, window_layout
from tilewright.hw.deca.tile_out import rows_of_chunk
from tilewright.hw.unit import UNNAMED

LEVELS_PER_STAGE = 2  # of the prefix sum; keeps its stages shorter than the rest of the element


class Window(wiring.Component):
    """Cuts a tile into vector operations and those into steps of at most Lq codes.

    While ``run`` is set it takes a chunk of the bitmask per vector operation (a dense tile has
    every bit set and takes none), counts its bits, finds how far every element lies below its
    lane, and offers the steps at ``o``: max(1, ceil(window / Lq)) of them. ``clear`` forgets
    everything; a tile begins with the first cycle of ``run`` after it.

    Timing: one step a cycle. Registers: bitmask; prefix sum, one for every two levels; count;
    step. Those up to the count move together, on the last step of the current vector operation: a
    late chunk of the bitmask leaves a gap that no wait closes.
    """

    def __init__(self, params: DecaParams):
        self.params = params
        super().__init__(
            {
                "run": In(1),
                "clear": In(1),
                "config": In(CONFIG),  # holds still while ``run`` is set
                "mask": In(stream.Signature(data.StructLayout({"bits": params.lanes, "error": 1}))),
                "o": Out(stream.Signature(window_layout(params))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        self.moves = Signal()  # every stage up to the count takes what the one before has
        valid, held = self._chunk(m)
        clear = [~bit for bit in held["mask"]]
        valid, held, clear = self._sum(m, valid, held, clear)
        # The vector operation: how many codes are left, and whether one more step does.
        lookups, full_bits, most_clear = self._lookups(m)
        left, last = Signal(range(p.lanes + 1), reset_less=True), Signal(reset_less=True)
        step = Signal(range(p.lanes), reset_less=True)
        kept = ("mask", "error", "chunk", "final", *(f"clear{k}" for k in range(p.lanes - 1)))
        counted_valid = valid
        valid, held = self._register(m, "count", counted_valid, {n: held[n] for n in kept})
        o_takes = Signal()
        m.d.comb += [
            o_takes.eq(~self.o.valid | self.o.ready),
            self.moves.eq(~valid | (o_takes & last)),
        ]
        with m.If(self.moves & counted_valid):
            m.d.sync += [left.eq(p.lanes - clear[-1]), last.eq(clear[-1] >= most_clear), step.eq(0)]
        with m.Elif(o_takes & valid):
            m.d.sync += [left.eq(left - lookups), last.eq(left <= lookups << 1), step.eq(step + 1)]
        bits = Mux(last, self._code_bits(left), full_bits)
        self._offer(m, o_takes, valid, held, bits, step, last)
        return m

    def _register(self, m: Module, name: str, valid: Value, values: dict) -> tuple[Signal, dict]:
        """Register the values of the next stage.

        Values derived from the bitmask are constant in dense tiles: loaded once for many.
        """
        sparse = self.config.sparse
        held_valid = Signal(name=f"{name}_valid")
        held_dense = Signal(name=f"{name}_dense")
        held = {n: Signal(len(v), name=f"{name}_{n}", reset_less=True) for n, v in values.items()}
        with m.If(self.moves):
            m.d.sync += held_valid.eq(valid)
        with m.If(self.moves & valid):
            m.d.sync += held_dense.eq(~sparse)
            m.d.sync += [held[n].eq(v) for n, v in values.items() if not of_mask(n)]
        with m.If(self.moves & valid & (sparse | ~held_dense)):
            m.d.sync += [held[n].eq(v) for n, v in values.items() if of_mask(n)]
        with m.If(self.clear):
            m.d.sync += held_valid.eq(0)
        return held_valid, held

    def _chunk(self, m: Module) -> tuple[Signal, dict]:
        """The bitmask of one chunk."""
        p = self.params
        chunk, ended, final = Signal(chunk_index_bits(p)), Signal(), Signal()
        wanted, sparse = Signal(name=UNNAMED), self.config.sparse
        int8_chunks, bf16_chunks = TILE_BYTES // p.lanes, TILE_BYTES // 2 // p.lanes
        m.d.comb += [
            final.eq(chunk == Mux(self.config.int8, int8_chunks - 1, bf16_chunks - 1)),
            wanted.eq(self.run & ~ended),
        ]
        offered = Signal()
        m.d.comb += [
            offered.eq(wanted & (self.mask.valid | ~sparse)),
            self.mask.ready.eq(self.moves & wanted & sparse),
        ]
        values = {
            "mask": self.mask.p.bits | (~sparse).replicate(p.lanes),
            "error": self.mask.p.error & sparse,
            "chunk": chunk,
            "final": final,
        }
        stage = self._register(m, "mask", offered, values)
        with m.If(self.moves & offered):
            m.d.sync += [chunk.eq(chunk + 1), ended.eq(final)]
        with m.If(self.clear):
            m.d.sync += [chunk.eq(0), ended.eq(0)]
        return stage

    def _sum(self, m: Module, valid: Signal, held: dict, clear: list) -> tuple[Signal, dict, list]:
        """How far each element moves up to its lane: the clear bits below it."""
        p = self.params
        network = prefix_network(PrefixStyle.SKLANSKY, p.lanes)
        for first in range(0, len(network), LEVELS_PER_STAGE):
            for adders in network[first : first + LEVELS_PER_STAGE]:
                clear = prefix_level(clear, adders)
            values = held | {f"clear{k}": count for k, count in enumerate(clear)}
            valid, held = self._register(m, f"sum{first}", valid, values)
            clear = [held[f"clear{k}"] for k in range(p.lanes)]
        return valid, held, clear

    def _offer(
        self,
        m: Module,
        takes: Signal,
        valid: Signal,
        held: dict,
        bits: Value,
        step: Signal,
        last: Signal,
    ) -> None:
        """The step in its register."""
        p, sparse = self.params, self.config.sparse
        o = Signal(window_layout(p), reset_less=True)
        m.d.comb += self.o.payload.eq(o)
        with m.If(takes):
            m.d.sync += self.o.valid.eq(valid)
        with m.If(takes & valid):
            m.d.sync += [
                o.bits.eq(bits),
                o.step.eq(step),
                o.last.eq(last),
                o.final.eq(last & held["final"]),
                o.chunk.eq(held["chunk"]),
                o.rows.eq(rows_of_chunk(p, held["chunk"], self.config.int8)),
                o.error.eq(held["error"]),
            ]
        o_dense = Signal()
        with m.If(takes & valid & (sparse | ~o_dense)):
            m.d.sync += [
                o_dense.eq(~sparse),
                o.mask.eq(held["mask"]),
                *(
                    o.distance[k + 1].eq(held[f"clear{k}"])  # lane 0 never moves
                    for k in range(p.lanes - 1)
                ),
            ]
        with m.If(self.clear):
            m.d.sync += self.o.valid.eq(0)

    def _code_bits(self, count: Value) -> Value:
        """Bits of ``count`` codes; shorter than a multiplier, since a width is 1..8 or 16."""
        width = self.config.code_bits
        return Mux(width[4], count << 4, Mux(width[3], count << 3, count * width[:3]))

    def _lookups(self, m: Module) -> tuple[Signal, Signal, Signal]:
        """Codes that one cycle looks up, their bits, and the clear bits that leave no more.

        Registered: the configuration is there long before the first chunk.
        """
        p = self.params
        lookups = Signal(range(p.lanes + 1))
        bits = Signal(range(p.line_bits + 1))
        most_clear = Signal(range(p.lanes + 1))
        with m.Switch(self.config.code_bits):
            for q in CODE_BITS:
                n = p.lookups(q)
                with m.Case(q):
                    m.d.sync += [lookups.eq(n), bits.eq(n * q), most_clear.eq(p.lanes - n)]
        return lookups, bits, most_clear


def of_mask(name: str) -> bool:
    """Whether a register of the window holds what follows from the bitmask alone."""
    return name == "mask" or name.startswith("clear")
