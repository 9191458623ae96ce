"""A squash empties one loader at once and leaves the other alone; no request is lost. Proofs.

The element is taken apart: what a loader does is proved of the loader, what the element does of an
element whose loaders, registers and prefetcher are stand-ins that do anything at all. That the
memory's answers free every request is proved of the load unit (``test_deca_load_unit``).
"""

import pytest
from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.hdl import Fragment
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tests.support.mutate import mutant, planted
from tests.support.prove import Outcome, check_bounded, prove
from tilewright.golden.params.deca import ROW_BYTES, TILE_ROWS, DecaParams, TileError
from tilewright.hw.deca.layout import command_layout
from tilewright.hw.deca.loader import Loader
from tilewright.hw.deca.pe import DecaPE
from tilewright.hw.deca.prefetcher import Prefetcher
from tilewright.hw.deca.registers import Registers
from tilewright.hw.deca.tile_out import TileOut
from tilewright.hw.deca.vector_pipeline import VectorPipeline

SMALL = DecaParams.preset("small", cam_entries=2, sqq_lines=2, address_bits=16)
PAPER = DecaParams()
SIZES = pytest.mark.parametrize(
    "params",
    [pytest.param(SMALL, id="small"), pytest.param(PAPER, id="paper", marks=pytest.mark.full)],
)


class IdleAfterSquash(wiring.Component):
    """From the cycle after a squash to the next command a loader is idle and offers no step."""

    def __init__(self, loader: Loader):
        self.loader = loader
        p = loader.params
        super().__init__(
            {
                "offers": In(1),
                "command": In(command_layout(p)),
                "takes_request": In(1),
                "takes_step": In(1),
                "answers": In(1),
                "tag": In(p.tag_bits),
                "line": In(p.line_bits),
                "error": In(1),
                "full": In(TILE_ROWS),
                "result_taken": In(1),
                "squash": In(1),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        loader = self.loader
        m.submodules.loader = Fragment.get(loader, platform)  # now, for its registers' sake
        m.d.comb += [
            loader.command.valid.eq(self.offers),
            loader.command.payload.eq(self.command),
            loader.request.ready.eq(self.takes_request),
            loader.response.valid.eq(self.answers),
            loader.response.tag.eq(self.tag),
            loader.response.data.eq(self.line),
            loader.response.error.eq(self.error),
            loader.o.ready.eq(self.takes_step),
            loader.full.eq(self.full),
            loader.result_taken.eq(self.result_taken),
            loader.squash.eq(self.squash),
        ]
        empty = Signal()
        with m.If(loader.command.valid & loader.command.ready):
            m.d.sync += empty.eq(0)
        with m.If(self.squash):
            m.d.sync += empty.eq(1)
        anything = Cat(~loader.command.ready, loader.busy, loader.v_valid, loader.o.valid)
        m.d.comb += self.bad.eq(empty & anything.any())
        return m


@SIZES
def test_a_squashed_loader_is_idle(params):
    """By induction from every state there is, reachable or not."""
    assert prove(IdleAfterSquash(Loader(params, 1))).outcome is Outcome.PROVED


FETCH_ENDS = """        with m.If(self.squash):
            m.d.sync += state.eq(_Fetch.IDLE)
"""
STEPS_END = FETCH_ENDS.replace("_Fetch", "_Steps")
OFFER_ENDS = """        with m.If(self.squash):
            m.d.sync += o.valid.eq(0)
"""


@pytest.mark.full
@pytest.mark.parametrize("old", [FETCH_ENDS, STEPS_END, OFFER_ENDS], ids=["fetch", "steps", "o"])
def test_a_loader_that_goes_on_is_found(old):
    claim = IdleAfterSquash(mutant(Loader, old, "")(SMALL, 0))
    assert check_bounded(claim, cycles=9).outcome is Outcome.REFUTED


class StandIn(wiring.Component):
    """Has the ports of ``cls(*args)``; ``free`` is what leaves it."""

    def __init__(self, cls: type[wiring.Component], *args):
        original = cls(*args)
        Fragment.get(original, None)  # Amaranth wants what is made to be used
        super().__init__(original.signature)
        self.leaving = Cat(
            value for _, member, value in self.signature.flatten(self) if member.flow is Out
        )
        self.free = Signal(len(self.leaving))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.leaving.eq(self.free)
        return m


class ElementAroundLoaders(wiring.Component):
    """The element with its two loaders, compared with a model that shares nothing else.

    - Of each loader: results, full rows and the pipeline's attention depend on its own steps,
      kills and reads alone. After a kill nothing of it is left.
    - Commands reach it whenever it takes them, loader 0 first.
    - Requests leave once each, in finite time while the memory takes them; answers return by tag.

    Loaders, registers and prefetcher are stand-ins: whatever they might say, this holds.
    """

    def __init__(self, element: DecaPE):
        self.element = element
        p = element.params
        self.loaders = [StandIn(Loader, p, k) for k in range(p.loaders)]
        self.registers = StandIn(Registers, p)
        self.prefetcher = StandIn(Prefetcher, p)
        self.stand_ins = [*self.loaders, self.registers, self.prefetcher]
        super().__init__(
            {f"data_{port.name}": In(port.bits) for port in p.inputs}
            | {f"valid_{port.name}": In(1) for port in p.inputs}
            | {f"ready_{port.name}": In(1) for port in p.outputs}
            | {f"free{k}": In(len(unit.free)) for k, unit in enumerate(self.stand_ins)}
            | {"squash": In(p.loaders), "bad": Out(1)}
        )

    def build_with_stand_ins(self, monkeypatch) -> None:
        """Give the element's source the stand-ins for the classes that it names."""
        names = type(self.element).elaborate.__globals__
        monkeypatch.setitem(names, "Loader", lambda _, k: self.loaders[k])
        monkeypatch.setitem(names, "Registers", lambda _: self.registers)
        monkeypatch.setitem(names, "Prefetcher", lambda _: self.prefetcher)

    def elaborate(self, platform):
        m = Module()
        element = self.element
        m.submodules.element = Fragment.get(element, platform)  # now, for its registers' sake
        for k, unit in enumerate(self.stand_ins):
            m.d.comb += unit.free.eq(getattr(self, f"free{k}"))
        for port in element.params.inputs:
            stream = getattr(element, port.name)
            m.d.comb += [
                Value.cast(stream.payload).eq(getattr(self, f"data_{port.name}")),
                stream.valid.eq(getattr(self, f"valid_{port.name}")),
            ]
        for port in element.params.outputs:
            m.d.comb += getattr(element, port.name).ready.eq(getattr(self, f"ready_{port.name}"))
        m.d.comb += element.squash.eq(self.squash)
        kill = self.squash | self.registers.squash
        wrong = [self.registers.squashed != kill]
        for k, loader in enumerate(self.loaders):
            wrong += [loader.squash != kill[k], *self._results(m, k, loader, kill[k])]
        wrong += self._attention(m, kill) + self._commands() + self._memory(m)
        m.d.comb += self.bad.eq(Cat(wrong).any())
        return m

    def _results(self, m, k, loader, kill) -> list[Value]:
        """Steps that end a chunk arrive ``latency`` cycles later, unless they are killed."""
        element = self.element
        step, done = loader.o.p, getattr(element, f"done{k}")
        leaves = loader.o.valid & loader.o.ready & step.last
        on_the_way = Cat(leaves, step.final, step.error, step.config.int8, step.chunk)
        for stage in range(VectorPipeline.latency):
            arrives = Signal(len(on_the_way), name=f"way{k}_{stage}")
            m.d.sync += [arrives.eq(on_the_way), arrives[0].eq(on_the_way[0] & ~kill)]
            on_the_way = arrives
        comes = on_the_way[0] & ~kill
        ends, error = comes & on_the_way[1], on_the_way[2:5]
        good, int8, chunk = error == TileError.OK, on_the_way[5], on_the_way[6:]

        waits, waiting_error = Signal(name=f"waits{k}"), Signal(3, name=f"waiting_error{k}")
        taken = done.ready | self.registers.take_result[k]
        m.d.sync += waits.eq((waits & ~taken | ends) & ~kill)
        with m.If(ends):
            m.d.sync += waiting_error.eq(error)

        full, read = Signal(TILE_ROWS, name=f"full{k}"), element.read_request
        own = Signal(TILE_ROWS, name=f"own{k}")  # rows that the tile has written so far
        with m.If(read.valid & read.ready & (read.p.tout == k)):
            m.d.sync += full.bit_select(read.p.row, 1).eq(0)
        for row in range(TILE_ROWS):
            last_byte = (row + 1) * ROW_BYTES - 1
            bf16_chunk, int8_chunk = (last_byte // (size * element.params.lanes) for size in (2, 1))
            with m.If(comes & good & (chunk == Mux(int8, int8_chunk, bf16_chunk))):
                m.d.sync += [full[row].eq(1), own[row].eq(1)]
            with m.If(ends & ~good & own[row]):
                m.d.sync += full[row].eq(0)
        with m.If(ends):
            m.d.sync += own.eq(0)
        with m.If(kill):
            m.d.sync += [full.eq(0), own.eq(0)]
        return [
            done.valid != waits,
            done.valid & (done.p.error != waiting_error),
            loader.result_taken != (waits & taken),
            loader.full != full,
            element.rows.word_select(k, TILE_ROWS) != full,
            element.touts[k].fresh != own,  # induction needs this
            element.open[k] != loader.command.ready,
        ]

    def _attention(self, m, kill) -> list[Value]:
        """A tile's steps enter without a stranger's between them, then the other loader's."""
        middle = Signal(len(self.loaders))
        # Induction needs this: the element remembers a tile in the middle, and no other.
        wrong = [self.element.locked != middle.any(), middle.all()]
        for k, loader in enumerate(self.loaders):
            other = self.loaders[1 - k]
            enters = loader.o.valid & loader.o.ready
            with m.If(enters):
                m.d.sync += middle[k].eq(~loader.o.p.final)
            with m.If(kill[k]):
                m.d.sync += middle[k].eq(0)
            waits = loader.o.valid & ~loader.o.ready
            other_rests = Mux(other.o.valid, other.o.p.final, ~middle[1 - k])
            turn = Signal(name=f"turn{k}")
            m.d.sync += turn.eq(waits & other_rests)
            wrong += [middle[k] & ~loader.o.ready, enters & other.o.ready, turn & waits]
        return wrong

    def _commands(self) -> list[Value]:
        first, second = (loader.command for loader in self.loaders)
        port0, port1 = self.element.command0, self.element.command1
        turn = ~(first.valid & first.ready)
        return [
            port0.ready != first.ready,
            port1.ready != (second.ready & turn),
            port0.valid & ~first.valid,
            port1.valid & turn & ~second.valid,
        ]

    def _memory(self, m) -> list[Value]:
        """One register between the requests and the port."""
        port, answer = self.element.mem_request, self.element.mem_response
        requests = [*(loader.request for loader in self.loaders), self.prefetcher.request]
        valid, payload = Signal(), Signal.like(Value.cast(port.payload))
        free = ~valid | port.ready
        taken = Cat(request.valid & request.ready for request in requests)
        with m.If(free):
            m.d.sync += valid.eq(taken.any())
        for request, takes in zip(requests, taken, strict=True):
            with m.If(takes):
                m.d.sync += payload.eq(request.payload)
        wrong = [
            port.valid != valid,
            valid & (Value.cast(port.payload) != payload),
            ~free & taken.any(),
            taken[0] & taken[1],
            taken[2] & (taken[0] | taken[1]),
        ]
        for k, loader in enumerate(self.loaders):
            request, response = loader.request, loader.response
            passed = Signal(name=f"passed{k}")
            m.d.sync += passed.eq(free & request.valid & ~request.ready)
            here = answer.valid & (answer.p.tag[-1] == k)
            wrong += [
                passed & free & request.valid & ~request.ready,
                response.valid != here,
                here
                & (Cat(response.tag, response.error, response.data) != Value.cast(answer.payload)),
            ]
        return wrong


def about_element(monkeypatch, cls: type[DecaPE], params: DecaParams) -> ElementAroundLoaders:
    claim = ElementAroundLoaders(cls(params))
    claim.build_with_stand_ins(monkeypatch)
    return claim


@SIZES
def test_the_element_around_its_loaders(monkeypatch, params):
    claim = about_element(monkeypatch, DecaPE, params)
    # Steps that enter the pipeline are accounted for when they leave.
    assert prove(claim, cycles=VectorPipeline.latency + 2).outcome is Outcome.PROVED


@pytest.mark.parametrize(
    ("old", "new"),
    planted(
        [
            ("free.eq(~out.valid | out.ready)", "free.eq(1)"),  # the soonest found
            ("with m.If(kill[k]):", "with m.If(kill.any()):"),
            ("with m.If(kill[k]):", "with m.If(0):"),
            ("kill.eq(self.squash | registers.squash)", "kill.eq(self.squash)"),
            ("loader.squash.eq(kill[k])", "loader.squash.eq(kill.any())"),
            ("tout.clear.eq(kill[k])", "tout.clear.eq(kill.any())"),
            ("with m.If(kill.bit_select(owner, 1)):", "with m.If(kill.any()):"),
            ("with m.If(kill.bit_select(owner, 1)):", "with m.If(0):"),
            ("pipeline.kill.eq(kill)", "pipeline.kill.eq(0)"),
            ("locked.eq(~ends)", "locked.eq(0)"),
            ("(preferred == k) | ~", "(k == 0) | ~"),
            ("prefetcher.request.ready.eq(~demand)", "prefetcher.request.ready.eq(1)"),
        ]
    ),
)
def test_bugs_in_the_element_are_found(monkeypatch, old, new):
    refute(about_element(monkeypatch, mutant(DecaPE, old, new), SMALL))


@pytest.mark.full
@pytest.mark.parametrize(
    ("cls", "old", "new"),
    [
        (VectorPipeline, "& ~self.kill.bit_select(loader, 1)", ""),
        (VectorPipeline, "self.kill.bit_select(loader, 1)", "self.kill.any()"),
        (TileOut, "with m.If(self.clear):", "with m.If(self.clear & ~self.read):"),
    ],
)
def test_bugs_behind_the_loaders_are_found(monkeypatch, cls, old, new):
    claim = about_element(monkeypatch, DecaPE, SMALL)
    monkeypatch.setitem(DecaPE.elaborate.__globals__, cls.__name__, mutant(cls, old, new))
    refute(claim)


def refute(claim: ElementAroundLoaders) -> None:
    cycles = VectorPipeline.latency + 5
    assert check_bounded(claim, cycles=cycles).outcome is Outcome.REFUTED
