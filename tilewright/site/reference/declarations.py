"""Tables of the reference that are made from the parameter objects: nothing is typed twice.

The comment after a number in the source says what it means, and is read from there.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from types import ModuleType
from typing import Any

from tilewright.golden.bits import decode
from tilewright.golden.deca import SCHEMES
from tilewright.golden.params import anda_machine, deca, harmonia_machine, machine, vector
from tilewright.golden.params.block import BlockParams, Field, Port
from tilewright.golden.params.describe import comments, field_rows
from tilewright.golden.params.formats import FLOAT_FORMATS
from tilewright.golden.params.registers import Register, RegisterGroup
from tilewright.golden.params.resolve import BLOCKS


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in (header, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


def field_list(fields: Iterable[Field]) -> str:
    shown = (f"`{f.name}` {f'{f.count} x ' if f.count else ''}{f.bits}" for f in fields)
    return ", ".join(shown) or "none"


def enumeration(cls: type[Enum], title: str, number: Callable[[Any], str] = str) -> str:
    meanings = comments(cls)
    rows = [[number(member.value), f"`{member.name}`", meanings[member.name]] for member in cls]
    return markdown_table([title, "name", "meaning"], rows)


def ports(params: BlockParams) -> str:
    def row(port: Port, way: str) -> list[str]:
        return [f"`{port.name}`", way, field_list(port.fields)]

    rows = [row(port, "in") for port in params.inputs] + [row(p, "out") for p in params.outputs]
    rows += [
        [f"`{wire.name}`", "out" if wire.output else "in", f"a wire of {wire.bits} bits"]
        for wire in params.wires
    ]
    return markdown_table(["port", "way", "payload: field, bits; the first one lowest"], rows)


def instruction_set(declared: ModuleType) -> str:
    """Instructions, counters and errors of an accelerator that runs programs."""
    meanings = comments(declared.Opcode)
    rows = [
        [int(opcode), f"`{opcode.name.lower()}`", meanings[opcode.name], field_list(fields)]
        for opcode, fields in declared.INSTRUCTION_FIELDS.items()
    ]
    header = ["opcode", "name", "what it does", "fields and their bits, the first above the opcode"]
    errors = comments(machine.Error)
    stops = [[int(e), f"`{e.name}`", errors[e.name]] for e in declared.ERRORS if e]
    parts = [
        ("Instructions", markdown_table(header, rows)),
        ("Memories", enumeration(declared.Memory, "number")),
        ("Counters", enumeration(declared.Counter, "number")),
        ("Errors", markdown_table(["code", "name", "when"], stops)),
    ]
    return "\n\n".join(f"### {title}\n\n{table}" for title, table in parts)


def vector_operations() -> str:
    return enumeration(vector.Operation, "code")


def machine_registers() -> str:
    found = BLOCKS["anda_axi"].preset().registers
    first = f"{machine.Register.COUNTERS:#06x}"
    counters = f"Counters follow from {first} on, 8 bytes each, in the order of their numbers."
    return f"{register_table(r for r in found if 'COUNTER_' not in r.name)}\n\n{counters}"


def deca_registers() -> str:
    found = BLOCKS["deca_axi"].preset().registers
    ends = enumeration(deca.TileError, "code")
    return f"{register_table(found)}\n\nA tile ends with one of these codes:\n\n{ends}"


def register_table(entries: Iterable[Register | RegisterGroup]) -> str:
    rows = []
    for entry in sorted(entries, key=lambda entry: entry.offset):
        if isinstance(entry, RegisterGroup):
            groups = [f"{entry.offset + k * entry.stride:#06x}" for k in range(entry.count)]
            rows.append([" or ".join(groups), f"`{entry.name}`", "", entry.meaning])
            rows += [_register(r, f"+ {r.offset:#04x}") for r in entry.registers]
        else:
            rows.append(_register(entry, f"{entry.offset:#06x}"))
    return markdown_table(["offset", "name", "fields and their bits", "meaning"], rows)


def _register(register: Register, place: str) -> list[str]:
    ways = {"read": register.read, "written": register.write}
    if register.read == register.write:
        ways = {"a 1 clears" if register.clears else "read and written": register.read}
    fields = "; ".join(f"{way}: {_bits(fields)}" for way, fields in ways.items() if fields)
    count = f", {register.count} of them" if register.count > 1 else ""
    return [place, f"`{register.name}`{count}", fields, register.meaning]


def _bits(fields: Iterable[Field]) -> str:
    parts, at = [], 0
    for field in fields:
        last = at + field.bits - 1
        if field.name != "reserved":
            parts.append(f"`{field.name}` {at if field.bits == 1 else f'{at}..{last}'}")
        at += field.bits
    return ", ".join(parts)


def float_formats() -> str:
    def row(name: str) -> list[Any]:
        f = FLOAT_FORMATS[name]
        largest, least = (f"{float(decode(f, bits)):.6g}" for bits in (f.max_finite_bits, 1))
        sizes = (f.bits, f.exponent_bits, f.mantissa_bits, f.bias)
        return [f"`{name}`", *sizes, f.specials.value, largest, least]

    header = ["format", "bits", "exponent", "mantissa", "bias", "specials", "largest", "smallest"]
    return markdown_table(header, map(row, FLOAT_FORMATS))


def weight_schemes() -> str:
    rows = [
        [f"`{name}`", c.code_bits, c.scale.value, c.group if c.scale.bytes else "none"]
        for name, scheme in SCHEMES.items()
        for c in [scheme.config]
    ]
    return markdown_table(["scheme", "bits of a code", "scale", "weights that share it"], rows)


def block_reference() -> str:
    return "\n\n".join(_block(cls) for _, cls in sorted(BLOCKS.items()))


def _block(cls: type[BlockParams]) -> str:
    params = cls.preset()
    rows = [
        [f"`{name}`", f"`{value}`", kind.replace("|", ", ")]
        for name, value, _, kind in field_rows(params)
    ]
    presets = ", ".join(f"`{name}`" for name in cls.PRESETS)
    summary = params.summary[0].upper() + params.summary[1:]
    parts = [
        f"## {params.block}",
        f"{summary}. Presets: {presets}. Contract: {{py:class}}`{cls.__module__}.{cls.__name__}`.",
        markdown_table(["field", "default", "values"], rows) if rows else "",
        ports(params),
    ]
    return "\n\n".join(filter(None, parts))


TABLES: dict[str, Callable[[], str]] = {
    "anda_instructions": lambda: instruction_set(anda_machine),
    "harmonia_instructions": lambda: instruction_set(harmonia_machine),
    "vector_operations": vector_operations,
    "machine_registers": machine_registers,
    "deca_registers": deca_registers,
    "float_formats": float_formats,
    "weight_schemes": weight_schemes,
    "blocks": block_reference,
}
