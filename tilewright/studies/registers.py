"""Registers of an accelerator: SystemRDL, PeakRDL's IP-XACT and C header of it, and a driver in C.

The driver has sizes, codes, and how a program or a tile is run. It is C11 and C++, and takes a
pointer to the accelerator's registers. A processor of 64 bits accesses them whole; one of 32 bits
by halves, the low one first, for a bus that joins them (``tilewright.hw.soc.register_halves``).
"""

import json
from collections.abc import Iterable, Iterator
from enum import IntEnum
from importlib.metadata import version
from pathlib import Path
from string import Template

from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic
from tilewright.golden.params import anda_machine, deca, harmonia_machine
from tilewright.golden.params.block import BlockParams, Field
from tilewright.golden.params.describe import comments
from tilewright.golden.params.registers import REGISTER_BYTES, Register, RegisterGroup
from tilewright.golden.params.resolve import resolve


def write_registers(block: str, folder: Path) -> list[Path]:
    """Write SystemRDL, IP-XACT, PeakRDL's C header and the driver of ``block`` on top of it."""
    params = resolve(block)
    text = system_rdl(params)
    try:
        from peakrdl_cheader.exporter import CHeaderExporter
        from peakrdl_ipxact import IPXACTExporter
        from systemrdl import RDLCompiler
    except ModuleNotFoundError as error:
        raise CommandError(
            f"{error.name} is missing: pip install 'tilewright[registers]'"
        ) from None
    names = ("{}.rdl", "{}.xml", "{}_registers.h", "{}.h")
    folder.mkdir(parents=True, exist_ok=True)
    rdl, xml, header, driver = (folder / name.format(params.slug) for name in names)
    write_atomic(rdl, text)
    write_atomic(driver, driver_header(params))
    compiler = RDLCompiler()
    compiler.compile_file(str(rdl))
    root = compiler.elaborate()
    about = {"vendor": "tilewright", "library": "tilewright", "version": version("tilewright")}
    IPXACTExporter(**about).export(root.top, str(xml))
    CHeaderExporter().export(root, str(header))
    return [rdl, xml, header, driver]


def system_rdl(params: BlockParams) -> str:
    """SystemRDL 2.0 of the registers of anda, harmonia or deca, with or without AXI."""
    registers = sorted(params.registers, key=lambda entry: entry.offset)
    if not registers:
        raise ValueError(f"{params.block} has no registers; anda, harmonia and deca have")
    lines = [f"// Registers of {params.slug}."]
    for entry in registers:
        for register in entry.registers if isinstance(entry, RegisterGroup) else (entry,):
            lines += _codes(register)
    lines += [f"addrmap {params.block} {{", f"    name = {json.dumps(params.summary)};"]
    bits = 8 * REGISTER_BYTES
    lines.append(f"    default regwidth = {bits}; default accesswidth = {bits};")
    for entry in registers:
        lines += [f"    {line}" for line in _component(entry)]
    return "\n".join([*lines, "};", ""])


def _codes(register: Register) -> Iterator[str]:
    if register.codes:
        meanings = comments(type(register.codes[0]))
        yield "enum error_code {"
        for code in register.codes:
            yield f"    {code.name} = {int(code)} {{ desc = {json.dumps(meanings[code.name])}; }};"
        yield "};"


def _component(entry: Register | RegisterGroup) -> Iterator[str]:
    if isinstance(entry, RegisterGroup):
        yield "regfile {"
        inner = [line for register in entry.registers for line in _component(register)]
        place = f"[{entry.count}] @ {entry.offset:#x} += {entry.stride:#x}"
    else:
        yield "reg {"
        inner = list(_fields(entry))
        place = f" @ {entry.offset:#x}"
        if entry.count > 1:
            place = f"[{entry.count}]{place} += {REGISTER_BYTES:#x}"
    if entry.meaning:
        yield f"    desc = {json.dumps(entry.meaning)};"
    yield from (f"    {line}" for line in inner)
    yield f"}} {entry.name}{place};"


def _fields(register: Register) -> Iterator[str]:
    """Fields that are only read may share bits with fields that are only written."""
    for fields, access in ((register.read, "r"), (register.write, "w")):
        at = 0
        for field in fields:
            both = field in register.read and field in register.write
            if field.name != "reserved" and not (both and access == "w"):
                yield _field(register, field, at, "rw" if both else access)
            at += field.bits


def _field(register: Register, field: Field, at: int, access: str) -> str:
    properties = [f"sw = {access};", f"hw = {'r' if access == 'w' else 'w'};"]
    if access == "rw" and not register.clears:
        properties[1] = "hw = r;"
    if register.clears:
        properties.append("woclr;")
    if register.codes and field.name == "error":
        properties.append("encode = error_code;")
    reset = f" = {register.reset:#x}" if access == "rw" and register.count == 1 else ""
    return f"field {{ {' '.join(properties)} }} {field.name}[{at + field.bits - 1}:{at}]{reset};"


_MACHINES = {"anda": anda_machine, "harmonia": harmonia_machine}


def driver_header(params: BlockParams) -> str:
    """Return the header of anda, harmonia or deca, with or without AXI, of any size."""
    interrupts = any(entry.name == "INTERRUPT" for entry in params.registers)
    guard = f"TILEWRIGHT_{params.slug.upper()}_H"
    name = params.block.split("_")[0]
    lines = [
        f"/* {params.slug}: {params.summary}.",
        "   Registers have 64 bits; where pointers have 32, low halves go first. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        f'#include "{params.slug}_registers.h"',
        "",
        *(_machine(name, params) if name in _MACHINES else _deca(params)),
        *(_functions("interrupts.h", name, params) if interrupts else ()),
        "",
        f"#endif /* {guard} */",
        "",
    ]
    return "\n".join(lines)


def _defines(prefix: str, codes: Iterable[IntEnum]) -> Iterator[str]:
    yield from (f"#define {prefix}_{code.name} {int(code):#x}" for code in codes)


def _size(prefix: str, params: BlockParams) -> Iterator[str]:
    for field, value in params.as_dict().items():
        if isinstance(value, int) and not isinstance(value, bool):
            yield f"#define {prefix}_{field.upper()} {value}"


def _functions(file: str, name: str, params: BlockParams) -> Iterator[str]:
    """Functions of a file of ``driver``, for the accelerator ``name``."""
    text = Path(__file__).with_name("driver").joinpath(file).read_text(encoding="utf-8")
    block = params.block
    words = {"name": name, "up": name.upper(), "block": block, "fields": block.upper()}
    yield "\n" + Template(text).substitute(words).rstrip("\n")


def _machine(name: str, params: BlockParams) -> Iterator[str]:
    declared, up = _MACHINES[name], name.upper()
    yield "/* Size. */"
    yield from _size(up, params)
    yield "\n/* Why a program stopped. */"
    yield from _defines(f"{up}_ERROR", declared.ERRORS)
    yield "\n/* Counters. */"
    yield from _defines(f"{up}_COUNTER", declared.Counter)
    yield "\n/* Opcodes, the lowest bits of an instruction of 128. */"
    yield from _defines(f"{up}_OPCODE", declared.Opcode)
    yield from _functions("accesses.h", name, params)
    yield from _functions("machine.h", name, params)


def _deca(params: BlockParams) -> Iterator[str]:
    yield "/* Size. */"
    yield from _size("DECA", params)
    yield "\n/* How a tile ended. */"
    yield from _defines("DECA_ERROR", deca.TileError)
    yield from _functions("accesses.h", "deca", params)
    yield from _functions("deca.h", "deca", params)
