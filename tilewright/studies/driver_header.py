"""A C header for who drives an accelerator: registers, fields, codes, and how a program is run.

Everything in it comes from the declarations that the hardware is built from. It is C99 and C++,
needs ``stdint.h`` alone, and takes a pointer to the accelerator's registers. A processor of 64 bits
accesses them whole; one of 32 bits by halves, the low one first, for a bus that joins them
(``tilewright.hw.soc.register_halves``).
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum

from tilewright.golden.params import anda_machine, deca, harmonia_machine, machine
from tilewright.golden.params.block import BlockParams, Field
from tilewright.golden.params.resolve import resolve

__all__ = ["driver_header"]

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
    yield from _accesses(name)
    yield f"""
/* Write a program of `count` instructions of two words each, low half first. */
static inline void {name}_load_program(volatile uint64_t *registers, const uint64_t *words,
                                       unsigned count)
{{
    for (unsigned k = 0; k < 2 * count; k++)
        {name}_write(registers, {up}_INSTRUCTION_BASE + 8 * k, words[k]);
}}

/* Clear counters and status, and start the program in the instruction memory. */
static inline void {name}_start(volatile uint64_t *registers)
{{
    {name}_write(registers, {up}_CONTROL, 1ull << {up}_CONTROL_START_SHIFT);
}}

/* Start a program that lies in external memory, from line `line` on. */
static inline void {name}_start_stream(volatile uint64_t *registers, uint64_t line)
{{
    {name}_write(registers, {up}_CONTROL, 1ull << {up}_CONTROL_START_SHIFT
        | 1ull << {up}_CONTROL_STREAM_SHIFT | line << {up}_CONTROL_LINE_SHIFT);
}}

/* Wait for the end of a program; {up}_ERROR_NONE if it halted. */
static inline unsigned {name}_wait(volatile uint64_t *registers)
{{
    uint64_t status;
    do
        status = {name}_read(registers, {up}_STATUS);
    while (!(status >> {up}_STATUS_DONE_SHIFT & 1));
    return (unsigned)(status >> {up}_STATUS_ERROR_SHIFT & {up}_STATUS_ERROR_MASK);
}}

/* One of {up}_COUNTER_...; CYCLES are from the start of the last program to its halt. */
static inline uint64_t {name}_counter(volatile uint64_t *registers, unsigned number)
{{
    return {name}_read(registers, {up}_COUNTERS + 8 * number);
}}"""


def _accesses(name: str) -> Iterator[str]:
    """Reads and writes of registers; a bus of 32 bits joins halves that come in order."""
    yield f"""
/* Read the register at a byte offset. */
static inline uint64_t {name}_read(volatile uint64_t *registers, unsigned offset)
{{
#if UINTPTR_MAX > 0xffffffffu
    return registers[offset / 8];
#else
    volatile uint32_t *half = (volatile uint32_t *)registers + offset / 4;
    uint64_t low = half[0];
    return low | (uint64_t)half[1] << 32;
#endif
}}

/* Write the register at a byte offset. */
static inline void {name}_write(volatile uint64_t *registers, unsigned offset, uint64_t value)
{{
#if UINTPTR_MAX > 0xffffffffu
    registers[offset / 8] = value;
#else
    volatile uint32_t *half = (volatile uint32_t *)registers + offset / 4;
    half[0] = (uint32_t)value;
    half[1] = (uint32_t)(value >> 32);
#endif
}}"""


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
    yield from _accesses("deca")
    yield """
/* Byte offset of a register of a loader. */
static inline unsigned deca_loader(unsigned loader, unsigned offset)
{
    return DECA_LOADER + loader * DECA_LOADER_STRIDE + offset;
}

/* Wait for a tile's result, take it, and return how it ended. */
static inline unsigned deca_wait(volatile uint64_t *registers, unsigned loader)
{
    unsigned status = deca_loader(loader, DECA_LOADER_STATUS);
    uint64_t now;
    do
        now = deca_read(registers, status);
    while (!(now >> DECA_STATUS_DONE_SHIFT & 1));
    deca_write(registers, status, 2); /* takes the result */
    return (unsigned)(now >> DECA_STATUS_ERROR_SHIFT & DECA_STATUS_ERROR_MASK);
}"""
