"""The accelerators behind AXI: an AXI4 master for every channel of memory, AXI4-Lite registers."""

from dataclasses import fields
from typing import ClassVar

from tilewright.golden.params.block import Port, Wire, require
from tilewright.golden.params.machine import (
    CODE_TAG_BITS,
    REGISTER_BITS,
    REGISTER_SPACE_BITS,
    MachineParams,
)

WIDEST_AXI = 128  # bytes that AXI4 moves in a beat


class MachineAxiPorts(MachineParams):
    """The ports instead of the accelerator's own: ``m0_axi_`` and so on, and ``s_axi_``.

    A channel's byte addresses are those of its own lines. The id of a read is the tag of its
    request; all writes have id 0. Instructions are read from ``code_axi_``, a master that only
    reads; its addresses are those of all memory.
    """

    MACHINE: ClassVar[type[MachineParams]]

    @property
    def machine(self) -> MachineParams:
        """The accelerator behind the ports."""
        return self.MACHINE(**{f.name: getattr(self, f.name) for f in fields(self.MACHINE)})

    def check_ports(self) -> None:
        super().check_ports()
        size = self.line_bytes
        require(size <= WIDEST_AXI, f"line_bytes must be at most {WIDEST_AXI}, not {size!r}")

    @property
    def inputs(self) -> tuple[Port, ...]:
        return ()

    @property
    def outputs(self) -> tuple[Port, ...]:
        return ()

    @property
    def wires(self) -> tuple[Wire, ...]:
        channels = (self._master(f"m{c}_axi_") for c in range(self.memory_channels))
        return (
            *(wire for channel in channels for wire in channel),
            *self._reader("code_axi_", CODE_TAG_BITS),
            *self._slave("s_axi_"),
        )

    @property
    def _address(self) -> tuple[tuple[str, int], ...]:
        return (
            *(("addr", self.address_bits), ("len", 8), ("size", 3), ("burst", 2)),
            *(("lock", 1), ("cache", 4), ("prot", 3), ("valid", 1)),
        )

    def _reader(self, prefix: str, id_bits: int) -> tuple[Wire, ...]:
        """A master that only reads."""
        answer = (("id", id_bits), ("resp", 2))
        driven = {"ar": (("id", id_bits), *self._address), "r": (("ready", 1),)}
        given = {
            "ar": (("ready", 1),),
            "r": (*answer, ("data", self.line_bits), ("last", 1), ("valid", 1)),
        }
        return _wires(prefix, driven, given)

    def _master(self, prefix: str) -> tuple[Wire, ...]:
        address = self._address
        driven = {
            "ar": (("id", self.tag_bits), *address),
            "r": (("ready", 1),),
            "aw": (("id", self.tag_bits), *address),
            "w": (("data", self.line_bits), ("strb", self.line_bytes), ("last", 1), ("valid", 1)),
            "b": (("ready", 1),),
        }
        answer = (("id", self.tag_bits), ("resp", 2))
        given = {
            "ar": (("ready", 1),),
            "r": (*answer, ("data", self.line_bits), ("last", 1), ("valid", 1)),
            "aw": (("ready", 1),),
            "w": (("ready", 1),),
            "b": (*answer, ("valid", 1)),
        }
        return _wires(prefix, driven, given)

    def _slave(self, prefix: str) -> tuple[Wire, ...]:
        address = (("addr", REGISTER_SPACE_BITS), ("prot", 3), ("valid", 1))
        given = {
            "aw": address,
            "w": (("data", REGISTER_BITS), ("strb", REGISTER_BITS // 8), ("valid", 1)),
            "b": (("ready", 1),),
            "ar": address,
            "r": (("ready", 1),),
        }
        driven = {
            "aw": (("ready", 1),),
            "w": (("ready", 1),),
            "b": (("resp", 2), ("valid", 1)),
            "ar": (("ready", 1),),
            "r": (("data", REGISTER_BITS), ("resp", 2), ("valid", 1)),
        }
        return _wires(prefix, driven, given)


Signals = dict[str, tuple[tuple[str, int], ...]]


def _wires(prefix: str, driven: Signals, given: Signals) -> tuple[Wire, ...]:
    """Signals by channel, those that the block drives first."""
    return tuple(
        Wire(f"{prefix}{channel}{name}", bits, output)
        for output, signals in ((True, driven), (False, given))
        for channel, members in signals.items()
        for name, bits in members
    )
