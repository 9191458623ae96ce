"""An accelerator on an FPGA by itself: a host drives it over a serial line."""

from enum import IntEnum
from typing import Any

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.machine_axi import MachineAxiPorts
from tilewright.hw.catalog import build
from tilewright.hw.soc.register_halves import RegisterHalves
from tilewright.hw.soc.serial_master import SerialMaster
from tilewright.hw.soc.turn_memory import REGISTERS, TurnMemory
from tilewright.hw.soc.uart import UartReceiver, UartTransmitter
from tilewright.hw.soc.word_bus import WORD_BUS

REGION_BITS = 29  # a region is 512 MiB of addresses


class Region(IntEnum):
    """The host's address regions, by the top bits of an address."""

    MEMORY = 1  # lines of the accelerator, from line 0 on
    REGISTERS = 2  # of the accelerator, low half first
    REFUSED = 3  # a word: whether an access was refused since it was written


class SerialSystem(wiring.Component):
    """The accelerator ``params`` behind AXI, a memory of ``lines`` in block RAM, and a serial line.

    ``rx`` and ``tx`` carry the accesses of :class:`tilewright.hw.soc.serial_master.SerialMaster`,
    ``divider`` cycles a bit. Accesses outside of all regions are refused.
    """

    def __init__(self, params: MachineAxiPorts, *, lines: int, divider: int):
        self.params, self.lines, self.divider = params, lines, divider
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.accelerator = accelerator = build(self.params)
        m.submodules.memory = memory = TurnMemory(self.params, self.lines)
        m.submodules.halves = halves = RegisterHalves()
        m.submodules.receiver = receiver = UartReceiver(self.divider)
        m.submodules.transmitter = transmitter = UartTransmitter(self.divider)
        m.submodules.master = master = SerialMaster()
        wiring.connect(m, receiver.o, master.i)
        wiring.connect(m, master.o, transmitter.i)
        m.d.comb += [receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx)]
        for wire in self.params.wires:
            other = halves if wire.name.startswith(REGISTERS) else memory
            if not hasattr(other, wire.name):
                continue  # protection bits, which nothing reads
            ours, theirs = getattr(accelerator, wire.name), getattr(other, wire.name)
            m.d.comb += theirs.eq(ours) if wire.output else ours.eq(theirs)
        self._decode(m, master.bus, memory.bus, halves)
        return m

    def _decode(self, m: Module, bus: Any, memory: Any, halves: RegisterHalves) -> None:
        refused = Signal()
        with m.If(halves.refused):
            m.d.sync += refused.eq(1)
        with m.Switch(bus.address[REGION_BITS:]):
            with m.Case(Region.MEMORY):
                self._pass_on(m, bus, memory)
            with m.Case(Region.REGISTERS):
                self._pass_on(m, bus, halves.bus)
            with m.Case(Region.REFUSED):
                m.d.comb += [bus.ready.eq(bus.valid), bus.answer.eq(refused)]
                with m.If(bus.valid & bus.strobes.any()):
                    m.d.sync += refused.eq(0)
            with m.Default():
                m.d.comb += bus.ready.eq(bus.valid)
                with m.If(bus.valid):
                    m.d.sync += refused.eq(1)

    def _pass_on(self, m: Module, bus: Any, slave: Any) -> None:
        for member in WORD_BUS.members:
            ours, theirs = getattr(bus, member), getattr(slave, member)
            if member in ("ready", "answer"):
                m.d.comb += ours.eq(theirs)
            else:
                m.d.comb += theirs.eq(ours[:REGION_BITS] if member == "address" else ours)
