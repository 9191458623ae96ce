"""Programs from external memory: their instructions, fetched ahead into the instruction memory."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.machine import (
    CODE_LINES,
    INSTRUCTION_BITS,
    NUMBER_BITS,
    MachineParams,
)
from tilewright.hw.stream.line_queue import LineQueue
from tilewright.hw.unit import payload_layout


class Fetcher(wiring.Component):
    """Asks for the lines of a program in order and writes their instructions to a ring.

    Lines may arrive in any order. One is asked for when the ring has room for it and all
    instructions from ``base`` on and all that are on their way, so that no instruction waits for a
    place. A line that is answered with an error ends the stream: ``failed``, when all instructions
    before it are there. When ``running`` falls, nothing more is asked for; what is still on its way
    is dropped when it arrives.

    Timing: the first request is on offer two cycles after ``start``, then one a cycle; instructions
    are written one a cycle, the first three cycles after its line arrived.

    Members
    -------
    filled : Out
        Instructions that have been written since ``start``.
    fill : Out
        An instruction for the ring.
    """

    def __init__(self, params: MachineParams):
        self.params = params
        ports = {p.name: payload_layout(p) for p in (*params.inputs, *params.outputs)}
        super().__init__(
            {
                "start": In(1),
                "line": In(params.line_address_bits),
                "running": In(1),
                "base": In(NUMBER_BITS),
                "filled": Out(NUMBER_BITS),
                "failed": Out(1),
                "fill": Out(fill_layout(params)),
                "mem_request": Out(stream.Signature(ports["code_request"])),
                "mem_response": In(stream.Signature(ports["code_response"])),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, request, response = self.params, self.mem_request, self.mem_response
        each = p.line_instructions
        m.submodules.queue = queue = LineQueue(CODE_LINES, p.line_bits, sram=True)
        active = Signal()
        line = Signal(p.line_address_bits)
        asked = Signal(NUMBER_BITS)  # instructions
        asks, takes = Signal(), Signal()
        outstanding = Signal(range(CODE_LINES + 3))  # lines reserved and not yet taken
        outstanding_next = Signal.like(outstanding)
        stale = Signal.like(outstanding)  # of them: of a program before this one
        ahead = (asked + each - self.base)[:NUMBER_BITS]  # in the ring, with this line
        m.d.comb += [
            asks.eq(
                active & queue.port.free & (ahead <= p.code_ring) & (~request.valid | request.ready)
            ),
            queue.port.reserve.eq(asks),
            *queue.takes(response),
            takes.eq(queue.o.valid & queue.o.ready),
            outstanding_next.eq(outstanding + asks - takes),
        ]
        m.d.sync += outstanding.eq(outstanding_next)
        with m.If(request.ready):
            m.d.sync += request.valid.eq(0)
        with m.If(asks):
            m.d.sync += [
                request.valid.eq(1),
                request.p.line.eq(line),
                request.p.tag.eq(queue.port.slot),
                line.eq(line + 1),
                asked.eq(asked + each),
            ]

        part = Signal(range(max(2, each)))  # of the line
        drops = ~active | stale.any()
        writes = queue.o.valid & ~drops & ~queue.o.p.error
        last = part == each - 1
        m.d.comb += [
            queue.o.ready.eq(drops | queue.o.p.error | last),
            self.fill.valid.eq(writes),
            self.fill.place.eq(self.filled[: len(self.fill.place)]),
            self.fill.word.eq(queue.o.p.data.word_select(part, INSTRUCTION_BITS)),
        ]
        with m.If(writes):
            m.d.sync += [self.filled.eq(self.filled + 1), part.eq(Mux(last, 0, part + 1))]
        with m.If(queue.o.valid & ~drops & queue.o.p.error):
            m.d.sync += [self.failed.eq(1), active.eq(0)]
        with m.If(takes & stale.any()):
            m.d.sync += stale.eq(stale - 1)
        with m.If(~self.running):
            m.d.sync += active.eq(0)
        with m.If(self.start):
            m.d.sync += [
                active.eq(1),
                line.eq(self.line),
                asked.eq(0),
                stale.eq(outstanding_next),
                part.eq(0),
                self.filled.eq(0),
                self.failed.eq(0),
            ]
        return m


def fill_layout(params: MachineParams) -> data.StructLayout:
    """An instruction for the ring."""
    return data.StructLayout(
        {"valid": 1, "place": range(params.code_ring), "word": INSTRUCTION_BITS}
    )
