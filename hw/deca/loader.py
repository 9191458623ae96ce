"""Loader: fetches one compressed tile and offers it to the pipeline step by step."""

from amaranth import Module, Mux, Signal
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from golden.params.deca import (
    LENGTH_BITS,
    STRUCTURES,
    TILE_ROWS,
    DecaParams,
    ScaleKind,
    TileError,
)
from hw.deca.command_check import check_command
from hw.deca.layout import SHIFT_WORD_BITS, chunk_index_bits, command_layout, step_layout
from hw.deca.line_queue import LineQueue
from hw.deca.line_reader import LineReader
from hw.deca.load_unit import LoadUnit
from hw.deca.tile_out import rows_of_chunk
from hw.deca.window import Window

__all__ = ["Loader"]


class _State(enum.Enum, shape=2):
    IDLE = 0  # takes a command
    CHECK = 1  # looks at it
    START = 2  # hands it to the load unit
    RUN = 3  # offers steps


class Loader(wiring.Component):
    """One of the two loaders: load unit, three queues, window logic, alignment.

    A command is taken when the previous tile's last step has left. Steps of a tile leave in
    order; the last one carries ``final`` and how the tile ended. A tile that cannot be right ends
    with one step that carries the error; what it had asked for is dropped on arrival.

    ``hold`` and ``full`` tell which rows of TOut may not be written yet. ``squash`` makes the
    loader idle in one cycle, whatever its state; answers that are still due are dropped.

    Timing: one step a cycle once its data is here.
    """

    def __init__(self, params: DecaParams, number: int):
        self.params = params
        self.load_unit = LoadUnit(params, number)
        members = self.load_unit.signature.members
        super().__init__(
            {
                "command": In(stream.Signature(command_layout(params))),
                "request": members["request"],
                "response": members["response"],
                "o": Out(stream.Signature(step_layout(params))),
                "hold": In(1),  # the previous tile is still on its way to the core
                "full": In(TILE_ROWS),
                "squash": In(1),
                "busy": Out(1),
                "spurious": Out(1),  # an answer to no request
            }
        )

    def elaborate(self, platform):
        m = Module()
        p = self.params
        m.submodules.load_unit = load = self.load_unit
        m.submodules.window = window = Window(p)
        depths = {"mask": p.mask_queue_lines, "scale": p.scale_queue_lines, "data": p.sqq_lines}
        # Bytes are the unit of masks and scales, bits that of codes.
        shapes = {
            "mask": {"granule_bits": 8, "word_bits": 8, "window_bits": p.lanes},
            "scale": {"granule_bits": 8, "word_bits": 8, "window_bits": self._scale_bits},
            "data": {
                "granule_bits": 1,
                "word_bits": SHIFT_WORD_BITS,
                "window_bits": p.line_bits + SHIFT_WORD_BITS,
            },
        }
        queues, readers = {}, {}
        for name in STRUCTURES:
            m.submodules[f"{name}_queue"] = queue = LineQueue(
                depths[name], p.line_bits, sram=name == "data"
            )
            m.submodules[f"{name}_reader"] = reader = LineReader(
                line_bits=p.line_bits, **shapes[name]
            )
            connect(m, queue.port, getattr(load, f"{name}_queue"))
            connect(m, queue.o, reader.i)
            queues[name], readers[name] = queue, reader
        connect(m, load.request, flipped(self.request))
        connect(m, flipped(self.response), load.response)
        m.d.comb += self.spurious.eq(load.spurious)

        # The tile in work.
        state = Signal(_State)
        tile = Signal(command_layout(p))
        fault = Signal(3)
        flush = Signal()  # the tile has left: what its lines still hold is not wanted
        leaves, faulty, error = self._step(m, state, tile, fault, window, readers)
        m.d.sync += flush.eq(0)
        with m.Switch(state):
            with m.Case(_State.IDLE):
                m.d.comb += self.command.ready.eq(1)
                m.d.sync += tile.eq(self.command.payload)
                with m.If(self.command.valid):
                    m.d.sync += state.eq(_State.CHECK)
            with m.Case(_State.CHECK):
                m.d.sync += [fault.eq(check_command(m, p, tile)), state.eq(_State.START)]
            with m.Case(_State.START):
                m.d.comb += load.command.valid.eq(fault == TileError.OK)
                with m.If(load.command.ready | (fault != TileError.OK)):
                    m.d.sync += state.eq(_State.RUN)
            with m.Case(_State.RUN):
                with m.If(leaves):
                    m.d.sync += [state.eq(_State.IDLE), flush.eq(1)]
        with m.If(self.squash):
            m.d.sync += state.eq(_State.IDLE)
        drop = Signal()
        m.d.comb += [
            drop.eq(flush | self.squash),
            load.squash.eq(drop),
            window.clear.eq(drop),
            window.run.eq((state == _State.RUN) & (fault == TileError.OK)),
            window.config.eq(tile.config),
            self.busy.eq((state != _State.IDLE) | self.o.valid),
        ]
        for name in STRUCTURES:
            base = tile[f"{name}_base"]
            byte = base[: (p.line_bytes - 1).bit_length()]
            m.d.comb += [
                load.command.p[name].base.eq(base),
                load.command.p[name].length.eq(tile[f"{name}_length"]),
                queues[name].flush.eq(drop),
                readers[name].start.eq(drop | (state == _State.START)),
                readers[name].at.eq(byte << 3 if name == "data" else byte),
            ]

        # The step on offer.
        free = Signal()
        m.d.comb += free.eq(~self.o.valid | self.o.ready)
        with m.If(free):
            m.d.sync += self.o.valid.eq(self.fire)
            m.d.sync += self._payload(tile, window, readers, faulty, error)
        with m.If(self.squash):
            m.d.sync += self.o.valid.eq(0)
        m.d.comb += self.free.eq(free)
        return m

    @property
    def _scale_bits(self) -> int:
        """A chunk's scales: one per lane at the most, and never more than a line."""
        return min(16 * self.params.lanes, self.params.line_bits)

    def _step(self, m, state, tile, fault, window, readers):
        """Whether the next step can leave, and how the tile fares with it."""
        p = self.params
        mask, scale, codes = (readers[name] for name in STRUCTURES)
        self.free, self.fire = Signal(name="free"), Signal(name="fire")
        w = window.o.p
        config = tile.config

        # Bitmask chunks go to the window logic as they come.
        taken = Signal()
        m.d.comb += [
            mask.need.eq(p.lanes // 8),
            window.mask.valid.eq(mask.available),
            window.mask.p.bits.eq(mask.window),
            window.mask.p.error.eq(mask.error),
            mask.take.eq(window.mask.ready & mask.available),
        ]

        # Scales stay until the last chunk of their group.
        lanes_log2 = (p.lanes - 1).bit_length()
        scaled = Signal()
        scale_need, group_chunks = Signal.like(scale.need), Signal(chunk_index_bits(p))
        scales = Mux(config.group_log2 < lanes_log2, p.lanes >> config.group_log2, 1)
        m.d.sync += [
            scaled.eq(config.scale != ScaleKind.NONE.code),
            scale_need.eq(Mux(config.scale == ScaleKind.BF16.code, scales << 1, scales)),
            group_chunks.eq(
                Mux(
                    config.group_log2 > lanes_log2,
                    (1 << (config.group_log2 - lanes_log2)[:4].as_unsigned()) - 1,
                    0,
                )
            ),
        ]
        group_ends = (w.chunk | ~group_chunks).all()
        m.d.comb += scale.need.eq(Mux(scaled, scale_need, 0))

        # Codes, and how many bits of them the command promised.
        bits_left = Signal(LENGTH_BITS + 3)
        short = Signal()
        m.d.comb += [
            codes.need.eq(w.bits),
            short.eq(w.bits > bits_left),
        ]
        surplus = w.final & (bits_left - w.bits >= 8)

        rejected = Signal()
        error = Signal(3)
        with m.If(fault != TileError.OK):
            m.d.comb += error.eq(fault)
        with m.Elif(w.error | (~short & (codes.error | scale.error))):
            m.d.comb += error.eq(TileError.BUS)
        with m.Elif(short | surplus):
            m.d.comb += error.eq(TileError.DATA_LENGTH)
        m.d.comb += rejected.eq(error != TileError.OK)

        first, last = rows_of_chunk(p, w.chunk, config.int8)
        row_free = ~self.full.bit_select(first, 1) & ~self.full.bit_select(last, 1)
        here = w.error | short | (codes.available & (scale.available | ~w.last))
        m.d.comb += [
            self.fire.eq(
                (state == _State.RUN)
                & ~self.hold
                & ((fault != TileError.OK) | (window.o.valid & here & row_free))
            ),
            taken.eq(self.fire & self.free),
            window.o.ready.eq(taken),
            codes.take.eq(taken),
            scale.take.eq(taken & w.last & group_ends),
        ]
        with m.If(state == _State.START):
            m.d.sync += bits_left.eq(tile.data_length << 3)
        with m.Elif(taken):
            m.d.sync += bits_left.eq(bits_left - w.bits)
        return taken & (rejected | w.final), rejected, error

    def _payload(self, tile, window, readers, faulty, error):
        w, o = window.o.p, self.o.p
        return [
            o.config.eq(tile.config),
            o.codes.eq(readers["data"].window),
            o.offset.eq(readers["data"].offset),
            o.scales.eq(readers["scale"].window),
            o.step.eq(w.step),
            o.last.eq(w.last | faulty),
            o.final.eq(w.final | faulty),
            o.chunk.eq(w.chunk),
            o.mask.eq(w.mask),
            o.distance.eq(w.distance),
            o.error.eq(error),
        ]
