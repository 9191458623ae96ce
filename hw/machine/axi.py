"""An accelerator behind AXI: a master for every channel of memory, a register slave."""

from typing import Any

from amaranth import Cat, Module, Mux, Signal

from tilewright.golden.params.machine import REGISTER_BITS, REGISTER_SPACE_BITS, Error, Register
from tilewright.golden.params.machine_axi import MachineAxiPorts
from tilewright.hw.catalog import build
from tilewright.hw.machine.sequencer import STATUS
from tilewright.hw.soc.interrupt import Interrupt
from tilewright.hw.unit import Unit

OKAY, SLVERR = 0, 2
INCREMENTING = 1
CACHEABLE = 0b1111  # weights are read again


class MachineAxi(Unit[MachineAxiPorts]):
    """AXI4 masters (``m0_axi_`` and so on, a line per burst) and an AXI4-Lite slave (``s_axi_``).

    Instructions of a stream come through a master that only reads (``code_axi_``).

    The slave has the registers and the instruction memory at their offsets, 64 bits at a time; a
    refused access and a partial write answer SLVERR. An answer of memory that is not OKAY is an
    error of its line. ``irq`` is that of :class:`tilewright.hw.soc.interrupt.Interrupt`, whose
    registers the slave has besides the accelerator's.

    Timing: nothing is registered between a master and the accelerator; a register access takes
    three cycles and those of the accelerator. An event is in ``INTERRUPT`` a cycle after ``STATUS``
    shows it.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.machine = machine = build(self.params.machine)
        for channel in range(self.params.memory_channels):
            request, response = (self._port(machine, n, channel) for n in ("request", "response"))
            self._read(m, channel, request, response)
            self._write(m, machine, channel)
        self._read(m, "code", machine.code_request, machine.code_response)
        self._slave(m, machine, self._interrupt(m, machine))
        return m

    def _interrupt(self, m: Module, machine: Any) -> Interrupt:
        """Events: a program ends, and it ends with an error."""
        m.submodules.interrupt = interrupt = Interrupt(Register, REGISTER_SPACE_BITS)
        machine.watched = status = Signal(STATUS)
        was_done = Signal()
        ends = status.done & ~was_done
        m.d.sync += was_done.eq(status.done)
        m.d.comb += [
            interrupt.events.eq(Cat(ends, ends & (status.error != Error.NONE))),
            self.irq.eq(interrupt.irq),
        ]
        return interrupt

    def _wire(self, channel: int | str, name: str) -> Signal:
        prefix = channel if isinstance(channel, str) else f"m{channel}"
        return getattr(self, f"{prefix}_axi_{name}")

    def _port(self, machine: Any, name: str, channel: int) -> Any:
        return getattr(machine, self.params.memory_port(name, channel))

    def _address(self, m: Module, channel: int | str, kind: str, line: Any) -> None:
        """A burst of one line."""
        line_log2 = (self.params.line_bytes - 1).bit_length()
        m.d.comb += [
            self._wire(channel, f"{kind}addr").eq(line << line_log2),
            self._wire(channel, f"{kind}size").eq(line_log2),
            self._wire(channel, f"{kind}burst").eq(INCREMENTING),
            self._wire(channel, f"{kind}cache").eq(CACHEABLE),
        ]

    def _read(self, m: Module, channel: int | str, request: Any, response: Any) -> None:
        self._address(m, channel, "ar", request.p.line)
        m.d.comb += [
            self._wire(channel, "arid").eq(request.p.tag),
            self._wire(channel, "arvalid").eq(request.valid),
            request.ready.eq(self._wire(channel, "arready")),
            response.valid.eq(self._wire(channel, "rvalid")),
            response.p.tag.eq(self._wire(channel, "rid")),
            response.p.data.eq(self._wire(channel, "rdata")),
            response.p.error.eq(self._wire(channel, "rresp")[1]),
            self._wire(channel, "rready").eq(response.ready),
        ]

    def _write(self, m: Module, machine: Any, channel: int) -> None:
        """Address and data go each when they are taken; the line is sent when both are."""
        write, written = (self._port(machine, n, channel) for n in ("write", "written"))
        self._address(m, channel, "aw", write.p.line)
        both = []
        for kind in ("aw", "w"):
            done = Signal(name=f"{kind}_done_{channel}")
            valid, ready = (self._wire(channel, f"{kind}{end}") for end in ("valid", "ready"))
            m.d.comb += valid.eq(write.valid & ~done)
            m.d.sync += done.eq((done | (valid & ready)) & ~(write.valid & write.ready))
            both.append(done | ready)
        m.d.comb += [
            write.ready.eq(both[0] & both[1]),
            self._wire(channel, "wdata").eq(write.p.data),
            self._wire(channel, "wstrb").eq(~0),
            self._wire(channel, "wlast").eq(1),
            written.valid.eq(self._wire(channel, "bvalid")),
            written.p.error.eq(self._wire(channel, "bresp")[1]),
            self._wire(channel, "bready").eq(written.ready),
        ]

    def _slave(self, m: Module, machine: Any, interrupt: Interrupt) -> None:
        """One access at a time; a write goes before a read."""
        request, response = machine.mmio_request, machine.mmio_response
        address, word = Signal(REGISTER_SPACE_BITS), Signal(REGISTER_BITS)
        writes = Signal()
        m.d.comb += [
            request.p.address.eq(address),
            request.p.data.eq(word),
            request.p.write.eq(writes),
            interrupt.address.eq(address),
            interrupt.data.eq(word),
        ]
        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.s_axi_awvalid & self.s_axi_wvalid):
                    m.d.comb += [self.s_axi_awready.eq(1), self.s_axi_wready.eq(1)]
                    m.d.sync += [
                        address.eq(self.s_axi_awaddr),
                        word.eq(self.s_axi_wdata),
                        writes.eq(1),
                    ]
                    m.next = "REQUEST"
                    with m.If(~self.s_axi_wstrb.all()):
                        m.d.sync += self.s_axi_bresp.eq(SLVERR)
                        m.next = "WRITTEN"
                with m.Elif(self.s_axi_arvalid):
                    m.d.comb += self.s_axi_arready.eq(1)
                    m.d.sync += [address.eq(self.s_axi_araddr), writes.eq(0)]
                    m.next = "REQUEST"
            with m.State("REQUEST"):
                with m.If(interrupt.mine):
                    m.d.comb += interrupt.put.eq(writes)
                    m.d.sync += [
                        self.s_axi_rdata.eq(interrupt.value),
                        self.s_axi_rresp.eq(OKAY),
                        self.s_axi_bresp.eq(OKAY),
                    ]
                    m.next = "READ"
                    with m.If(writes):
                        m.next = "WRITTEN"
                with m.Else():
                    m.d.comb += request.valid.eq(1)
                    with m.If(request.ready):
                        m.next = "RESPONSE"
            with m.State("RESPONSE"):
                m.d.comb += response.ready.eq(1)
                code = Mux(response.p.error, SLVERR, OKAY)
                with m.If(response.valid):
                    m.d.sync += [
                        self.s_axi_rdata.eq(response.p.data),
                        self.s_axi_rresp.eq(code),
                        self.s_axi_bresp.eq(code),
                    ]
                    m.next = "READ"
                    with m.If(writes):
                        m.next = "WRITTEN"
            with m.State("WRITTEN"):
                m.d.comb += self.s_axi_bvalid.eq(1)
                with m.If(self.s_axi_bready):
                    m.next = "IDLE"
            with m.State("READ"):
                m.d.comb += self.s_axi_rvalid.eq(1)
                with m.If(self.s_axi_rready):
                    m.next = "IDLE"
