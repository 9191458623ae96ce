"""Wrong instructions stop the machine with golden's code and number, and the next program runs."""

from typing import Any

import cocotb

from tilewright.golden.anda_machine.assembler import assemble
from tilewright.golden.anda_machine.isa import Formats, Instruction, check, decode
from tilewright.golden.params.anda_machine import INSTRUCTION_FIELDS, AndaParams
from tilewright.golden.params.machine import Error
from tilewright.verify.machine.errors import (
    BAD_LINE,
    LINES,
    check_errors,
    check_last_rows,
    check_random_words,
    stopping_programs,
)

__all__ = ["every_error", "last_rows_are_usable", "random_words"]


def wrong_programs(params: AndaParams) -> dict[str, tuple[list, Error]]:
    """Programs by what is wrong with them."""
    last, weights, scales = params.activation_rows, params.weight_rows, params.scale_rows
    texts = {
        "mantissa of the source": ("configure source=17, result=0", Error.MANTISSA),
        "mantissa of the result": ("configure source=16, result=31", Error.MANTISSA),
        "load beyond the buffer": (
            f"load activations, row={last - 1}, rows=2, line=0",
            Error.ADDRESS,
        ),
        "load with a long stride": (
            f"load exponents, row={last - 17}, rows=2, line=0, stride=17",
            Error.ADDRESS,
        ),
        "load beyond the weights": (f"load weights, row={weights}, rows=1, line=0", Error.ADDRESS),
        "load beyond the scales": (f"load scales, row={scales - 1}, rows=2, line=0", Error.ADDRESS),
        "load of no rows": ("load activations, row=0, rows=0, line=0", Error.SIZE),
        "load without stride": ("load activations, row=0, rows=1, line=0, stride=0", Error.SIZE),
        "store of weights": ("store weights, row=0, rows=1, line=0", Error.OPERAND),
        "gemm before configure": (_gemm(), Error.MANTISSA),
        "gemm without inputs": (_gemm(inputs=0), Error.SIZE),
        "gemm without outputs": (_gemm(outputs=0), Error.SIZE),
        "gemm beyond its source": (_gemm(6, source=last - 6), Error.ADDRESS),
        "gemm beyond its result": (_gemm(6, destination=last - 15), Error.ADDRESS),
        "gemm beyond the weights": (_gemm(6, weights=weights - 1), Error.ADDRESS),
        "gemm beyond the scales": (_gemm(6, scales=scales), Error.ADDRESS),
        "compress to fp16": ("compress source=0, destination=64, elements=1", Error.MANTISSA),
        "compress of nothing": ("compress source=0, destination=64, elements=0", Error.SIZE),
        "compress beyond its result": (
            f"configure source=0, result=4\ncompress source=0, destination={last - 4}, elements=1",
            Error.ADDRESS,
        ),
        "sum of nothing": ("sum s0, r0, elements=0", Error.SIZE),
        "add beyond a": (f"add r0, r{last - 15}, #1, elements=1", Error.ADDRESS),
        "add beyond b": (f"add r0, r0, r{last - 15}, elements=1", Error.ADDRESS),
        "add beyond its result": (f"add r{last - 15}, r0, #1, elements=1", Error.ADDRESS),
        "scalar that is none": ("add s0, s8, #1", Error.ADDRESS),
        "sum into no scalar": ("sum s8, r0, elements=1", Error.ADDRESS),
        "dots without results": (_attention("dots", results=0), Error.SIZE),
        "dots without a step": (_attention("dots", step=0), Error.SIZE),
        "weigh without a pitch": (_attention("weigh", pitch=0), Error.SIZE),
        "weigh of nothing": (_attention("weigh", elements=0), Error.SIZE),
        "dots of a scalar": (_attention("dots", a="s0"), Error.OPERAND),
        "weigh by a constant": (_attention("weigh", b="#1"), Error.OPERAND),
        "dots beyond a": (_attention("dots", a=f"r{last - 9}", results=3, pitch=5), Error.ADDRESS),
        "dots beyond b": (_attention("dots", b=f"r{last - 1}", elements=17), Error.ADDRESS),
        "dots beyond the results": (
            _attention("dots", destination=f"r{last - 1}", results=9),
            Error.ADDRESS,
        ),
        "weigh beyond a": (_attention("weigh", a=f"r{last - 6}", step=7), Error.ADDRESS),
        "weigh beyond the results": (
            _attention("weigh", destination=f"r{last - 1}", results=2),
            Error.ADDRESS,
        ),
        "load of a bad line": (
            f"load activations, row=0, rows=1, line={BAD_LINE}",
            Error.BUS,
        ),
        "load beyond the memory": (f"load activations, row=0, rows=1, line={LINES}", Error.BUS),
        "bad line beside other work": (
            f"load weights, row=0, rows=1, line={BAD_LINE}\nadd s0, s0, #1\nwait",
            Error.BUS,
        ),
        "bad line, then a store": (
            f"load scales, row=0, rows=1, line={BAD_LINE}\n"
            "store activations, row=0, rows=1, line=0",
            Error.BUS,
        ),
        "store to a bad line": (
            f"store activations, row=0, rows=1, line={BAD_LINE}",
            Error.BUS,
        ),
        # The first in the program is reported, whichever is found first.
        "bad store, then a bad load": (
            f"store activations, row=0, rows=32, line={BAD_LINE}\n"
            f"load weights, row=0, rows=1, line={LINES}",
            Error.BUS,
        ),
        "bad load, then a bad store": (
            f"load weights, row=0, rows=32, line={BAD_LINE}\n"
            f"store activations, row=0, rows=1, line={LINES}",
            Error.BUS,
        ),
        "bad line, then no instruction": (
            f"load weights, row=0, rows=32, line={BAD_LINE}\nsum s0, r0, elements=0",
            Error.BUS,
        ),
        "bad line while all units work": (
            f"configure source=3, result=0\nload weights, row=0, rows=32, line={BAD_LINE}\n"
            f"exponential r{last // 2}, r{last // 2}, elements=16\n"
            f"gemm source=0, weights={weights - 16}, scales={scales - 1}, destination=64,"
            f" inputs=1, outputs=1\nstore activations, row={last - 16}, rows=1, line=20",
            Error.BUS,
        ),
    }
    (load,) = assemble("load activations, row=0, rows=1, line=0")
    changed = {"memory 5": (load, "memory", 5)}
    return stopping_programs(params, texts, changed, "configure source=1, result=1")


def _attention(
    name: str, a: str = "r0", b: str = "r0", destination: str = "r64", **changes: int
) -> str:
    """Dots or weigh with changed fields."""
    fields = {"elements": 2, "results": 1, "step": 1, "pitch": 1} | changes
    return f"{name} {destination}, {a}, {b}, " + ", ".join(f"{k}={v}" for k, v in fields.items())


def _gemm(mantissa: int = 0, **changes: int) -> str:
    """A gemm, after ``configure`` for a mantissa."""
    fields = {
        **dict.fromkeys(("source", "weights", "scales"), 0),
        "destination": 64,
        "inputs": 1,
        "outputs": 1,
    }
    operands = ", ".join(f"{name}={value}" for name, value in (fields | changes).items())
    configure = f"configure source={mantissa}, result=0\n" if mantissa else ""
    return f"{configure}gemm {operands}"


@cocotb.test
async def every_error(dut: Any) -> None:
    await check_errors(dut, wrong_programs)


def last_rows(params: AndaParams) -> list[Instruction]:
    """Instructions whose ranges end exactly where the memories do."""
    last, weights, scales = params.activation_rows, params.weight_rows, params.scale_rows
    beats = params.mxu.weight_beats
    return assemble(
        f"configure source=6, result=4\n"
        f"load activations, row={last - 2}, rows=2, line=0\n"
        f"load exponents, row={last - 18}, rows=2, line=0, stride=17\n"
        f"load broadcast, row={last - 1}, rows=1, line=0\n"
        f"load weights, row={weights - 1}, rows=1, line=0\n"
        f"load scales, row={scales - 1}, rows=1, line=0\n"
        f"wait\n"
        f"gemm source={last - 7}, weights={weights - beats}, scales={scales - 1},"
        f" destination=0, inputs=1, outputs=1\n"
        f"gemm source=0, weights=0, scales=0, destination={last - 5}, inputs=1, outputs=1\n"
        f"compress source={last - 16}, destination=0, elements=1\n"
        # Row 1 would be an addition of tensors, were this a vector instruction.
        f"compress source=1, destination={last - 5}, elements=1\n"
        f"compress source=1, destination=17, elements=1\n"  # which would take turns in one region
        f"add r0, r{last - 16}, r{last - 32}, elements=1\n"
        f"add r0, r{last - 32}, r{last - 16}, elements=1\n"
        f"add r{last - 16}, r0, #1, elements=1\n"
        f"sum s7, r{last - 16}, elements={params.group}\n"
        f"add s7, s7, s7\n"
        f"store activations, row={last - 16}, rows=16, line={LINES - 16 * 2}\n"
        f"halt"
    )


@cocotb.test
async def last_rows_are_usable(dut: Any) -> None:
    """Ends are errors from the first row behind them on, not before."""
    await check_last_rows(dut, last_rows)


@cocotb.test
async def random_words(dut: Any) -> None:
    await check_random_words(dut, _check, INSTRUCTION_FIELDS, _ends, kinds=5)


def _check(params: AndaParams, word: int) -> Error:
    return check(params, Formats(), decode(word))


def _ends(params: AndaParams) -> tuple[int, ...]:
    return params.activation_rows, params.weight_rows, params.scale_rows
