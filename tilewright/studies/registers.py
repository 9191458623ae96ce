"""Registers of an accelerator as SystemRDL, and PeakRDL's output from it: IP-XACT, C headers."""

import json
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic
from tilewright.golden.params.block import BlockParams, Field
from tilewright.golden.params.describe import comments
from tilewright.golden.params.registers import REGISTER_BYTES, Register, RegisterGroup
from tilewright.golden.params.resolve import resolve
from tilewright.studies.driver_header import driver_header


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
    for register in _each(registers):
        lines += _codes(register)
    lines += [f"addrmap {params.block} {{", f"    name = {json.dumps(params.summary)};"]
    bits = 8 * REGISTER_BYTES
    lines.append(f"    default regwidth = {bits}; default accesswidth = {bits};")
    for entry in registers:
        lines += [f"    {line}" for line in _component(entry)]
    return "\n".join([*lines, "};", ""])


def _each(entries: Iterable[Register | RegisterGroup]) -> Iterator[Register]:
    for entry in entries:
        yield from entry.registers if isinstance(entry, RegisterGroup) else (entry,)


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
