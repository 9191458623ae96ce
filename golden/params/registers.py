"""Register maps of the blocks that a host drives; SystemRDL is written from them."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from tilewright.golden.params.block import INTERRUPT_FIELDS, Field
from tilewright.golden.params.describe import comments

REGISTER_BYTES = 8
WORD = (Field("value", 8 * REGISTER_BYTES),)


@dataclass(frozen=True)
class Register:
    """``count`` registers of 64 bits from byte ``offset`` on; fields from the lowest bit on."""

    name: str
    offset: int
    meaning: str
    read: tuple[Field, ...]  # fields that a read shows
    write: tuple[Field, ...] = ()  # fields that can be written; without any, a write is refused
    clears: bool = False  # a 1 that is written clears its bit
    count: int = 1
    reset: int = 0  # of what can be read and written, but not of memories (count above 1)
    codes: tuple[IntEnum, ...] = ()  # values of the field ``error``


@dataclass(frozen=True)
class RegisterGroup:
    """``count`` equal groups of registers, ``stride`` bytes apart; offsets are within a group."""

    name: str
    offset: int
    meaning: str
    count: int
    stride: int
    registers: tuple[Register, ...]


RegisterMap = tuple[Register | RegisterGroup, ...]


def addresses(registers: RegisterMap) -> dict[int, Register]:
    found: dict[int, Register] = {}
    for entry in registers:
        if isinstance(entry, Register):
            for k in range(entry.count):
                found[entry.offset + k * REGISTER_BYTES] = entry
        else:
            inner = addresses(entry.registers)
            for first in range(entry.count):
                start = entry.offset + first * entry.stride
                found |= {start + offset: register for offset, register in inner.items()}
    return found


def declared(code: IntEnum, read: tuple[Field, ...], *write: Field, **more: Any) -> Register:
    """The register at an offset; its meaning is the comment after the offset."""
    return Register(code.name, int(code), comments(type(code))[code.name], read, write, **more)


def bytes_of(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name, 8) for name in names)


def interrupt_registers(codes: type[IntEnum]) -> tuple[Register, ...]:
    """The registers of :class:`tilewright.hw.soc.interrupt.Interrupt`."""
    fields = INTERRUPT_FIELDS
    return (
        declared(codes["INTERRUPT"], fields, *fields, clears=True),
        declared(codes["INTERRUPT_ENABLE"], fields, *fields),
    )
