"""Loader: fetches one compressed tile and offers it to the pipeline step by step."""

from amaranth import Cat, Const, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from tilewright.golden.params.deca import (
    ERROR_BITS,
    LENGTH_BITS,
    ROW_BYTES,
    STRUCTURES,
    TILE_ROWS,
    DecaParams,
    ScaleKind,
    TileError,
)
from tilewright.hw.deca.command_check import check_command
from tilewright.hw.deca.layout import (
    SHIFT_WORD_BITS,
    chunk_index_bits,
    command_layout,
    scale_bits,
    step_layout,
    window_layout,
)
from tilewright.hw.deca.line_reader import LineReader, cut_at
from tilewright.hw.deca.load_unit import LoadUnit
from tilewright.hw.deca.used_bits import used_codes, used_scales
from tilewright.hw.deca.window import Window
from tilewright.hw.stream.line_queue import LineQueue
from tilewright.hw.stream.register_slice import RegisterSlice
from tilewright.hw.unit import UNNAMED, word_layout

# Lines that a structure of the largest length a command can name may touch.
MOST_LINES = -(-((1 << LENGTH_BITS) - 1 + ROW_BYTES - 1) // ROW_BYTES)
OF_MASK = ("mask", "distance")  # fields of a window that follow from the bitmask alone


class _Fetch(enum.Enum, shape=2):  # type: ignore[call-arg]
    IDLE = 0  # takes a command
    CHECK = 1  # looks at it
    START = 2  # hands it to the load unit
    WAIT = 3  # for the tile before to leave


class _Steps(enum.Enum, shape=2):  # type: ignore[call-arg]
    IDLE = 0  # takes the tile that is being fetched
    RUN = 1  # offers its steps
    DRAIN = 2  # drops what is left of its lines


class Loader(wiring.Component):
    """One of the two loaders: load unit, three queues, window logic, alignment.

    It works on two tiles at once: one is fetched while the steps of the one before leave. Steps of
    a tile leave in order; the last one carries ``final`` and how the tile ended. A tile that
    cannot be right ends with one step that carries the error; its lines are dropped.

    ``full`` tells which rows of TOut may not be written yet, ``result_taken`` that the core has
    taken the result of the previous tile: only then a tile's first step leaves. ``squash`` makes
    the loader idle in one cycle, whatever its state; answers that are still due are dropped.

    Timing: one step a cycle once its data is here. Registers after the window logic: a step that
    is vetted (lengths, rows, position in the lines), a step with its codes.
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
                "full": In(TILE_ROWS),
                "result_taken": In(1),
                "squash": In(1),
                "busy": Out(1),
                "spurious": Out(1),  # an answer to no request
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        m.submodules.load_unit = self.load_unit
        m.submodules.window = self.window = Window(p)
        self._queues(m)

        # The tile that is being fetched, and the one whose steps leave.
        self.next, self.next_fault = Signal(command_layout(p), reset_less=True), Signal(ERROR_BITS)
        self.tile, self.fault = Signal(command_layout(p), reset_less=True), Signal(ERROR_BITS)
        self.running = Signal()
        self.begins = Signal()  # the next tile becomes the tile
        self.drop = Signal()  # flushes what is in flight of the tile
        self.leaves = Signal()  # the tile's last step leaves
        self._fetch(m)
        self._step(m)
        self._cut_masks(m)
        self._vet(m)
        self._offer(m)
        return m

    def _queues(self, m: Module) -> None:
        """Queues and readers of the three structures."""
        p, load = self.params, self.load_unit
        depths = {"mask": p.mask_queue_lines, "scale": p.scale_queue_lines, "data": p.sqq_lines}
        # Bytes are the unit of masks and scales, bits that of codes.
        shapes = {
            "mask": {"granule_bits": 8, "word_bits": 8, "window_bits": p.lanes},
            "scale": {
                "granule_bits": 8,
                "word_bits": SHIFT_WORD_BITS,
                "window_bits": scale_bits(p) + SHIFT_WORD_BITS,
            },
            "data": {
                "granule_bits": 1,
                "word_bits": SHIFT_WORD_BITS,
                "window_bits": p.line_bits + SHIFT_WORD_BITS,
            },
        }
        self.queues, self.readers = {}, {}
        for name in STRUCTURES:
            m.submodules[f"{name}_queue"] = queue = LineQueue(
                depths[name], p.line_bits, sram=name == "data"
            )
            m.submodules[f"{name}_reader"] = reader = LineReader(
                line_bits=p.line_bits, lines=MOST_LINES, **shapes[name]
            )
            connect(m, queue.port, getattr(load, f"{name}_queue"))
            connect(m, queue.o, reader.i)
            self.queues[name], self.readers[name] = queue, reader
        connect(m, load.request, flipped(self.request))
        connect(m, flipped(self.response), load.response)
        m.d.comb += self.spurious.eq(load.spurious)

    def _fetch(self, m: Module) -> None:
        """Take a command, check it and hand it to the load unit."""
        load, tile, fault = self.load_unit, self.next, self.next_fault
        self.fetch = state = Signal(_Fetch)
        lines = {name: Signal(range(MOST_LINES + 1), name=f"{name}_lines") for name in STRUCTURES}
        with m.Switch(state):
            with m.Case(_Fetch.IDLE):
                m.d.comb += self.command.ready.eq(1)
                with m.If(self.command.valid):
                    m.d.sync += [tile.eq(self.command.payload), state.eq(_Fetch.CHECK)]
            with m.Case(_Fetch.CHECK):
                m.d.sync += fault.eq(check_command(m, self.params, tile))
                m.d.sync += state.eq(_Fetch.START)
            with m.Case(_Fetch.START):
                m.d.comb += load.command.valid.eq(fault == TileError.OK)
                with m.If(load.command.ready | (fault != TileError.OK)):
                    m.d.sync += state.eq(_Fetch.WAIT)
            with m.Case(_Fetch.WAIT):
                with m.If(self.begins):
                    m.d.sync += state.eq(_Fetch.IDLE)
        with m.If(self.squash):
            m.d.sync += state.eq(_Fetch.IDLE)
        m.d.comb += load.squash.eq(self.squash)
        for name in STRUCTURES:
            length = tile[f"{name}_length"]
            last_byte = self._line_byte(name) + length + self.params.line_bytes - 1
            reader = self.readers[name]
            m.d.sync += lines[name].eq(last_byte >> (self.params.line_bytes - 1).bit_length())
            m.d.comb += [
                load.command.p[name].base.eq(tile[f"{name}_base"]),
                load.command.p[name].length.eq(length),
                self.queues[name].flush.eq(self.squash),
                reader.start.eq(self.begins),
                # A tile that is refused fetches nothing.
                reader.lines.eq(Mux((fault == TileError.OK) & length.any(), lines[name], 0)),
                reader.clear.eq(self.squash),
            ]

    def _step(self, m: Module) -> None:
        """Follow the tile whose steps leave."""
        state = Signal(_Steps)
        drained = Cat(reader.drained for reader in self.readers.values()).all()
        with m.Switch(state):
            with m.Case(_Steps.IDLE):
                with m.If(self.fetch == _Fetch.WAIT):
                    m.d.comb += self.begins.eq(1)
                    m.d.sync += [self.tile.eq(self.next), self.fault.eq(self.next_fault)]
                    m.d.sync += state.eq(_Steps.RUN)
            with m.Case(_Steps.RUN):
                with m.If(self.leaves):
                    m.d.sync += state.eq(_Steps.DRAIN)
            with m.Case(_Steps.DRAIN):
                with m.If(drained):
                    m.d.sync += state.eq(_Steps.IDLE)
        with m.If(self.squash):
            m.d.sync += state.eq(_Steps.IDLE)
        draining = state == _Steps.DRAIN
        m.d.comb += [
            self.running.eq(state == _Steps.RUN),
            self.drop.eq(draining | self.squash),
            self.window.clear.eq(self.drop),
            self.window.run.eq(self.running & (self.fault == TileError.OK)),
            self.window.config.eq(self.tile.config),
            self.busy.eq((self.fetch != _Fetch.IDLE) | (state != _Steps.IDLE) | self.o.valid),
            *(reader.drain.eq(draining) for reader in self.readers.values()),
        ]

    def _line_byte(self, name: str) -> Value:
        """Where in its first line a structure of the next tile starts."""
        return self.next[f"{name}_base"][: (self.params.line_bytes - 1).bit_length()]

    def _cut_masks(self, m: Module) -> None:
        """Bitmask lines to chunks; a register slice keeps the window logic's waits from here."""
        p, reader = self.params, self.readers["mask"]
        slice_ = RegisterSlice(word_layout(p.lanes + 1))
        m.submodules.mask_slice = ResetInserter(self.drop)(slice_)
        position = Signal(range(p.line_bytes))
        cut_valid, cut = Signal(), Signal(reader.cut_layout, reset_less=True, name=UNNAMED)
        fields, behind = cut_at(reader.cut_layout, position, Const(p.lanes // 8))
        with m.If(~cut_valid | reader.take):
            m.d.sync += [cut[n].eq(v) for n, v in fields.items()]
            m.d.sync += [position.eq(behind), cut_valid.eq(1)]
        with m.If(self.begins | self.drop):
            m.d.sync += [position.eq(self._line_byte("mask")), cut_valid.eq(0)]
        chunk = self.window.mask
        m.d.comb += [
            reader.cut.eq(cut),
            slice_.i.valid.eq(cut_valid & reader.available),
            slice_.i.p.data.eq(Cat(reader.window, reader.error)),
            reader.take.eq(slice_.i.valid & slice_.i.ready),
            chunk.valid.eq(slice_.o.valid),
            chunk.payload.eq(slice_.o.p.data),
            slice_.o.ready.eq(chunk.ready),
        ]

    def _vet(self, m: Module) -> None:
        """v: a step that may leave as soon as its lines are here, or the end of a bad tile."""
        p = self.params
        # Waits end at this slice; without it they would reach through the whole window logic.
        slice_ = RegisterSlice(word_layout(window_layout(p).size))
        m.submodules.window_slice = ResetInserter(self.drop)(slice_)
        m.d.comb += [
            slice_.i.valid.eq(self.window.o.valid),
            slice_.i.p.data.eq(self.window.o.payload),
            self.window.o.ready.eq(slice_.i.ready),
        ]
        w = data.View(window_layout(p), slice_.o.p.data)
        bits_left = Signal(LENGTH_BITS + 3)  # of codes that the command promised
        code_position, scale_position = Signal(range(p.line_bits)), Signal(range(p.line_bytes))
        ending = Signal()  # the tile's last step is vetted, its result not yet taken
        scale_need, group_ends = self._scales(m, w)

        after = bits_left - w.bits
        row_free = ~(self.full & w.rows).any()
        faulty = self.fault != TileError.OK
        error = Signal(ERROR_BITS)
        with m.If(faulty):
            m.d.comb += error.eq(self.fault)
        with m.Elif(w.error):
            m.d.comb += error.eq(TileError.BUS)
        with m.Elif((after < 0) | (w.final & (after >= 8))):
            m.d.comb += error.eq(TileError.DATA_LENGTH)

        self.v_valid, self.v_takes = Signal(), Signal()
        self.v = v = Signal(
            data.StructLayout(
                {
                    "window": window_layout(p),
                    "code_cut": self.readers["data"].cut_layout,
                    "scale_cut": self.readers["scale"].cut_layout,
                    "error": ERROR_BITS,
                    "good": 1,  # no error
                }
            ),
            reset_less=True,
        )
        accepts = Signal()
        m.d.comb += [
            accepts.eq(
                self.running
                & ~ending
                & (faulty | (slice_.o.valid & row_free))
                & (~self.v_valid | self.v_takes)
            ),
            slice_.o.ready.eq(accepts),
        ]
        code_cut, code_behind = cut_at(self.readers["data"].cut_layout, code_position, w.bits)
        need = Mux(w.last, scale_need, 0)
        scale_cut, scale_behind = cut_at(self.readers["scale"].cut_layout, scale_position, need)
        scale_cut["ends"] &= group_ends
        # Registers load only with a step; bitmask and distances, which are constant in dense tiles,
        # only where they may differ.
        v_dense, dense = Signal(), Signal()  # of a dense tile: the step held, the next one
        m.d.comb += dense.eq(~self.tile.config.sparse & ~faulty)
        with m.If(~self.v_valid | self.v_takes):
            m.d.sync += self.v_valid.eq(accepts)
        with m.If((~self.v_valid | self.v_takes) & (slice_.o.valid | faulty)):
            with m.If(~(dense & v_dense)):
                m.d.sync += [v.window.mask.eq(w.mask), v.window.distance.eq(w.distance)]
            m.d.sync += [
                v_dense.eq(dense),
                *(v.window[n].eq(w[n]) for n in w.shape().members if n not in OF_MASK),
                v.error.eq(error),
                v.good.eq(error == TileError.OK),
                *(v.code_cut[n].eq(value) for n, value in code_cut.items()),
                *(v.scale_cut[n].eq(value) for n, value in scale_cut.items()),
            ]
        with m.If(accepts):
            m.d.sync += [bits_left.eq(after), code_position.eq(code_behind)]
            with m.If(w.last & group_ends):
                m.d.sync += scale_position.eq(scale_behind)
        with m.If(self.begins):
            m.d.sync += [
                bits_left.eq(self.next.data_length << 3),
                code_position.eq(self._line_byte("data") << 3),
                scale_position.eq(self._line_byte("scale")),
            ]
        with m.If(self.drop | self.leaves):
            m.d.sync += self.v_valid.eq(0)

        with m.If(self.result_taken):
            m.d.sync += ending.eq(0)
        with m.If((accepts & (w.final | (error != TileError.OK))) | self.leaves):
            m.d.sync += ending.eq(1)
        with m.If(self.squash):
            m.d.sync += ending.eq(0)

    def _scales(self, m: Module, w: data.View) -> tuple:
        """Bytes of scales that a chunk needs, and whether its groups end with it."""
        config = self.tile.config
        lanes_log2 = (self.params.lanes - 1).bit_length()
        need = Signal(range(self.params.line_bytes + 1))
        chunks_mask = Signal(chunk_index_bits(self.params))  # chunks of a group, less one
        scales = Mux(config.group_log2 < lanes_log2, self.params.lanes >> config.group_log2, 1)
        with m.Switch(config.scale):
            with m.Case(ScaleKind.E8M0.code):
                m.d.sync += need.eq(scales)
            with m.Case(ScaleKind.BF16.code):
                m.d.sync += need.eq(scales << 1)
            with m.Default():
                m.d.sync += need.eq(0)
        m.d.sync += chunks_mask.eq(((1 << config.group_log2) - 1) >> lanes_log2)
        return need, (w.chunk | ~chunks_mask).all()

    def _offer(self, m: Module) -> None:
        """o: a step with its codes and scales."""
        v, o = self.v, self.o
        codes, scales = self.readers["data"], self.readers["scale"]
        free, fire, here, bad = (Signal(name=n) for n in ("free", "fire", "here", "bad"))
        m.d.comb += [
            codes.cut.eq(v.code_cut),
            scales.cut.eq(v.scale_cut),
            here.eq(codes.available & scales.available),
            bad.eq(codes.error | scales.error | ~v.good),
            free.eq(~o.valid | o.ready),
            fire.eq(self.v_valid & (here | ~v.good)),
            self.v_takes.eq(fire & free),
            codes.take.eq(self.v_takes),
            scales.take.eq(self.v_takes),
            self.leaves.eq(self.v_takes & (v.window.final | bad)),
        ]
        step = Signal(step_layout(self.params), reset_less=True)
        m.d.comb += o.payload.eq(step)
        # As above; of codes and scales only what the configuration uses. Whether lines are here is
        # known too late to tell: a step that waits for them is loaded more than once.
        config = self.tile.config
        o_dense, dense = Signal(), Signal()
        loads = free & self.v_valid
        m.d.comb += dense.eq(~config.sparse & v.good)
        for field, shown, used in (
            (step.codes, codes.window, used_codes(self.params, config, SHIFT_WORD_BITS)),
            (step.scales, scales.window, used_scales(self.params, config, SHIFT_WORD_BITS)),
        ):
            for bits, wanted in used:
                with m.If(loads & wanted):
                    m.d.sync += field[bits].eq(shown[bits])
        with m.If(loads & ~(dense & o_dense)):
            m.d.sync += [step.mask.eq(v.window.mask), step.distance.eq(v.window.distance)]
        with m.If(free):
            m.d.sync += o.valid.eq(fire)
        with m.If(loads):
            m.d.sync += [
                o_dense.eq(dense),
                step.config.eq(self.tile.config),
                step.offset.eq(v.code_cut.offset),
                step.scale_offset.eq(v.scale_cut.offset),
                step.step.eq(v.window.step),
                step.last.eq(v.window.last | bad),
                step.final.eq(v.window.final | bad),
                step.chunk.eq(v.window.chunk),
                step.error.eq(Mux(v.good & bad, TileError.BUS, v.error)),
            ]
        with m.If(self.squash):
            m.d.sync += o.valid.eq(0)
