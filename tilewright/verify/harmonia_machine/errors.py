"""Wrong instructions stop the machine with golden's code and number, and the next program runs."""

from typing import Any

import cocotb

from tilewright.golden.harmonia_machine.assembler import assemble
from tilewright.golden.harmonia_machine.isa import Instruction, check, decode
from tilewright.golden.params.harmonia_machine import (
    COUNT_FIELD,
    INSTRUCTION_FIELDS,
    HarmoniaParams,
    Memory,
    Operand,
)
from tilewright.golden.params.machine import SCALARS, Error
from tilewright.verify.machine.errors import (
    BAD_LINE,
    LINES,
    check_errors,
    check_last_rows,
    check_random_words,
    stopping_programs,
)

__all__ = ["every_error", "last_rows_are_usable", "random_words"]


def wrong_programs(params: HarmoniaParams) -> dict[str, tuple[list, Error]]:
    """Programs by what is wrong with them."""
    p = params
    activations, halves, operands = p.activation_rows, p.halves_rows, p.operand_rows
    keys, values = (p.low_slots(operand) for operand in (Operand.KEYS, Operand.VALUES))
    words = p.converter.loops  # rows of one word of every token tile of a group of values
    texts = {
        "load beyond the mantissas": (_move("mantissas", activations - 1, 2), Error.ADDRESS),
        "load beyond the fp16 memory": (_move("fp16", halves, 1), Error.ADDRESS),
        "load beyond the operands": (_move("operands", operands - 1, 2), Error.ADDRESS),
        "load beyond the scales": (_move("scales", operands, 1), Error.ADDRESS),
        "load spread from no bank": (
            _move("fp16", 0, 1) + f", spread={p.rows + 1}",
            Error.OPERAND,
        ),
        "load of scales that are spread": (_move("scales", 0, 1) + ", spread=1", Error.OPERAND),
        "load of no rows": (_move("signs", 0, 0), Error.SIZE),
        "store of scales": (_move("scales", 0, 1, "store"), Error.OPERAND),
        "store beyond the exponents": (_move("exponents", activations, 1, "store"), Error.ADDRESS),
        "gemm without groups": (_gemm("weights", groups=0), Error.SIZE),
        "gemm without tiles": (_gemm("keys", tiles=0), Error.SIZE),
        "gemm without token tiles": (_gemm("values", token_tiles=0), Error.SIZE),
        "gemm with too many maxima": (
            _gemm("weights", token_tiles=SCALARS + 1, maxima=1),
            Error.SIZE,
        ),
        "gemm beyond its source": (_gemm("weights", source=activations), Error.ADDRESS),
        "gemm beyond its source, two tiles": (
            _gemm("weights", source=activations - 1, token_tiles=2),
            Error.ADDRESS,
        ),
        "gemm beyond its result": (
            _gemm("weights", destination=halves - p.tile_words + 1),
            Error.ADDRESS,
        ),
        "gemm beyond the operands": (_gemm("keys", operands=operands), Error.ADDRESS),
        "gemm beyond the metadata": (
            _gemm("values", metadata=operands - 1, tiles=2),
            Error.ADDRESS,
        ),
        "gemm beyond the low keys": (_gemm("keys", low_halves=operands - keys + 1), Error.ADDRESS),
        "gemm beyond the low keys, two groups": (
            _gemm("keys", low_halves=operands - 2 * keys + 1, groups=2),
            Error.ADDRESS,
        ),
        "gemm beyond the low values": (
            _gemm("values", low_halves=operands - 2 * values + 1, tiles=2),
            Error.ADDRESS,
        ),
        "convert of nothing": (_convert("activations", elements=0), Error.SIZE),
        "convert beyond its source": (_convert("activations", source=halves), Error.ADDRESS),
        "convert beyond the activations": (
            _convert("activations", destination=activations),
            Error.ADDRESS,
        ),
        "keys beyond the operands": (_convert("keys", destination=operands), Error.ADDRESS),
        "keys beyond the low halves": (_convert("keys", low_halves=operands), Error.ADDRESS),
        "keys beyond the metadata": (_convert("keys", metadata=operands), Error.ADDRESS),
        "keys of too many channels": (_convert("keys", elements=p.channels + 1), Error.ADDRESS),
        "keys of a part that is none": (_convert("keys", part=p.parts), Error.OPERAND),
        "values of no tokens": (_convert("values", tokens=0), Error.SIZE),
        "values of too many tokens": (_convert("values", tokens=p.group + 1), Error.SIZE),
        "values beyond their source": (
            _convert("values", source=halves - words + 1, tokens=1),
            Error.ADDRESS,
        ),
        "values beyond the operands": (
            _convert("values", destination=operands - 1, elements=p.columns + 1, tokens=1),
            Error.ADDRESS,
        ),
        "learn of nothing": ("learn source=0, elements=0, first=1", Error.SIZE),
        "learn beyond its source": (f"learn source={halves}, elements=1", Error.ADDRESS),
        "learn of too many channels": (f"learn source=0, elements={p.channels + 1}", Error.ADDRESS),
        "clear of nothing": ("clear low_halves=0, rows=0", Error.SIZE),
        "clear beyond the operands": (f"clear low_halves={operands - 1}, rows=2", Error.ADDRESS),
        "clear of a part that is none": (
            f"clear low_halves=0, rows=1, part={p.parts}",
            Error.OPERAND,
        ),
        "tiled gemm that keeps nothing": (_tiled_gemm(keep=0), Error.SIZE),
        "tiled gemm without groups": (_tiled_gemm(groups=0), Error.SIZE),
        "sum of nothing": ("sum s0, r0, elements=0", Error.SIZE),
        "add beyond a": (f"add r0, r{halves}, #1, elements=1", Error.ADDRESS),
        "add beyond b": (f"add r0, r0, r{halves - 1}, elements=5", Error.ADDRESS),
        "add beyond its result": (f"add r{halves}, r0, #1, elements=1", Error.ADDRESS),
        "scalar that is none": ("add s0, s8, #1", Error.ADDRESS),
        "sum into no scalar": ("sum s8, r0, elements=1", Error.ADDRESS),
        "load of a bad line": (_move("fp16", 0, 1, line=BAD_LINE), Error.BUS),
        "load beyond the memory": (_move("fp16", 0, 1, line=LINES), Error.BUS),
        "bad line beside other work": (
            _move("operands", 0, 1, line=BAD_LINE) + "\nadd s0, s0, #1\nwait",
            Error.BUS,
        ),
        "bad line, then a store": (
            _move("scales", 0, 1, line=BAD_LINE) + "\n" + _move("fp16", 0, 1, "store"),
            Error.BUS,
        ),
        "store to a bad line": (_move("fp16", 0, 1, "store", line=BAD_LINE), Error.BUS),
        # The first in the program is reported, whichever is found first.
        "bad store, then a bad load": (
            _move("fp16", 0, 32, "store", line=BAD_LINE)
            + "\n"
            + _move("operands", 0, 1, line=LINES),
            Error.BUS,
        ),
        "bad load, then a bad store": (
            _move("operands", 0, 64, line=BAD_LINE)
            + "\n"
            + _move("fp16", 0, 1, "store", line=LINES),
            Error.BUS,
        ),
        "bad line, then no instruction": (
            _move("operands", 0, 64, line=BAD_LINE) + "\nsum s0, r0, elements=0",
            Error.BUS,
        ),
        "bad line while all units work": (
            "\n".join(
                [
                    _move("operands", 0, 64, line=BAD_LINE),
                    f"exponential r{halves // 2}, r{halves // 2}, elements=64",
                    _convert("activations", source=halves - 16, elements=64),
                    _gemm("weights", source=activations - 1, operands=operands - 1, metadata=1024),
                    _move("fp16", halves // 2, 4, "store", line=20),
                ]
            ),
            Error.BUS,
        ),
        "tiled gemm from bad lines": (_tiled_gemm(source=LINES), Error.BUS),
    }
    if (groups := (1 << COUNT_FIELD) - 1) > operands:
        texts["tiled gemm of too many groups"] = (_tiled_gemm(groups=groups), Error.ADDRESS)
    (gemm,), (convert,) = assemble(_gemm("keys")), assemble(_convert("keys"))
    changed = {"operand 3": (gemm, "operand", 3), "conversion 3": (convert, "conversion", 3)}
    return stopping_programs(params, texts, changed, "configure lanes=1")


def _move(memory: str, row: int, rows: int, name: str = "load", line: int = 0) -> str:
    return f"{name} {memory}, row={row}, rows={rows}, line={line}"


def _text(name: str, fields: dict[str, int]) -> str:
    return name + ", ".join(f"{key}={value}" for key, value in fields.items())


def _gemm(operand: str, **changes: int) -> str:
    fields = dict.fromkeys(("source", "operands", "low_halves", "metadata", "destination"), 0)
    return _text(f"gemm {operand}, ", fields | {"groups": 1, "tiles": 1} | changes)


def _convert(conversion: str, **changes: int) -> str:
    fields = {"source": 0, "elements": 1, "destination": 0, "low_halves": 8, "metadata": 0}
    return _text(f"convert {conversion}, ", fields | changes)


def _tiled_gemm(**changes: int) -> str:
    fields = {"source": 0, "weights": 8, "destination": 16}
    sizes = dict.fromkeys(("groups", "tiles", "token_tiles", "keep"), 1)
    return _text("tiled_gemm ", fields | sizes | changes)


@cocotb.test
async def every_error(dut: Any) -> None:
    await check_errors(dut, wrong_programs)


def last_rows(params: HarmoniaParams) -> list[Instruction]:
    """Instructions whose ranges end exactly where the memories do."""
    p = params
    activations, halves, operands = p.activation_rows, p.halves_rows, p.operand_rows
    keys, values = (p.low_slots(operand) for operand in (Operand.KEYS, Operand.VALUES))
    loads = [_move(memory.name.lower(), p.depth(memory) - 1, 1) for memory in Memory]
    stores = [
        _move(memory.name.lower(), p.depth(memory) - 1, 1, "store", line=32 + 4 * memory)
        for memory in Memory
        if memory.stores
    ]
    last = {"metadata": operands - 1, "source": activations - 1}
    return assemble(
        "\n".join(
            [
                *loads,
                "wait",
                _gemm("weights", operands=operands - 1, destination=halves - p.tile_words, **last),
                _gemm("keys", operands=operands - 1, low_halves=operands - keys, **last),
                _gemm("values", operands=operands - 1, low_halves=operands - values, **last),
                _convert("activations", source=halves - 1, destination=activations - 1),
                _convert("keys", low_halves=operands - 1, part=p.parts - 1),
                _convert(
                    "keys", destination=operands - 1, metadata=operands - 1, low_halves=operands - 2
                ),
                _convert("values", source=halves - p.converter.loops, tokens=p.group),
                f"learn source={halves - 1}, elements=1, first=1, last=1",
                f"clear low_halves={operands - 1}, rows=1",
                f"add r0, r{halves - 1}, r{halves - 2}, elements=1",
                f"add r{halves - 1}, r0, #1, elements=1",
                f"sum s7, r{halves - 1}, elements=4",
                "add s7, s7, s7",
                *stores,
                "halt",
            ]
        )
    )


@cocotb.test
async def last_rows_are_usable(dut: Any) -> None:
    """Ends are errors from the first row behind them on, not before."""
    await check_last_rows(dut, last_rows)


@cocotb.test
async def random_words(dut: Any) -> None:
    await check_random_words(dut, _check, INSTRUCTION_FIELDS, _ends, kinds=4)


def _check(params: HarmoniaParams, word: int) -> Error:
    return check(params, decode(word))


def _ends(params: HarmoniaParams) -> tuple[int, ...]:
    return params.activation_rows, params.halves_rows, params.operand_rows
