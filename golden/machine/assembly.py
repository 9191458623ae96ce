"""Text to instructions and back, for any set of opcodes.

A line is ``NAME operand, operand, ...``; ``;`` starts a comment; numbers are decimal or 0x.... An
instruction's fields are written ``field=value``; a choice (of a memory, of a kind of operand) may
be given first, by name. Operands of vector operations are ``rN`` (the row of an fp16 tensor),
``sN`` (a scalar register) and ``#value`` (the nearest fp16 constant). An operation that gives a
tensor and its sum names the register of the sum, ``total=sN``.

``loop count=8, i1=4, i2=-64`` repeats the lines up to its ``end``, or with ``body=N`` the next N
instructions, and adds i1, i2 and i3 to the index registers with each iteration. An address names
the index register that is added to it: ``line=0x100+i1``, ``r64+i2``.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Generic, TypeVar

from tilewright.golden.bits import decode as decode_float
from tilewright.golden.bits import encode
from tilewright.golden.machine.instruction import ONE, BaseInstruction, works_on_scalars
from tilewright.golden.machine.loops import signed
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import INDEX_SUFFIX, INDICES, STRIDE_BITS, Kind
from tilewright.golden.params.vector import Operation, VectorParams

_END = "end"  # of a loop without ``body``
_INDEX = re.compile(rf"(.+?)\s*\+\s*i([1-{INDICES}])")
_LOOP_SPELLING = {f"i{k}": f"stride{k}" for k in range(1, INDICES + 1)}
_KINDS = {"r": Kind.TENSOR, "s": Kind.SCALAR, "#": Kind.IMMEDIATE}

AnyInstruction = TypeVar("AnyInstruction", bound=BaseInstruction)


class AssemblyError(ValueError):
    """A line that is not an instruction; the text begins with its number."""


def instruction_lines(text: str) -> list[int]:
    """The number of the line of every instruction of a program's text."""
    return [number for number, code in code_lines(text) if code != _END]


def code_lines(text: str) -> list[tuple[int, str]]:
    """The instructions of a program's text, without comments, each with the number of its line."""
    lines = enumerate((line.partition(";")[0].strip() for line in text.splitlines()), 1)
    return [(number, code) for number, code in lines if code]


@dataclass(frozen=True)
class Assembler(Generic[AnyInstruction]):
    """The language of one instruction set."""

    instruction: type[AnyInstruction]
    leading: Mapping[Any, tuple[str, type[IntEnum]]]  # the field given by a leading name, by opcode
    spelling: Mapping[str, str] = field(default_factory=dict)  # of fields: as written, as declared
    choices: Mapping[str, type[IntEnum]] = field(default_factory=dict)  # settings given by name
    vector_settings: tuple[str, ...] = ()  # further fields of vector operations, 0 if left out
    vector_operations: tuple[Operation, ...] = VectorParams().operations
    # Further fields of operations that give several sums, and their values if left out.
    attention_settings: Mapping[str, int] = field(default_factory=dict)

    def assemble(self, text: str) -> list[AnyInstruction]:
        """The instructions of a program."""
        program: list[AnyInstruction] = []
        open_loops: list[tuple[int, int]] = []  # that wait for their end: line, instruction
        for number, code in code_lines(text):
            try:
                if code == _END:
                    self._close(program, open_loops)
                    continue
                program.append(self._parse(code))
            except ValueError as problem:
                raise AssemblyError(f"line {number}: {problem}") from None
            if program[-1].opcode.name == "LOOP" and not program[-1]["body"]:
                open_loops.append((number, len(program) - 1))
        if open_loops:
            raise AssemblyError(f"line {open_loops[-1][0]}: loop lacks its end")
        return program

    def _close(self, program: list[AnyInstruction], open_loops: list[tuple[int, int]]) -> None:
        """The end of the innermost loop: now its length is known."""
        if not open_loops:
            raise ValueError("end without a loop")
        _, place = open_loops.pop()
        body = len(program) - place - 1
        if not body:
            raise ValueError("a loop without instructions")
        loop = program[place]
        program[place] = type(loop)(loop.opcode, loop.fields | {"body": body})

    def disassemble(self, program: Iterable[AnyInstruction | int]) -> str:
        """Text that :meth:`assemble` reads as the same instructions; words are decoded first."""
        lines = []
        for item in program:
            instruction = self.instruction.decode(item) if isinstance(item, int) else item
            if instruction is None:
                raise ValueError(f"{item:#x} has an unknown opcode")
            lines.append(self._text(instruction) + "\n")
        return "".join(lines)

    def _parse(self, code: str) -> AnyInstruction:
        name, _, rest = code.partition(" ")
        operands = [word.strip() for word in rest.split(",")] if rest.strip() else []
        operations = {operation.name.lower(): operation for operation in self.vector_operations}
        if name in operations:
            return self._vector(operations[name], operands)
        declared = self.instruction.FIELDS
        opcodes = {o.name.lower(): o for o in declared if o is not self._vector_opcode}
        if name not in opcodes:
            known = ", ".join([*opcodes, *operations])
            raise ValueError(f"unknown instruction {name!r}; known: {known}")
        opcode = opcodes[name]
        fields = dict(self.instruction.DEFAULTS.get(opcode, {}))
        if opcode.name == "LOOP":
            fields = dict.fromkeys(("body", *_LOOP_SPELLING.values()), 0)
        chosen = None
        if opcode in self.leading:
            chosen, names = self.leading[opcode]
            fields[chosen] = _choice(chosen, names, operands.pop(0) if operands else "")
        allowed = {f.name for f in declared[opcode] if not f.name.endswith(INDEX_SUFFIX)}
        moved = {f.name for f in declared[opcode]} - allowed
        spelling = {**self.spelling, **_LOOP_SPELLING}
        for key, value in _settings(operands).items():
            target = key if key in allowed else spelling.get(key, key)
            if target not in allowed or target == chosen:
                raise ValueError(f"{name} has no operand {key!r}")
            if f"{target}{INDEX_SUFFIX}" in moved:
                value, fields[f"{target}{INDEX_SUFFIX}"] = _indexed(value)
            if target in _LOOP_SPELLING.values():
                fields[target] = _stride(key, value)
            elif target in self.choices:
                fields[target] = _choice(key, self.choices[target], value)
            else:
                fields[target] = _integer(key, value)
        missing = sorted(allowed - set(fields))
        if missing:
            raise ValueError(f"{name} lacks {', '.join(missing)}")
        return self.instruction(opcode, fields)

    @property
    def _vector_opcode(self) -> IntEnum:
        return next(o for o in self.instruction.FIELDS if o.name == "VECTOR")

    def _vector(self, operation: Operation, operands: list[str]) -> AnyInstruction:
        name = operation.name.lower()
        places = [word for word in operands if "=" not in word]
        settings = _settings(word for word in operands if "=" in word)
        want = 3 if operation.takes_b else 2
        if len(places) != want:
            raise ValueError(f"{name} takes {want} operands, not {len(places)}")
        fields = {"operation": int(operation), "scale": ONE}
        if operation.attends:
            fields |= self.attention_settings
        kinds = {}
        for place, text in zip(("destination", "a", "b"), places, strict=False):
            kinds[place], fields[place], fields[f"{place}{INDEX_SUFFIX}"] = _operand(text)
        destination_kind = kinds.pop("destination")
        fields |= {f"{place}_kind": int(kind) for place, kind in kinds.items()}
        if operation.keeps_sum:
            fields["total"] = _register("total", settings.pop("total", ""))
        known = {"elements", *self.vector_settings, *(["scale"] if operation.takes_scale else [])}
        known |= set(self.attention_settings if operation.attends else ())
        for key, value in settings.items():
            if key not in known:
                raise ValueError(f"{name} has no operand {key!r}")
            fields[key] = _constant(value) if key == "scale" else _integer(key, value)
        instruction = self.instruction(self._vector_opcode, fields)
        scalar = operation.reduces or works_on_scalars(instruction)
        if destination_kind is not (Kind.SCALAR if scalar else Kind.TENSOR):
            kind = "a scalar" if scalar else "a tensor"
            raise ValueError(f"{name} writes {kind}, not {places[0]}")
        if "elements" not in settings and not works_on_scalars(instruction):
            raise ValueError(f"{name} lacks elements")
        return instruction

    def _text(self, x: AnyInstruction) -> str:
        if x.opcode is self._vector_opcode:
            return self._vector_text(x)
        spelling = {**self.spelling, **_LOOP_SPELLING}
        written = {target: short for short, target in spelling.items()}
        chosen, names = self.leading.get(x.opcode, (None, None))
        words = [names(x[chosen]).name.lower()] if chosen and names else []
        for key, value in x.fields.items():
            if key != chosen and not key.endswith(INDEX_SUFFIX):
                shown = self.choices[key](value).name.lower() if key in self.choices else value
                if key in _LOOP_SPELLING.values():
                    shown = signed(value)
                index = _index_text(x.fields.get(f"{key}{INDEX_SUFFIX}", 0))
                words.append(f"{written.get(key, key)}={shown}{index}")
        return f"{x.opcode.name.lower()} {', '.join(words)}".strip()

    def _vector_text(self, x: AnyInstruction) -> str:
        operation = Operation(x["operation"])
        if operation not in self.vector_operations:
            raise ValueError(f"the vector unit has no operation {operation.name.lower()}")
        scalars = works_on_scalars(x)
        letter = "s" if operation.reduces or scalars else "r"
        index = _index_text(x[f"destination{INDEX_SUFFIX}"])
        words = [f"{letter}{x['destination']}{index}", _operand_text(x, "a")]
        if operation.takes_b:
            words.append(_operand_text(x, "b"))
        if not scalars:
            words.append(f"elements={x['elements']}")
        if operation.takes_scale:
            words.append(f"scale={_number(x['scale'])}")
        if operation.keeps_sum:
            words.append(f"total=s{x['total']}")
        words += [f"{key}={x[key]}" for key in self.vector_settings if x[key]]
        if operation.attends:
            known = self.attention_settings.items()
            words += [f"{key}={x[key]}" for key, default in known if default or x[key]]
        return f"{operation.name.lower()} {', '.join(words)}"


def _settings(words: Iterable[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = (part.strip() for part in word.partition("="))
        if not equals:
            raise ValueError(f"expected NAME=VALUE, not {word!r}")
        if key in given:
            raise ValueError(f"{key} is given twice")
        given[key] = value
    return given


def _choice(name: str, choices: type[IntEnum], text: str) -> int:
    known = {choice.name.lower(): choice for choice in choices}
    if text not in known:
        raise ValueError(f"unknown {name} {text!r}; known: {', '.join(known)}")
    return int(known[text])


def _integer(name: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"{name} must be a whole number, not {text!r}") from None


def _register(name: str, text: str) -> int:
    """The number of a scalar register."""
    if text[:1] != "s" or not text[1:].isdigit():
        raise ValueError(f"{name} must be a scalar register sN, not {text!r}")
    return int(text[1:])


def _constant(text: str) -> int:
    try:
        return int(encode(FP16, float(text)))
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def _stride(name: str, text: str) -> int:
    value, most = _integer(name, text), 1 << (STRIDE_BITS - 1)
    if not -most <= value < most:
        raise ValueError(f"{name} must be {-most}..{most - 1}, not {value}")
    return value % (1 << STRIDE_BITS)


def _indexed(text: str) -> tuple[str, int]:
    """An address without its index register, and that register; 0: none."""
    found = _INDEX.fullmatch(text)
    return (found[1], int(found[2])) if found else (text, 0)


def _index_text(index: int) -> str:
    return f"+i{index}" if index else ""


def _operand(text: str) -> tuple[Kind, int, int]:
    """Its kind, its value and its index register."""
    kind = _KINDS.get(text[:1])
    if kind is Kind.IMMEDIATE:
        return kind, _constant(text[1:]), 0
    text, index = _indexed(text)
    if kind is None or not text[1:].isdigit():
        raise ValueError(f"an operand is rROW, sREGISTER or #VALUE, not {text!r}")
    return kind, int(text[1:]), index


def _operand_text(x: BaseInstruction, name: str) -> str:
    kind, value = x[f"{name}_kind"], x[name]
    if kind == Kind.IMMEDIATE:
        return f"#{_number(value)}"
    return f"{'rs'[kind]}{value}{_index_text(x[f'{name}{INDEX_SUFFIX}'])}"


def _number(bits: int) -> str:
    return repr(float(decode_float(FP16, bits)))
