"""Instructions as objects and as words, for any set of opcodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple, Self

from tilewright.golden.bits import encode
from tilewright.golden.params.block import Field, pack_fields, unpack_fields
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import (
    INDEX_SUFFIX,
    INSTRUCTION_BITS,
    OPCODE_BITS,
    Kind,
)
from tilewright.golden.params.vector import Operation, VectorParams

ONE = int(encode(FP16, 1.0))


@dataclass(frozen=True)
class BaseInstruction:
    """An opcode and its fields, which a subclass declares.

    Fields that are not given are 0, a scale 1, others as ``DEFAULTS`` says.
    """

    opcode: Any  # a member of the set's IntEnum
    fields: dict[str, int] = field(default_factory=dict)
    # The instruction of the program, where a loop has added index registers to its addresses.
    origin: Self | None = field(default=None, compare=False, repr=False)

    FIELDS: ClassVar[Mapping[Any, tuple[Field, ...]]]
    # Fields that assembly text may leave out, by opcode.
    DEFAULTS: ClassVar[Mapping[Any, Mapping[str, int]]] = {}

    def __post_init__(self) -> None:
        kind: Any = type(self)
        limits, defaults = _declared(kind, self.opcode)
        given = self.fields
        fields = defaults | given
        object.__setattr__(self, "fields", fields)
        if len(fields) > len(limits):
            opcode = self.opcode.name.lower()
            raise ValueError(f"{opcode} has the fields {sorted(limits)}, not {sorted(given)}")
        for name, value in given.items():
            if not 0 <= value < limits[name]:
                opcode = self.opcode.name.lower()
                raise ValueError(f"{opcode}: {name} must be 0..{limits[name] - 1}, not {value}")

    def __getitem__(self, name: str) -> int:
        return self.fields[name]

    @cached_property
    def moved(self) -> tuple[str, ...]:
        """Addresses that an index register is added to."""
        ends = INDEX_SUFFIX
        return tuple(n.removesuffix(ends) for n, v in self.fields.items() if v and n.endswith(ends))

    @cached_property
    def moves(self) -> tuple[tuple[str, str, int], ...]:
        """The same, each with the field that names its index register, and a mask of its bits."""
        bits = {f.name: f.bits for f in self.FIELDS[self.opcode]}
        return tuple((name, name + INDEX_SUFFIX, (1 << bits[name]) - 1) for name in self.moved)

    @cached_property
    def checked(self) -> tuple[int, ...]:
        """The fields that decide whether the instruction is valid: all but its line."""
        return int(self.opcode), *(v for name, v in self.fields.items() if name != "line")

    @cached_property
    def vector(self) -> "VectorKind":
        """The kind of a vector instruction."""
        return VectorKind.of(self)

    def encode(self) -> int:
        """The word of 128 bits."""
        fields = pack_fields(self.FIELDS[self.opcode], self.fields)
        return int(self.opcode) | fields << OPCODE_BITS

    @classmethod
    def decode(cls, word: int) -> Self | None:
        """The instruction of a word; None if its opcode is unknown."""
        if not 0 <= word < 1 << INSTRUCTION_BITS:
            raise ValueError(f"{word:#x} is not a word of {INSTRUCTION_BITS} bits")
        key = cls, word
        if key not in _DECODED:
            _DECODED[key] = cls._decoded(word)
        found: Self | None = _DECODED[key]
        return found

    @classmethod
    def _decoded(cls, word: int) -> Self | None:
        opcodes: dict[int, IntEnum] = {int(opcode): opcode for opcode in cls.FIELDS}
        opcode = opcodes.get(word & ((1 << OPCODE_BITS) - 1))
        if opcode is None:
            return None
        return cls(opcode, unpack_fields(cls.FIELDS[opcode], word >> OPCODE_BITS))


@cache  # an instruction set has a few dozen of them, programs have millions
def _declared(kind: type[BaseInstruction], opcode: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Exclusive limits and defaults of an opcode's fields."""
    limits = {f.name: 1 << f.bits for f in kind.FIELDS[opcode]}
    defaults = {name: ONE if name == "scale" else 0 for name in limits}
    return limits, defaults | dict(kind.DEFAULTS.get(opcode, {}))


_DECODED: dict[tuple[type, int], Any] = {}  # by instruction set and word: programs repeat words


# Vector instructions, which all accelerators have.


class VectorKind(NamedTuple):
    """Properties of a vector instruction that its execution depends on."""

    operation: Operation
    on_scalars: bool  # scalar registers from others
    all_banks: bool  # computed for banks that are not written too
    reduces: bool
    takes_b: bool

    @classmethod
    def of(cls, x: BaseInstruction) -> "VectorKind":
        operation, scalars = Operation(x["operation"]), works_on_scalars(x)
        everywhere = scalars or operation.reduces or operation.keeps_sum
        return cls(operation, scalars, everywhere, operation.reduces, operation.takes_b)


def works_on_scalars(x: BaseInstruction) -> bool:
    """Whether a vector instruction has no tensor: it computes one scalar register from others."""
    tensor_b = Operation(x["operation"]).takes_b and x["b_kind"] == Kind.TENSOR
    return x["a_kind"] != Kind.TENSOR and not tensor_b


def tensor_operands(x: BaseInstruction) -> list[str]:
    """The fields of a vector instruction that are rows of tensors, including the result's."""
    operation = Operation(x["operation"])
    names = ["a"] if x["a_kind"] == Kind.TENSOR else []
    if operation.takes_b and x["b_kind"] == Kind.TENSOR:
        names.append("b")
    if not (operation.reduces or works_on_scalars(x)):
        names.append("destination")
    return names


def bad_vector_operand(unit: VectorParams, x: BaseInstruction) -> bool:
    """An unknown operation or kind, or a reduction of something other than tensors."""
    kinds = Kind.__members__.values()
    if x["operation"] not in unit.operations:
        return True
    if x["a_kind"] not in kinds or x["b_kind"] not in kinds:
        return True
    operation = Operation(x["operation"])
    if operation.attends and x["b_kind"] != Kind.TENSOR:
        return True
    of_tensors = operation.reduces or operation.keeps_sum or operation.attends
    return of_tensors and x["a_kind"] != Kind.TENSOR


def scalar_accesses(x: BaseInstruction) -> tuple[set[int], set[int]]:
    """The scalar registers that a vector instruction reads, and those that it writes."""
    operation = Operation(x["operation"])
    reads = {x["a"]} if x["a_kind"] == Kind.SCALAR else set()
    if operation.takes_b and x["b_kind"] == Kind.SCALAR:
        reads.add(x["b"])
    writes = {x["destination"]} if operation.reduces or works_on_scalars(x) else set()
    if operation.keeps_sum:
        writes.add(x["total"])
    return reads, writes


def scalar_operands(x: BaseInstruction) -> set[int]:
    """The scalar registers that a vector instruction reads or writes."""
    reads, writes = scalar_accesses(x)
    return reads | writes
