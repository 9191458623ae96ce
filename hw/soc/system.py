"""A RISC-V processor and an accelerator that share a memory."""

from enum import IntEnum
from typing import Any

from amaranth import ClockSignal, Instance, Module, Mux, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.machine_axi import MachineAxiPorts
from tilewright.hw.catalog import build
from tilewright.hw.soc.accelerator_wires import connect_accelerator
from tilewright.hw.soc.line_memory import LineMemory
from tilewright.hw.soc.register_halves import RegisterHalves
from tilewright.hw.soc.word_bus import WORD_BITS, WORD_BUS

__all__ = ["FIRMWARE_BYTES", "Base", "RiscvSystem"]

REGION_BITS = 29  # a region is 512 MiB of addresses
FIRMWARE_BYTES = 1 << 16


class Base(IntEnum):
    """Where the processor sees what; each is a region of its own."""

    FIRMWARE = 0 << REGION_BITS  # its own memory, where it starts
    MEMORY = 1 << REGION_BITS  # lines of the accelerator, from line 0 on
    REGISTERS = 2 << REGION_BITS  # of the accelerator, low half first
    CONSOLE = 3 << REGION_BITS  # a byte to print; the word behind it ends the program with a code


class RiscvSystem(wiring.Component):
    """PicoRV32 (a module that is not ours) with the accelerator ``params`` behind AXI.

    While ``run`` is 0 the processor is in reset, and ``host`` has its place on the bus: it loads
    the memories and looks at them. ``refused`` stays when an access to a register was refused.
    """

    def __init__(self, params: MachineAxiPorts, *, lines: int, latency: int):
        self.params, self.lines, self.latency = params, lines, latency
        super().__init__(
            {
                "run": In(1),
                "host": In(WORD_BUS),
                "console_valid": Out(1),
                "console": Out(8),
                "exited": Out(1),
                "code": Out(WORD_BITS),
                "refused": Out(1),
                "trap": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.accelerator = accelerator = build(self.params)
        m.submodules.memory = memory = LineMemory(self.params, self.lines, self.latency)
        m.submodules.halves = halves = RegisterHalves()
        m.submodules.firmware = firmware = Memory(
            shape=WORD_BITS, depth=FIRMWARE_BYTES * 8 // WORD_BITS, init=[]
        )
        connect_accelerator(m, self.params, accelerator, memory, halves)

        processor = WORD_BUS.create(path=("processor",))
        m.submodules.processor = _picorv32(processor, self.run, self.trap)
        bus = WORD_BUS.create(path=("bus",))
        m.d.comb += [processor.answer.eq(bus.answer), self.host.answer.eq(bus.answer)]
        for master, has_it in ((processor, self.run), (self.host, ~self.run)):
            with m.If(has_it):
                m.d.comb += [
                    bus.valid.eq(master.valid),
                    bus.address.eq(master.address),
                    bus.data.eq(master.data),
                    bus.strobes.eq(master.strobes),
                    master.ready.eq(bus.ready),
                ]
        with m.Switch(bus.address[REGION_BITS:]):
            with m.Case(Base.FIRMWARE >> REGION_BITS):
                self._firmware(m, bus, firmware)
            with m.Case(Base.MEMORY >> REGION_BITS):
                self._pass_on(m, bus, memory.bus)
            with m.Case(Base.REGISTERS >> REGION_BITS):
                self._pass_on(m, bus, halves.bus)
            with m.Case(Base.CONSOLE >> REGION_BITS):
                self._console(m, bus)
            with m.Default():  # nothing is there
                m.d.comb += bus.ready.eq(bus.valid)
                with m.If(bus.valid):
                    m.d.sync += self.refused.eq(1)
        with m.If(halves.refused):
            m.d.sync += self.refused.eq(1)
        return m

    def _pass_on(self, m: Module, bus: Any, slave: Any) -> None:
        m.d.comb += [
            slave.valid.eq(bus.valid),
            slave.address.eq(bus.address[:REGION_BITS]),
            slave.data.eq(bus.data),
            slave.strobes.eq(bus.strobes),
            bus.ready.eq(slave.ready),
            bus.answer.eq(slave.answer),
        ]

    def _firmware(self, m: Module, bus: Any, memory: Memory) -> None:
        read, write = memory.read_port(), memory.write_port(granularity=8)
        answers = Signal()
        m.d.comb += [
            read.addr.eq(bus.address[2:]),
            read.en.eq(bus.valid),
            write.addr.eq(bus.address[2:]),
            write.data.eq(bus.data),
            write.en.eq(Mux(bus.valid & answers, bus.strobes, 0)),
            bus.ready.eq(answers),
            bus.answer.eq(read.data),
        ]
        m.d.sync += answers.eq(bus.valid & ~answers)

    def _console(self, m: Module, bus: Any) -> None:
        m.d.comb += [bus.ready.eq(bus.valid), self.console.eq(bus.data)]
        with m.If(bus.valid & bus.strobes.any()):
            with m.If(bus.address[2]):
                m.d.sync += [self.exited.eq(1), self.code.eq(bus.data)]
            with m.Else():
                m.d.comb += self.console_valid.eq(1)


def _picorv32(bus: Any, run: Signal, trap: Signal) -> Instance:
    """32-bit integers with products, and a counter of cycles."""
    return Instance(
        "picorv32",
        ("p", "ENABLE_FAST_MUL", 1),
        ("p", "BARREL_SHIFTER", 1),
        ("i", "clk", ClockSignal()),
        ("i", "resetn", run & ~ResetSignal()),
        ("o", "trap", trap),
        ("o", "mem_valid", bus.valid),
        ("o", "mem_addr", bus.address),
        ("o", "mem_wdata", bus.data),
        ("o", "mem_wstrb", bus.strobes),
        ("i", "mem_ready", bus.ready),
        ("i", "mem_rdata", bus.answer),
    )
