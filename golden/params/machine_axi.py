"""The accelerators with AXI ports: an AXI4 master per memory channel, AXI4-Lite registers."""

from typing import ClassVar

from tilewright.golden.params.block import Streams, Wire, axi_lite, handshake, require
from tilewright.golden.params.machine import (
    CODE_TAG_BITS,
    REGISTER_BITS,
    REGISTER_SPACE_BITS,
    MachineParams,
    Register,
)
from tilewright.golden.params.registers import RegisterMap, interrupt_registers

WIDEST_AXI = 128  # bytes of the widest AXI4 beat


class MachineAxiPorts(MachineParams):
    """The ports instead of the accelerator's own: ``m0_axi_`` and so on, and ``s_axi_``.

    A channel's byte addresses are those of its own lines. The id of a read is the tag of its
    request; all writes have id 0. Instructions are read from ``code_axi_``, a master that only
    reads; its addresses are those of all memory. ``irq`` is high while a bit is set in
    ``INTERRUPT`` and in ``INTERRUPT_ENABLE``.
    """

    MACHINE: ClassVar[type[MachineParams]]
    clock: ClassVar[str] = "aclk"
    reset: ClassVar[str] = "aresetn"

    inputs = outputs = Streams()

    @property
    def machine(self) -> MachineParams:
        """The accelerator without AXI ports."""
        return self.shared(self.MACHINE)

    @property
    def registers(self) -> RegisterMap:
        return (*super().registers, *interrupt_registers(Register))

    def check_ports(self) -> None:
        super().check_ports()
        size = self.line_bytes
        require(size <= WIDEST_AXI, f"line_bytes must be at most {WIDEST_AXI}, not {size!r}")

    @property
    def wires(self) -> tuple[Wire, ...]:
        channels = (self._master(f"m{c}_axi_") for c in range(self.memory_channels))
        return (
            *(wire for channel in channels for wire in channel),
            *_outputs_first(self._reads("code_axi_", CODE_TAG_BITS)),
            *_outputs_first(axi_lite("s_axi_", REGISTER_SPACE_BITS, REGISTER_BITS)),
            Wire("irq", 1, True),
        )

    @property
    def _address(self) -> dict[str, int]:
        control = {"size": 3, "burst": 2, "lock": 1, "cache": 4, "prot": 3, "valid": 1}
        return {"addr": self.address_bits, "len": 8, **control}

    def _reads(self, prefix: str, id_bits: int) -> tuple[Wire, ...]:
        """Both channels of a master that only reads."""
        answer = {"id": id_bits, "resp": 2, "data": self.line_bits, "last": 1, "valid": 1}
        return (
            *handshake(f"{prefix}ar", True, id=id_bits, **self._address),
            *handshake(f"{prefix}r", False, **answer),
        )

    def _master(self, prefix: str) -> tuple[Wire, ...]:
        tag, data = self.tag_bits, {"data": self.line_bits, "strb": self.line_bytes}
        wires = (
            *self._reads(prefix, tag),
            *handshake(f"{prefix}aw", True, id=tag, **self._address),
            *handshake(f"{prefix}w", True, **data, last=1, valid=1),
            *handshake(f"{prefix}b", False, id=tag, resp=2, valid=1),
        )
        return _outputs_first(wires)


def _outputs_first(wires: tuple[Wire, ...]) -> tuple[Wire, ...]:
    return tuple(sorted(wires, key=lambda wire: not wire.output))
