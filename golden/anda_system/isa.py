"""Instructions as objects and as words; what an instruction needs, and what is wrong with it.

The encoding is declared in :mod:`golden.params.anda_system`. The checks are those of the
hardware: :func:`judge` gives the error with which an instruction stops the machine.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from golden.params.anda import MAX_MANTISSA_BITS
from golden.params.anda_system import (
    FP16_ROWS,
    INSTRUCTION_BITS,
    INSTRUCTION_FIELDS,
    OPCODE_BITS,
    SCALARS,
    AndaParams,
    Error,
    Kind,
    Memory,
    Opcode,
    group_rows,
)
from golden.params.anda_vector import Operation


@dataclass(frozen=True)
class Instruction:
    """An opcode and its fields, all of them."""

    opcode: Opcode
    fields: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        declared = INSTRUCTION_FIELDS[self.opcode]
        names = {f.name for f in declared}
        name = self.opcode.name.lower()
        if set(self.fields) != names:
            raise ValueError(f"{name} has the fields {sorted(names)}, not {sorted(self.fields)}")
        for f in declared:
            value = self.fields[f.name]
            if not 0 <= value < 1 << f.bits:
                raise ValueError(f"{name}: {f.name} must be 0..{(1 << f.bits) - 1}, not {value}")

    def __getitem__(self, name: str) -> int:
        return self.fields[name]

    def encode(self) -> int:
        """The word of 128 bits."""
        word, shift = int(self.opcode), OPCODE_BITS
        for f in INSTRUCTION_FIELDS[self.opcode]:
            word |= self.fields[f.name] << shift
            shift += f.bits
        return word


def decode(word: int) -> Instruction | None:
    """The instruction of a word; None if its opcode is unknown."""
    if not 0 <= word < 1 << INSTRUCTION_BITS:
        raise ValueError(f"{word:#x} is not a word of {INSTRUCTION_BITS} bits")
    code = word & ((1 << OPCODE_BITS) - 1)
    if code not in Opcode.__members__.values():
        return None
    opcode, shift, fields = Opcode(code), OPCODE_BITS, {}
    for f in INSTRUCTION_FIELDS[opcode]:
        fields[f.name] = word >> shift & ((1 << f.bits) - 1)
        shift += f.bits
    return Instruction(opcode, fields)


class Formats(NamedTuple):
    """What ``configure`` sets; 0: not Anda."""

    source: int = 0
    result: int = 0


class Extent(NamedTuple):
    """``rows`` rows of a memory from ``first`` on, ``stride`` apart."""

    memory: Memory
    first: int
    rows: int
    stride: int = 1

    @property
    def end(self) -> int:
        """The row behind the last."""
        return self.first + (self.rows - 1) * self.stride + 1


def groups_of(params: AndaParams, elements: int) -> int:
    return -(-elements // params.group)


def works_on_scalars(instruction: Instruction) -> bool:
    """Whether a vector instruction has no tensor: it computes one scalar register from others."""
    tensor_b = Operation(instruction["operation"]).takes_b and (
        instruction["b_kind"] == Kind.TENSOR
    )
    return instruction["a_kind"] != Kind.TENSOR and not tensor_b


def extents(params: AndaParams, formats: Formats, instruction: Instruction) -> list[Extent]:
    """Every range of rows that the instruction touches, of one without earlier errors."""
    x = instruction
    match x.opcode:
        case Opcode.LOAD | Opcode.STORE:
            return [Extent(Memory(x["memory"]), x["row"], x["rows"], x["stride"])]
        case Opcode.GEMM:
            groups = groups_of(params, x["inputs"])
            tiles = -(-x["outputs"] // params.columns)
            results = groups_of(params, x["outputs"]) * group_rows(formats.result)
            weights = tiles * groups * params.mxu.weight_beats
            return [
                Extent(Memory.ACTIVATIONS, x["source"], groups * group_rows(formats.source)),
                Extent(Memory.WEIGHTS, x["weights"], weights),
                Extent(Memory.SCALES, x["scales"], tiles * groups),
                Extent(Memory.ACTIVATIONS, x["destination"], results),
            ]
        case Opcode.COMPRESS:
            groups = groups_of(params, x["elements"])
            results = groups * group_rows(formats.result)
            return [
                Extent(Memory.ACTIVATIONS, x["source"], groups * FP16_ROWS),
                Extent(Memory.ACTIVATIONS, x["destination"], results),
            ]
        case Opcode.VECTOR:
            operation = Operation(x["operation"])
            rows = groups_of(params, x["elements"]) * FP16_ROWS
            tensors = ["a"] if x["a_kind"] == Kind.TENSOR else []
            if operation.takes_b and x["b_kind"] == Kind.TENSOR:
                tensors.append("b")
            if not (operation.reduces or works_on_scalars(x)):
                tensors.append("destination")
            return [Extent(Memory.ACTIVATIONS, x[name], rows) for name in tensors]
    return []


def judge(params: AndaParams, formats: Formats, instruction: Instruction | None) -> Error:
    """Why the machine would stop at this instruction; ``Error.NONE`` if it would not."""
    if instruction is None:
        return Error.OPCODE
    x = instruction
    if _bad_operand(x):
        return Error.OPERAND
    sized = ("rows", "stride", "inputs", "outputs", "elements")
    scalars_only = x.opcode is Opcode.VECTOR and works_on_scalars(x)
    if any(x.fields.get(name) == 0 for name in sized) and not scalars_only:
        return Error.SIZE
    if _bad_mantissa(formats, x):
        return Error.MANTISSA
    if any(e.end > params.depth(e.memory) for e in extents(params, formats, x)):
        return Error.ADDRESS
    if any(number >= SCALARS for number in _scalar_registers(x)):
        return Error.ADDRESS
    return Error.NONE


def _bad_operand(x: Instruction) -> bool:
    if x.opcode in (Opcode.LOAD, Opcode.STORE):
        known = x["memory"] in Memory.__members__.values()
        return not known or (x.opcode is Opcode.STORE and not Memory(x["memory"]).stores)
    if x.opcode is not Opcode.VECTOR:
        return False
    kinds = Kind.__members__.values()
    if x["operation"] not in Operation.__members__.values():
        return True
    if x["a_kind"] not in kinds or x["b_kind"] not in kinds:
        return True
    return Operation(x["operation"]).reduces and x["a_kind"] != Kind.TENSOR


def _bad_mantissa(formats: Formats, x: Instruction) -> bool:
    match x.opcode:
        case Opcode.CONFIGURE:
            return max(x["source_mantissa"], x["result_mantissa"]) > MAX_MANTISSA_BITS
        case Opcode.GEMM:
            return formats.source == 0
        case Opcode.COMPRESS:
            return formats.result == 0
    return False


def _scalar_registers(x: Instruction) -> list[int]:
    """Numbers of the scalar registers that a vector instruction reads or writes."""
    if x.opcode is not Opcode.VECTOR:
        return []
    operation = Operation(x["operation"])
    numbers = [x["a"]] if x["a_kind"] == Kind.SCALAR else []
    if operation.takes_b and x["b_kind"] == Kind.SCALAR:
        numbers.append(x["b"])
    if operation.reduces or works_on_scalars(x):
        numbers.append(x["destination"])
    return numbers
