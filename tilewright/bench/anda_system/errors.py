"""Wrong instructions stop the machine with golden's code and number, and the next program runs."""

import time
from random import Random
from typing import Any

import cocotb
import numpy as np

from golden.anda_system.assembler import assemble
from golden.anda_system.executor import Machine
from golden.anda_system.isa import Formats, Instruction, decode, judge
from golden.params.anda_system import (
    INSTRUCTION_FIELDS,
    OPCODE_BITS,
    AndaParams,
    Error,
    Opcode,
)
from tilewright.bench import job
from tilewright.bench.program.check import check_stop
from tilewright.bench.program.host import Host
from tilewright.bench.streams import Bench

__all__ = ["every_error", "last_rows_are_usable", "random_words"]

LINES = 64  # of external memory
BAD_LINE = 5


def wrong_programs(params: AndaParams) -> dict[str, tuple[list[Instruction | int], Error]]:
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
        "load of a bad line": (
            f"load activations, row=0, rows=1, line={BAD_LINE}",
            Error.BUS,
        ),
        "load beyond the memory": (f"load activations, row=0, rows=1, line={LINES}", Error.BUS),
        "bad line in the background": (
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
    }
    programs: dict[str, tuple[list[Instruction | int], Error]] = {
        name: ([*assemble(text), *assemble("halt")], error) for name, (text, error) in texts.items()
    }
    (reduction,) = assemble("largest s0, r0, elements=4")
    (load,) = assemble("load activations, row=0, rows=1, line=0")
    change = {
        "operation 11": (reduction, "operation", 11),
        "kind 3": (reduction, "a_kind", 3),
        "reduction of a scalar": (reduction, "a_kind", 1),
        "memory 5": (load, "memory", 5),
    }
    for name, (instruction, field, value) in change.items():
        fields = instruction.fields | {field: value}
        programs[name] = [Instruction(instruction.opcode, fields)], Error.OPERAND
    programs["empty memory"] = [0], Error.OPCODE
    programs["opcode 15"] = [15], Error.OPCODE
    programs["no halt"] = assemble("configure source=1, result=1") * params.instructions, Error.END
    return programs


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
    asked, start = job.load(), time.perf_counter()
    params, clock = asked.params, Bench(dut)
    host = Host(clock, params, _memory(params), bad_lines=frozenset({BAD_LINE}))
    await host.start()
    seen = set()
    for name, (program, error) in wrong_programs(params).items():
        await check_stop(host, name, program, error, _memory(params), frozenset({BAD_LINE}))
        seen.add(error)
    assert seen == set(Error) - {Error.NONE}
    status = await host.run_program(assemble("add s0, s0, #1\nhalt"))
    assert (status.error, status.instruction) == (Error.NONE, 1)
    job.report(cases=len(seen), cycles=clock.cycle, seconds=time.perf_counter() - start)


def _memory(params: AndaParams) -> np.ndarray:
    return np.zeros(LINES * params.line_bytes, np.uint8)


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
        f"compress source=0, destination={last - 5}, elements=1\n"
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
    asked = job.load()
    params, clock = asked.params, Bench(dut)
    memory, wanted = _memory(params), _memory(params)
    program = last_rows(params)
    golden = Machine(params, wanted).run(program)
    host = Host(clock, params, memory)
    await host.start()
    status = await host.run_program(program)
    got, want = (status.error, status.instruction), (golden.error, golden.instruction)
    assert got == want == (Error.NONE, len(program) - 1), f"got {got}, expected {want}"
    assert np.array_equal(memory, wanted)


@cocotb.test
async def random_words(dut: Any) -> None:
    """Instructions of random fields, many at the ends of their ranges: each stops as in golden."""
    asked, start = job.load(), time.perf_counter()
    params, clock = asked.params, Bench(dut)
    choose = Random(asked.seed)
    host = Host(clock, params, _memory(params))
    await host.start()
    tried: dict[Error, int] = {}
    for _ in range(asked.cases):
        word = random_word(params, choose)
        error = judge(params, Formats(), decode(word))
        if error is Error.NONE:
            continue  # what right instructions do is tested elsewhere
        status = await host.run_program([word])
        got = (status.error, status.instruction)
        assert got == (error, 0), f"{word:#034x}: got {got}, expected {error!r} at 0"
        tried[error] = tried.get(error, 0) + 1
    if asked.cases >= 300:
        assert len(tried) >= 5, f"only these errors came up: {tried}"
    job.report(cases=sum(tried.values()), cycles=clock.cycle, seconds=time.perf_counter() - start)


def random_word(params: AndaParams, choose: Random) -> int:
    """An instruction word; a field is small, near an end of a memory, or anything."""
    code = choose.randrange(1 << OPCODE_BITS)
    word, shift = code, OPCODE_BITS
    fields = INSTRUCTION_FIELDS[Opcode(code)] if code in Opcode.__members__.values() else ()
    ends = (params.activation_rows, params.weight_rows, params.scale_rows)
    for field in fields:
        value = choose.choice(
            (
                choose.randrange(1 << field.bits),
                choose.randrange(4),
                choose.choice(ends) - choose.randrange(40),
                choose.randrange(1, 40),
            )
        )
        word |= (value & ((1 << field.bits) - 1)) << shift
        shift += field.bits
    return word
