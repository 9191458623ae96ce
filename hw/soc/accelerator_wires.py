"""How an accelerator behind AXI meets its memory and the master of its registers."""

from typing import Any

from amaranth import Module
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.machine_axi import MachineAxiPorts
from tilewright.hw.soc.register_halves import RegisterHalves
from tilewright.hw.soc.word_bus import WORD_BUS

__all__ = ["connect_accelerator", "memory_ports"]

_REGISTERS = "s_axi_"  # of wires that a master of the registers drives


def memory_ports(params: MachineAxiPorts) -> dict[str, Any]:
    """Ports of a memory: a slave for every master of the accelerator, and words (``bus``)."""
    masters = [wire for wire in params.wires if not wire.name.startswith(_REGISTERS)]
    return {wire.name: In(wire.bits) if wire.output else Out(wire.bits) for wire in masters} | {
        "bus": In(WORD_BUS)
    }


def connect_accelerator(
    m: Module, params: MachineAxiPorts, accelerator: Any, memory: Any, halves: RegisterHalves
) -> None:
    """Wire an accelerator to a memory of :func:`memory_ports` and to what drives its registers."""
    for wire in params.wires:
        other = halves if wire.name.startswith(_REGISTERS) else memory
        if not hasattr(other, wire.name):
            continue  # protection bits, which nobody looks at
        ours, theirs = getattr(accelerator, wire.name), getattr(other, wire.name)
        m.d.comb += theirs.eq(ours) if wire.output else ours.eq(theirs)
