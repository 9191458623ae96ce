"""A channel of external memory: lines that a load asks for, in the order of their addresses."""

from amaranth import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.machine import MachineParams
from tilewright.hw.stream.line_queue import LineQueue, line_layout
from tilewright.hw.unit import payload_layout


class ReadChannel(wiring.Component):
    """Asks for ``lines`` lines from ``line`` on, one a cycle, and gives them in order.

    Answers may arrive in any order; there is room for as many as requests are outstanding.
    ``start`` is raised only when all lines of the start before have been asked for, no more
    ``asks``.

    Timing: the first request is on offer the cycle after ``start``; a line is on offer three
    cycles after it arrived.
    """

    def __init__(self, params: MachineParams, channel: int, count_bits: int):
        self.params = params
        ports = {p.name: payload_layout(p) for p in (*params.inputs, *params.outputs)}
        request, response = (params.memory_port(name, channel) for name in ("request", "response"))
        super().__init__(
            {
                "start": In(1),
                "line": In(params.line_address_bits - params.channel_bits),
                "lines": In(count_bits),
                "o": Out(stream.Signature(line_layout(params.line_bits))),
                **({"asks": Out(1)} if params.loads > 1 else {}),
                "mem_request": Out(stream.Signature(ports[request])),
                "mem_response": In(stream.Signature(ports[response])),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, request, response = self.params, self.mem_request, self.mem_response
        m.submodules.queue = queue = LineQueue(p.dma_lines, p.line_bits, sram=True)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        line, left = Signal.like(self.line), Signal.like(self.lines)
        m.d.comb += [
            request.valid.eq(left.any() & queue.port.free),
            request.p.line.eq(line),
            request.p.tag.eq(queue.port.slot),
            queue.port.reserve.eq(request.valid & request.ready),
            *queue.takes(response),
        ]
        if p.loads > 1:
            m.d.comb += self.asks.eq(left.any())
        with m.If(queue.port.reserve):
            m.d.sync += [left.eq(left - 1), line.eq(line + 1)]
        with m.If(self.start):
            m.d.sync += [line.eq(self.line), left.eq(self.lines)]
        return m
