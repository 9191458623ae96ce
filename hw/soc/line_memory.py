"""The external memory of an accelerator on AXI, which a processor shares."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory

from tilewright.golden.params.machine_axi import MachineAxiPorts
from tilewright.hw.soc.accelerator_wires import memory_ports
from tilewright.hw.soc.word_bus import WORD_BITS, WORD_BYTES
from tilewright.hw.stream.queue import Queue

__all__ = ["LEAST_LATENCY", "LineMemory", "require_sizes"]

OKAY, SLVERR = 0, 2
BYTE = 8
LEAST_LATENCY = 2


def require_sizes(lines: int, latency: int) -> None:
    """Refuse what no memory can have."""
    if lines < 2 or lines & (lines - 1):
        raise ValueError(f"lines must be a power of two, not {lines!r}")
    if latency < LEAST_LATENCY:
        raise ValueError(f"latency must be at least {LEAST_LATENCY}, not {latency!r}")


class LineMemory(wiring.Component):
    """A slave for every master of an accelerator behind AXI, and words for a processor (``bus``).

    Line k of a channel is line k * channels + channel of the memory, which has ``lines``; lines
    beyond answer SLVERR. All masters are served at once, which takes a memory with a port for each:
    this is a model of a memory that is fast enough, for simulation.

    Timing: an answer is offered ``latency`` cycles after its request, in order; a word of the
    processor takes two cycles.
    """

    def __init__(self, params: MachineAxiPorts, lines: int, latency: int):
        require_sizes(lines, latency)
        self.params, self.latency = params, latency
        self.memory = Memory(shape=params.line_bits, depth=lines, init=[])
        super().__init__(memory_ports(params))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = self.memory
        channels = self.params.memory_channels
        for channel in range(channels):
            self._reads(m, f"m{channel}", lambda line, c=channel: line * channels + c)
            self._writes(m, f"m{channel}", lambda line, c=channel: line * channels + c)
        self._reads(m, "code", lambda line: line)
        self._words(m)
        return m

    def _wire(self, prefix: str, name: str) -> Signal:
        return getattr(self, f"{prefix}_axi_{name}")

    def _line(self, m: Module, prefix: str, kind: str, place: Any) -> Any:
        """Which line an address means, and whether there is none."""
        address = self._wire(prefix, f"{kind}addr")
        line = Signal(len(address), name=f"{prefix}_{kind}_line")
        m.d.comb += line.eq(place(address[(self.params.line_bytes - 1).bit_length() :]))
        return line, line >= self.memory.depth

    def _reads(self, m: Module, prefix: str, place: Any) -> None:
        """The line is read at once and travels for the rest of the latency."""
        port = self.memory.read_port()
        line, bad = self._line(m, prefix, "ar", place)
        tag = self._wire(prefix, "arid")
        shape = data.StructLayout({"tag": len(tag), "bad": 1, "line": self.params.line_bits})
        # Room for every tag, so that the memory never has a request wait.
        m.submodules[f"{prefix}_read"] = queue = Queue(shape, 1 << len(tag))
        moves = Signal(name=f"{prefix}_reads")
        m.d.comb += [
            self._wire(prefix, "arready").eq(1),
            moves.eq(self._wire(prefix, "arvalid")),
            port.en.eq(moves),
            port.addr.eq(line),
        ]
        valid, head = self._later(m, f"{prefix}_ar", Cat(moves, tag, bad), 1)
        word = Cat(head, port.data)
        valid, word = self._later(m, f"{prefix}_r", Cat(valid, word), self.latency - LEAST_LATENCY)
        m.d.comb += [
            queue.i.valid.eq(valid),
            queue.i.payload.eq(word),
            self._wire(prefix, "rvalid").eq(queue.o.valid),
            self._wire(prefix, "rid").eq(queue.o.p.tag),
            self._wire(prefix, "rresp").eq(Mux(queue.o.p.bad, SLVERR, OKAY)),
            self._wire(prefix, "rdata").eq(queue.o.p.line),
            self._wire(prefix, "rlast").eq(1),
            queue.o.ready.eq(self._wire(prefix, "rready")),
        ]

    def _writes(self, m: Module, prefix: str, place: Any) -> None:
        """Address and data are taken together."""
        port = self.memory.write_port(granularity=BYTE)
        line, bad = self._line(m, prefix, "aw", place)
        both = Signal(name=f"{prefix}_writes")
        m.submodules[f"{prefix}_written"] = queue = Queue(data.StructLayout({"bad": 1}), 64)
        m.d.comb += [
            both.eq(self._wire(prefix, "awvalid") & self._wire(prefix, "wvalid")),
            self._wire(prefix, "awready").eq(both),
            self._wire(prefix, "wready").eq(both),
            port.addr.eq(line),
            port.data.eq(self._wire(prefix, "wdata")),
        ]
        with m.If(both & ~bad):
            m.d.comb += port.en.eq(self._wire(prefix, "wstrb"))
        valid, late = self._later(m, f"{prefix}_b", Cat(both, bad), self.latency - 1)
        m.d.comb += [
            queue.i.valid.eq(valid),
            queue.i.payload.eq(late),
            self._wire(prefix, "bvalid").eq(queue.o.valid),
            self._wire(prefix, "bresp").eq(Mux(queue.o.p.bad, SLVERR, OKAY)),
            queue.o.ready.eq(self._wire(prefix, "bready")),
        ]

    def _later(self, m: Module, name: str, word: Any, cycles: int) -> Any:
        """``word``, whose lowest bit says whether it is valid, so many cycles later, in two."""
        for cycle in range(cycles):
            late = Signal(len(word), name=f"{name}_{cycle}")
            m.d.sync += late.eq(word)
            word = late
        return word[0], word[1:]

    def _words(self, m: Module) -> None:
        bus, words = self.bus, self.params.line_bytes // WORD_BYTES
        read, write = self.memory.read_port(), self.memory.write_port(granularity=BYTE)
        word = bus.address[2 : 2 + (words - 1).bit_length()]
        line = bus.address[(self.params.line_bytes - 1).bit_length() :]
        m.d.comb += [
            read.en.eq(bus.valid),
            read.addr.eq(line),
            bus.answer.eq(read.data.word_select(word, WORD_BITS)),
            write.addr.eq(line),
            write.data.eq(bus.data.replicate(words)),
        ]
        with m.If(bus.valid & bus.ready):
            m.d.comb += write.en.eq(bus.strobes << (word << 2))
        m.d.sync += bus.ready.eq(bus.valid & ~bus.ready)
