"""The external memory of an accelerator on AXI in block RAM, one access at a time."""

from typing import Any

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.machine_axi import MachineAxiPorts
from tilewright.hw.soc.word_bus import WORD_BITS, WORD_BUS, WORD_BYTES

REGISTERS = "s_axi_"  # of wires that a master of the registers drives
OKAY, SLVERR = 0, 2
BYTE = 8


class TurnMemory(wiring.Component):
    """A slave for every master of an accelerator behind AXI, and words for a host (``bus``).

    Line k of a channel is line k * channels + channel of the memory, which has ``lines``; lines
    beyond answer SLVERR. It has one port to read and one to write, as a block RAM has, and
    accesses take turns.

    Timing: a cycle for each master that has no request in its turn; an access takes three, and
    those that its master takes to accept the answer.
    """

    def __init__(self, params: MachineAxiPorts, lines: int):
        if lines < 2 or lines & (lines - 1):
            raise ValueError(f"lines must be a power of two, not {lines!r}")
        self.params = params
        self.memory = Memory(shape=params.line_bits, depth=lines, init=[])
        masters = [
            wire
            for wire in params.wires
            if "_axi_" in wire.name and not wire.name.startswith(REGISTERS)
        ]
        ports = {wire.name: (In if wire.output else Out)(wire.bits) for wire in masters}
        super().__init__(ports | {"bus": In(WORD_BUS)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = self.memory
        self.read, self.write = memory.read_port(), memory.write_port(granularity=BYTE)
        m.d.comb += self.read.en.eq(1)
        channels = self.params.memory_channels
        turns: list[Any] = [lambda: self._word(m)]
        for channel in range(channels):
            turns += [
                lambda c=channel: self._read(m, f"m{c}", lambda line: line * channels + c),
                lambda c=channel: self._write(m, f"m{c}", lambda line: line * channels + c),
            ]
        turns.append(lambda: self._read(m, "code", lambda line: line))
        turn, following = Signal(range(len(turns))), Signal(range(len(turns)))
        self.asked = Signal()  # an access begins
        self.seen, self.answers = Signal(), Signal()  # its line is being read; its answer is there
        self.taken = Signal()  # the answer is
        # Held once available: the address may have changed by the time it is taken.
        self.line_read = Signal(self.params.line_bits)
        with m.If(self.seen):
            m.d.sync += self.line_read.eq(self.read.data)
        m.d.comb += following.eq(Mux(turn == len(turns) - 1, 0, turn + 1))
        with m.If(self.answers):
            with m.If(self.taken):
                m.d.sync += [self.answers.eq(0), turn.eq(following)]
        with m.Elif(self.seen):
            m.d.sync += [self.seen.eq(0), self.answers.eq(1)]
        with m.Elif(self.asked):
            m.d.sync += self.seen.eq(1)
        with m.Else():
            m.d.sync += turn.eq(following)
        with m.Switch(turn):
            for k, serve in enumerate(turns):
                with m.Case(k):
                    serve()
        return m

    def _wire(self, prefix: str, name: str) -> Signal:
        return getattr(self, f"{prefix}_axi_{name}")

    @property
    def _line_log2(self) -> int:
        return (self.params.line_bytes - 1).bit_length()

    def _line(self, prefix: str, kind: str, place: Any) -> tuple[Value, Value]:
        """Which line an address means, and whether there is none."""
        line = place(self._wire(prefix, f"{kind}addr")[self._line_log2 :])
        return line, line >= self.memory.depth

    def _read(self, m: Module, prefix: str, place: Any) -> None:
        """A request is taken when its line is read, so its address holds until then."""
        line, bad = self._line(prefix, "ar", place)
        tag, refused = (
            Signal.like(self._wire(prefix, "arid"), name=f"{prefix}_tag"),
            Signal(name=f"{prefix}_read_refused"),
        )
        m.d.comb += [
            self.read.addr.eq(line),
            self.asked.eq(self._wire(prefix, "arvalid")),
            self._wire(prefix, "arready").eq(self.seen),
            self._wire(prefix, "rvalid").eq(self.answers),
            self._wire(prefix, "rid").eq(tag),
            self._wire(prefix, "rresp").eq(Mux(refused, SLVERR, OKAY)),
            self._wire(prefix, "rdata").eq(self.line_read),
            self._wire(prefix, "rlast").eq(1),
            self.taken.eq(self._wire(prefix, "rready")),
        ]
        with m.If(self.seen):
            m.d.sync += [tag.eq(self._wire(prefix, "arid")), refused.eq(bad)]

    def _write(self, m: Module, prefix: str, place: Any) -> None:
        """Address and data are taken together."""
        line, bad = self._line(prefix, "aw", place)
        refused = Signal(name=f"{prefix}_write_refused")
        m.d.comb += [
            self.asked.eq(self._wire(prefix, "awvalid") & self._wire(prefix, "wvalid")),
            self._wire(prefix, "awready").eq(self.seen),
            self._wire(prefix, "wready").eq(self.seen),
            self._wire(prefix, "bvalid").eq(self.answers),
            self._wire(prefix, "bresp").eq(Mux(refused, SLVERR, OKAY)),
            self.taken.eq(self._wire(prefix, "bready")),
            self.write.addr.eq(line),
            self.write.data.eq(self._wire(prefix, "wdata")),
        ]
        with m.If(self.seen):
            m.d.sync += refused.eq(bad)
            m.d.comb += self.write.en.eq(Mux(bad, 0, self._wire(prefix, "wstrb")))

    def _word(self, m: Module) -> None:
        """A word of the host; beyond the memory nothing is written."""
        bus, words = self.bus, self.params.line_bytes // WORD_BYTES
        word = bus.address[2 : 2 + (words - 1).bit_length()]
        line = bus.address[self._line_log2 :]
        m.d.comb += [
            self.read.addr.eq(line),
            self.asked.eq(bus.valid),
            bus.ready.eq(self.answers),
            bus.answer.eq(self.line_read.word_select(word, WORD_BITS)),
            self.taken.eq(1),
            self.write.addr.eq(line),
            self.write.data.eq(bus.data.replicate(words)),
        ]
        with m.If(self.seen & (line < self.memory.depth)):
            m.d.comb += self.write.en.eq(bus.strobes << (word << 2))
