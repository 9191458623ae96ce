"""A C header for who drives an accelerator: registers, fields, codes, and how a program is run.

Everything in it comes from the declarations that the hardware is built from. It is C99 and C++,
needs ``stdint.h`` alone, and takes a pointer to the accelerator's registers. A processor of 64 bits
accesses them whole; one of 32 bits by halves, the low one first, for a bus that joins them
(``tilewright.hw.soc.register_halves``).
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from pathlib import Path
from string import Template

from tilewright.golden.params import anda_machine, deca, harmonia_machine, machine
from tilewright.golden.params.block import BlockParams, Field
from tilewright.golden.params.resolve import resolve

_MACHINES = {"anda": anda_machine, "harmonia": harmonia_machine}


def driver_header(block: str) -> str:
    """Return the header of ``block``: anda, harmonia or deca, with or without AXI, of any size."""
    params = resolve(block)
    name = params.block.removesuffix("_axi").removesuffix("_tepl")
    guard = f"TILEWRIGHT_{params.slug.upper()}_H"
    if name == "deca":
        body = _deca(params)
    elif name in _MACHINES and isinstance(params, machine.MachineParams):
        body = _machine(name, params)
    else:
        raise ValueError(f"{block} has no registers; anda, harmonia and deca have")
    lines = [
        f"/* {params.slug}: {params.summary}.",
        "   Registers have 64 bits; where pointers have 32, low halves go first. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        "",
        *body,
        "",
        f"#endif /* {guard} */",
        "",
    ]
    return "\n".join(lines)


def _codes(prefix: str, codes: Iterable[IntEnum]) -> Iterator[str]:
    yield from (f"#define {prefix}_{code.name} {int(code):#x}" for code in codes)


def _fields(prefix: str, fields: Iterable[Field]) -> Iterator[str]:
    """Shift and mask of every field; the mask is that of the shifted-down value."""
    lowest = 0
    for field in fields:
        name = f"{prefix}_{field.name.upper()}"
        yield f"#define {name}_SHIFT {lowest}"
        yield f"#define {name}_MASK {(1 << field.bits) - 1:#x}ull"
        lowest += field.total_bits


def _size(prefix: str, params: BlockParams) -> Iterator[str]:
    """Every parameter that is a number."""
    for field, value in params.as_dict().items():
        if isinstance(value, int) and not isinstance(value, bool):
            yield f"#define {prefix}_{field.upper()} {value}"


def _functions(file: str, name: str) -> Iterator[str]:
    """Functions of a file of ``driver``, for the accelerator ``name``."""
    text = Path(__file__).with_name("driver").joinpath(file).read_text(encoding="utf-8")
    yield "\n" + Template(text).substitute(name=name, up=name.upper()).rstrip("\n")


def _machine(name: str, params: machine.MachineParams) -> Iterator[str]:
    declared, up = _MACHINES[name], name.upper()
    yield "/* Size. */"
    yield from _size(up, params)
    yield "\n/* Registers of 64 bits, by byte offset. */"
    yield from _codes(up, machine.Register)
    yield f"#define {up}_INSTRUCTION_BASE {machine.INSTRUCTION_BASE:#x}"
    yield "\n/* Fields of CONTROL, to write, and of STATUS, to read. */"
    yield from _fields(f"{up}_CONTROL", machine.CONTROL_FIELDS)
    yield from _fields(f"{up}_STATUS", machine.STATUS_FIELDS)
    yield "\n/* Why a program stopped. */"
    yield from _codes(f"{up}_ERROR", declared.ERRORS)
    yield "\n/* Counters: the word COUNTERS / 8 + number. */"
    yield from _codes(f"{up}_COUNTER", declared.Counter)
    yield "\n/* Opcodes, the lowest bits of an instruction of 128. */"
    yield from _codes(f"{up}_OPCODE", declared.Opcode)
    yield from _functions("accesses.h", name)
    yield from _functions("machine.h", name)


def _deca(params: BlockParams) -> Iterator[str]:
    yield "/* Size. */"
    yield from _size("DECA", params)
    yield "\n/* Registers of 64 bits, by byte offset. */"
    yield from _codes("DECA", deca.Register)
    yield f"#define DECA_LOADER_STRIDE {deca.LOADER_STRIDE:#x}"
    yield f"#define DECA_AXI_TOUT {deca.AXI_TOUT:#x}"
    yield "\n/* Registers of a loader, behind DECA_LOADER + loader * DECA_LOADER_STRIDE. */"
    yield from _codes("DECA_LOADER", deca.LoaderRegister)
    yield "\n/* Fields of CONFIG, and of a loader's STATUS. */"
    yield from _fields("DECA_CONFIG", deca.CONFIG_FIELDS)
    yield from _fields("DECA_STATUS", deca.STATUS_FIELDS)
    yield "\n/* How a tile ended. */"
    yield from _codes("DECA_ERROR", deca.TileError)
    yield from _functions("accesses.h", "deca")
    yield from _functions("deca.h", "deca")
