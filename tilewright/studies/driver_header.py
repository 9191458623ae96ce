"""A C header to drive an accelerator: sizes, codes, and how a program or a tile is run.

It includes the header of registers and fields that PeakRDL writes
(``tilewright.studies.registers``). It is C11 and C++, and takes a pointer to the accelerator's
registers. A processor of 64 bits accesses them whole; one of 32 bits by halves, the low one first,
for a bus that joins them (``tilewright.hw.soc.register_halves``).
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from pathlib import Path
from string import Template

from tilewright.golden.params import anda_machine, deca, harmonia_machine
from tilewright.golden.params.block import BlockParams

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


def _codes(prefix: str, codes: Iterable[IntEnum]) -> Iterator[str]:
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
    yield from _codes(f"{up}_ERROR", declared.ERRORS)
    yield "\n/* Counters. */"
    yield from _codes(f"{up}_COUNTER", declared.Counter)
    yield "\n/* Opcodes, the lowest bits of an instruction of 128. */"
    yield from _codes(f"{up}_OPCODE", declared.Opcode)
    yield from _functions("accesses.h", name, params)
    yield from _functions("machine.h", name, params)


def _deca(params: BlockParams) -> Iterator[str]:
    yield "/* Size. */"
    yield from _size("DECA", params)
    yield "\n/* How a tile ended. */"
    yield from _codes("DECA_ERROR", deca.TileError)
    yield from _functions("accesses.h", "deca", params)
    yield from _functions("deca.h", "deca", params)
