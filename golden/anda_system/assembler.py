"""Text to instructions and back.

A line is ``NAME operand, operand, ...``; ``;`` starts a comment; numbers are decimal or 0x...:

    configure source=5, result=0
    load activations, row=0, rows=12, line=0x40        ; stride=1 unless said
    load exponents, row=0, rows=2, line=0x80, stride=6
    wait
    gemm source=0, weights=0, scales=0, destination=64, inputs=32, outputs=20
    sum s0, r64, elements=20, scale=0.05               ; a reduction into scalar register 0
    add s0, s0, #1e-3                                  ; scalars alone
    multiply r96, r64, s0, elements=20                 ; a tensor times its row's scalar
    compress source=96, destination=0, elements=20
    store activations, row=96, rows=32, line=0x100
    halt

Operands of vector operations are ``rN`` (the row of an fp16 tensor), ``sN`` (a scalar register)
and ``#value`` (an fp16 constant, the nearest one).
"""

from collections.abc import Iterable

from golden.anda_system.isa import Instruction, decode, works_on_scalars
from golden.bits import decode as decode_float
from golden.bits import encode
from golden.params.anda_system import INSTRUCTION_FIELDS, Kind, Memory, Opcode
from golden.params.anda_vector import Operation
from golden.params.formats import FP16

ONE = int(encode(FP16, 1.0))
_CONFIGURE = {"source": "source_mantissa", "result": "result_mantissa"}
_OPERATIONS = {operation.name.lower(): operation for operation in Operation}
_KINDS = {"r": Kind.TENSOR, "s": Kind.SCALAR, "#": Kind.IMMEDIATE}


class AssemblyError(ValueError):
    """A line that is no instruction; the text begins with its number."""


def assemble(text: str) -> list[Instruction]:
    """The instructions of a program."""
    program = []
    for number, line in enumerate(text.splitlines(), 1):
        code = line.partition(";")[0].strip()
        if code:
            try:
                program.append(_parse(code))
            except ValueError as problem:
                raise AssemblyError(f"line {number}: {problem}") from None
    return program


def disassemble(program: Iterable[Instruction | int]) -> str:
    """Text that :func:`assemble` reads as the same instructions; words are decoded first."""
    lines = []
    for item in program:
        instruction = decode(item) if isinstance(item, int) else item
        if instruction is None:
            raise ValueError(f"{item:#x} has an unknown opcode")
        lines.append(_text(instruction) + "\n")
    return "".join(lines)


def _parse(code: str) -> Instruction:
    name, _, rest = code.partition(" ")
    operands = [word.strip() for word in rest.split(",")] if rest.strip() else []
    if name in _OPERATIONS:
        return _vector(_OPERATIONS[name], operands)
    opcodes = {o.name.lower(): o for o in Opcode if o is not Opcode.VECTOR}
    if name not in opcodes:
        known = ", ".join([*opcodes, *_OPERATIONS])
        raise ValueError(f"unknown instruction {name!r}; known: {known}")
    opcode = opcodes[name]
    fields = {}
    if opcode in (Opcode.LOAD, Opcode.STORE):
        fields["stride"] = 1
        memories = {m.name.lower(): m for m in Memory}
        memory = operands.pop(0) if operands else ""
        if memory not in memories:
            raise ValueError(f"unknown memory {memory!r}; known: {', '.join(memories)}")
        fields["memory"] = int(memories[memory])
    spelling = _CONFIGURE if opcode is Opcode.CONFIGURE else {}
    given = _settings(operands)
    allowed = {f.name for f in INSTRUCTION_FIELDS[opcode]}
    for key, value in given.items():
        field = spelling.get(key, key)
        if field not in allowed or field == "memory":
            raise ValueError(f"{name} has no operand {key!r}")
        fields[field] = _integer(key, value)
    missing = sorted(allowed - set(fields))
    if missing:
        raise ValueError(f"{name} lacks {', '.join(missing)}")
    return Instruction(opcode, fields)


def _vector(operation: Operation, operands: list[str]) -> Instruction:
    name = operation.name.lower()
    places = [word for word in operands if "=" not in word]
    settings = _settings(word for word in operands if "=" in word)
    want = 3 if operation.takes_b else 2
    if len(places) != want:
        raise ValueError(f"{name} takes {want} operands, not {len(places)}")
    destination_kind, destination = _operand(places[0])
    a_kind, a = _operand(places[1])
    b_kind, b = _operand(places[2]) if operation.takes_b else (Kind.TENSOR, 0)
    for key in settings:
        if key != "elements" and not (key == "scale" and operation.takes_scale):
            raise ValueError(f"{name} has no operand {key!r}")
    instruction = Instruction(
        Opcode.VECTOR,
        {
            "operation": int(operation),
            "a_kind": int(a_kind),
            "b_kind": int(b_kind),
            "a": a,
            "b": b,
            "destination": destination,
            "elements": _integer("elements", settings.get("elements", "0")),
            "scale": _constant(settings["scale"]) if "scale" in settings else ONE,
        },
    )
    scalar = operation.reduces or works_on_scalars(instruction)
    if destination_kind is not (Kind.SCALAR if scalar else Kind.TENSOR):
        raise ValueError(f"{name} writes {'a scalar' if scalar else 'a tensor'}, not {places[0]}")
    if "elements" not in settings and not works_on_scalars(instruction):
        raise ValueError(f"{name} lacks elements")
    return instruction


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


def _integer(name: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"{name} must be a whole number, not {text!r}") from None


def _constant(text: str) -> int:
    try:
        return int(encode(FP16, float(text)))
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def _operand(text: str) -> tuple[Kind, int]:
    kind = _KINDS.get(text[:1])
    if kind is Kind.IMMEDIATE:
        return kind, _constant(text[1:])
    if kind is None or not text[1:].isdigit():
        raise ValueError(f"an operand is rROW, sREGISTER or #VALUE, not {text!r}")
    return kind, int(text[1:])


def _text(x: Instruction) -> str:
    name = x.opcode.name.lower()
    if x.opcode is Opcode.VECTOR:
        return _vector_text(x)
    names = {field: short for short, field in _CONFIGURE.items()}
    words = [Memory(x["memory"]).name.lower()] if "memory" in x.fields else []
    words += [f"{names.get(k, k)}={v}" for k, v in x.fields.items() if k != "memory"]
    return f"{name} {', '.join(words)}".strip()


def _vector_text(x: Instruction) -> str:
    operation = Operation(x["operation"])
    scalars = works_on_scalars(x)
    letter = "s" if operation.reduces or scalars else "r"
    words = [f"{letter}{x['destination']}", _operand_text(x["a_kind"], x["a"])]
    if operation.takes_b:
        words.append(_operand_text(x["b_kind"], x["b"]))
    if not scalars:
        words.append(f"elements={x['elements']}")
    if operation.takes_scale:
        words.append(f"scale={_number(x['scale'])}")
    return f"{operation.name.lower()} {', '.join(words)}"


def _operand_text(kind: int, value: int) -> str:
    return f"#{_number(value)}" if kind == Kind.IMMEDIATE else f"{'rs'[kind]}{value}"


def _number(bits: int) -> str:
    return repr(float(decode_float(FP16, bits)))
