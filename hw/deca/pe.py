"""DECA processing element: two loaders, one pipeline, two tile outputs."""

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import connect, flipped

from tilewright.golden.params.deca import STRUCTURES, TILE_ROWS, DecaParams
from tilewright.hw.deca.loader import Loader
from tilewright.hw.deca.prefetcher import Prefetcher, observation
from tilewright.hw.deca.registers import Registers
from tilewright.hw.deca.tile_out import TileOut
from tilewright.hw.deca.vector_pipeline import VectorPipeline
from tilewright.hw.unit import Unit


class DecaPE(Unit[DecaParams]):
    """Decompresses tiles of quantised, sparse, group-scaled weights for a matrix unit.

    A tile is started by a command on ``command0`` or ``command1`` (or by the loaders' registers),
    fetched through ``mem_request`` / ``mem_response``, decompressed, and announced on ``done0`` or
    ``done1`` with its :class:`tilewright.golden.params.deca.TileError`; its rows are then read
    through ``read_request`` / ``read_response``, each once. ``squash[k]`` drops whatever loader k
    is doing and everything of it that the core has not read, in the same cycle.

    With ``foretold`` the prefetcher does not observe the commands but what ``hint`` shows, which is
    not a port: the source of commands may know of tiles before a loader is free for them.

    Numerics: tilewright.golden.deca. Timing: tilewright.golden.deca's cycles per tile, without a
    bubble between tiles or loaders while data is there; see docs/deca.md.
    """

    def __init__(self, params: DecaParams, *, foretold: bool = False):
        super().__init__(params)
        # Named explicitly: Python versions differ in whether a name can be read off this line.
        self.hint = observation(params).create(path=("$signature",)) if foretold else None

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        m.submodules.registers = registers = Registers(p)
        m.submodules.prefetcher = prefetcher = Prefetcher(p)
        m.submodules.pipeline = pipeline = VectorPipeline(p)
        loaders, touts = [], []
        for k in range(p.loaders):
            m.submodules[f"loader{k}"] = loader = Loader(p, k)
            m.submodules[f"tout{k}"] = tout = TileOut(p)
            loaders.append(loader)
            touts.append(tout)
        self.touts = touts
        connect(m, flipped(self.mmio_request), registers.request)
        connect(m, registers.response, flipped(self.mmio_response))
        kill = Signal(p.loaders)
        m.d.comb += [kill.eq(self.squash | registers.squash), registers.squashed.eq(kill)]
        m.d.comb += [loader.squash.eq(kill[k]) for k, loader in enumerate(loaders)]

        self._commands(m, registers, loaders, prefetcher)
        self._memory(m, loaders, prefetcher, registers)
        self._steps(m, loaders, pipeline, kill)
        pending = self._results(m, registers, loaders, pipeline, touts, kill)
        self._rows(m, touts)
        given = (command.valid for command in registers.command)
        working = Cat(*(loader.busy for loader in loaders), *given, pipeline.busy, pending).any()
        # A cycle late: a tile that starts meanwhile needs many more to its first lookup.
        m.d.sync += registers.idle.eq(~working)
        m.d.comb += [
            pipeline.lut_write.eq(registers.lut_write),
            pipeline.lut_read.eq(registers.lut_read),
            pipeline.lut_address.eq(registers.lut_address),
            pipeline.lut_write_value.eq(registers.lut_write_value),
            registers.lut_read_value.eq(pipeline.lut_read_value),
        ]
        return m

    def _commands(
        self, m: Module, registers: Registers, loaders: list[Loader], prefetcher: Prefetcher
    ) -> None:
        """Ports and registers to the loaders; one command a cycle, since the prefetcher sees it."""
        p = self.params
        m.d.comb += prefetcher.degree.eq(registers.degree)
        seen = prefetcher.observe
        if self.hint is not None:
            m.d.comb += [seen.valid.eq(self.hint.valid), seen.command.eq(self.hint.command)]
        turn = Const(1)  # no loader before this one takes a command in this cycle
        for k, loader in enumerate(loaders):
            port, own = getattr(self, f"command{k}"), registers.command[k]
            given = loader.command
            m.d.comb += self.open[k].eq(given.ready)
            m.d.comb += given.valid.eq((port.valid | own.valid) & turn)
            m.d.comb += [
                port.ready.eq(given.ready & turn),
                own.ready.eq(given.ready & turn & ~port.valid),
                given.payload.eq(
                    Mux(port.valid, Cat(registers.config, port.payload), own.payload.as_value())
                ),
            ]
            takes = given.valid & given.ready
            if self.hint is None:
                with m.If(takes):
                    m.d.comb += seen.valid.eq(1)
                    if p.prefetchers > 1:
                        m.d.comb += seen.loader.eq(k)
                    for name in STRUCTURES:
                        m.d.comb += [
                            seen.command[name].base.eq(given.p[f"{name}_base"]),
                            seen.command[name].length.eq(given.p[f"{name}_length"]),
                        ]
            turn = turn & ~takes

    def _memory(
        self, m: Module, loaders: list[Loader], prefetcher: Prefetcher, registers: Registers
    ) -> None:
        """Requests: the loaders in turn, then the prefetcher. Answers: by the tag's top bit."""
        out = self.mem_request
        free = Signal()
        m.d.comb += free.eq(~out.valid | out.ready)
        preferred = Signal(range(len(loaders)))
        with m.If(free):
            m.d.sync += out.valid.eq(0)
            with m.If(prefetcher.request.valid):
                m.d.sync += [out.valid.eq(1), out.payload.eq(prefetcher.request.payload)]
            for k in (1, 0):
                with m.If(
                    loaders[k].request.valid & ((preferred == k) | ~loaders[1 - k].request.valid)
                ):
                    m.d.sync += [
                        out.valid.eq(1),
                        out.payload.eq(loaders[k].request.payload),
                        preferred.eq(1 - k),
                    ]
                    m.d.comb += loaders[k].request.ready.eq(1)
            demand = loaders[0].request.valid | loaders[1].request.valid
            m.d.comb += prefetcher.request.ready.eq(~demand)

        m.d.comb += self.mem_response.ready.eq(1)
        answer = self.mem_response.p
        for k, loader in enumerate(loaders):
            mine = self.mem_response.valid & (answer.tag[-1] == k)
            m.d.comb += [
                loader.response.valid.eq(mine),
                loader.response.tag.eq(answer.tag),
                loader.response.error.eq(answer.error),
                loader.response.data.eq(answer.data),
            ]
        m.d.comb += registers.spurious.eq(Cat(loader.spurious for loader in loaders).any())

    def _steps(
        self, m: Module, loaders: list[Loader], pipeline: VectorPipeline, kill: Value
    ) -> None:
        """The pipeline belongs to one loader for a whole tile; then the other one goes first."""
        owner = Signal(1)  # from a register, it steers wide multiplexers
        self.locked = locked = Signal()  # in the middle of a tile
        offers = Cat(loader.o.valid for loader in loaders)
        m.d.comb += [pipeline.loader.eq(owner), pipeline.kill.eq(kill)]
        for k, loader in enumerate(loaders):
            with m.If(owner == k):
                m.d.comb += [
                    pipeline.valid.eq(loader.o.valid),
                    pipeline.step.eq(loader.o.payload),
                    loader.o.ready.eq(1),
                ]
        ends = pipeline.valid & pipeline.step.final
        with m.If(pipeline.valid):
            m.d.sync += locked.eq(~ends)
        with m.If(ends | (~locked & ~pipeline.valid)):
            m.d.sync += owner.eq(owner ^ offers.bit_select(~owner, 1))
        with m.If(kill.bit_select(owner, 1)):
            m.d.sync += locked.eq(0)

    def _results(
        self,
        m: Module,
        registers: Registers,
        loaders: list[Loader],
        pipeline: VectorPipeline,
        touts: list[TileOut],
        kill: Value,
    ) -> Signal:
        """Chunks into TOut, the last one of a tile to ``done``; says which results are pending."""
        pending = Signal(len(loaders))  # the last step has left the loader, the tile is not done
        for k, (loader, tout) in enumerate(zip(loaders, touts, strict=True)):
            done = getattr(self, f"done{k}")
            arrives = pipeline.o_valid[k]
            ends = arrives & pipeline.o.final
            last_leaves = loader.o.valid & loader.o.ready & loader.o.p.final
            m.d.comb += [
                tout.write.eq(arrives & pipeline.o.write),
                tout.chunk.eq(pipeline.o.chunk),
                tout.int8.eq(pipeline.o.int8),
                tout.elements.eq(pipeline.o.elements),
                tout.ends.eq(ends),
                tout.clear.eq(kill[k]),
                loader.full.eq(tout.full),
                self.rows.word_select(k, TILE_ROWS).eq(tout.full),
                loader.result_taken.eq(done.valid & (done.ready | registers.take_result[k])),
                registers.status[k].busy.eq(loader.busy | pending[k]),
                registers.status[k].done.eq(done.valid),
                registers.status[k].error.eq(done.p.error),
            ]
            m.d.sync += pending[k].eq((pending[k] & ~ends) | last_leaves)
            with m.If(done.ready | registers.take_result[k]):
                m.d.sync += done.valid.eq(0)
            with m.If(ends):
                m.d.sync += [done.valid.eq(1), done.p.error.eq(pipeline.o.error)]
            with m.If(kill[k]):
                m.d.sync += [done.valid.eq(0), pending[k].eq(0)]
        return pending

    def _rows(self, m: Module, touts: list[TileOut]) -> None:
        """One read port for both tile outputs."""
        request, response = self.read_request, self.read_response
        step = Signal()
        which = Signal(1)
        m.d.comb += [
            step.eq(~response.valid | response.ready),
            request.ready.eq(step),
            response.p.data.eq(Mux(which, touts[1].data, touts[0].data)),
        ]
        for k, tout in enumerate(touts):
            m.d.comb += [
                tout.read.eq(step & request.valid & (request.p.tout == k)),
                tout.row.eq(request.p.row),
            ]
        full = Mux(request.p.tout, touts[1].full, touts[0].full).bit_select(request.p.row, 1)
        with m.If(step):
            m.d.sync += [
                response.valid.eq(request.valid),
                which.eq(request.p.tout),
                response.p.full.eq(full),
            ]
