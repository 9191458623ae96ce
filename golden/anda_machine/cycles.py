"""How long a program takes: every cycle of the hardware, given the memory's latency.

The memory takes a request or a line in every cycle and offers its answer ``latency`` cycles later.
Instructions follow each other, and a background load runs beside them; the formulas below are held
against the RTL, cycle for cycle.
"""

from functools import lru_cache
from typing import NamedTuple

from tilewright.golden.anda_machine.isa import Formats, Instruction, groups_of
from tilewright.golden.machine.clock import CONTROL_CYCLES, Clock, vector_cycles
from tilewright.golden.machine.machine import Outcome
from tilewright.golden.params.anda_machine import (
    FP16_ROWS,
    AndaParams,
    Counter,
    Memory,
    Opcode,
    group_rows,
)


def program_cycles(params: AndaParams, outcome: Outcome, latency: int) -> dict[Counter, int]:
    """Counters of a program that halted, by where the time goes."""
    clock, counts = Clock(), dict.fromkeys(_TIMES, 0)
    clock.follow(params, outcome, latency)
    for step in outcome.trace:
        instruction, formats = step.instruction, step.settings
        reached = clock.reach(step)
        counts[Counter.CYCLES] += reached
        counts[Counter.CONTROL] += reached
        start = clock.now
        _advance(params, clock, instruction, formats, latency)
        spent = clock.now - start
        counts[Counter.CYCLES] += spent
        counts[Counter.CONTROL] += CONTROL_CYCLES
        kind = _KINDS.get(instruction.opcode)
        if kind is not None:
            counts[kind] += spent - CONTROL_CYCLES
        if instruction.opcode is Opcode.GEMM:
            gemm = _gemm(params, instruction, formats)
            counts[Counter.MATRIX_WAITS] += gemm.matrix_waits
            counts[Counter.RESULT_WAITS] += gemm.result_waits
    return counts


_KINDS = {
    Opcode.LOAD: Counter.MEMORY,
    Opcode.STORE: Counter.MEMORY,
    Opcode.WAIT: Counter.MEMORY,
    Opcode.HALT: Counter.MEMORY,
    Opcode.GEMM: Counter.GEMM,
    Opcode.VECTOR: Counter.VECTOR,
    Opcode.COMPRESS: Counter.VECTOR,
}
_TIMES = (
    *(Counter.CYCLES, Counter.CONTROL, Counter.MEMORY, Counter.GEMM, Counter.VECTOR),
    *(Counter.MATRIX_WAITS, Counter.RESULT_WAITS),
)


def _gemm(params: AndaParams, x: Instruction, formats: Formats) -> "GemmCycles":
    return gemm_cycles(params, formats.source, formats.result, x["inputs"], x["outputs"])


def _advance(
    params: AndaParams, clock: Clock, x: Instruction, formats: Formats, latency: int
) -> None:
    checked = clock.now + CONTROL_CYCLES  # the cycle after the last of these
    match x.opcode:
        case Opcode.CONFIGURE | Opcode.LOOP:
            clock.now = checked
        case Opcode.WAIT | Opcode.HALT:
            clock.wait(checked)
        case Opcode.LOAD | Opcode.STORE:
            clock.move(params, x, checked, latency, Memory(x["memory"]))
        case Opcode.VECTOR:
            rows = groups_of(params, x["elements"]) * FP16_ROWS
            clock.now = checked + vector_cycles(params, x, rows)
        case Opcode.COMPRESS:
            clock.now = checked + compress_cycles(params, x["elements"], formats.result)
        case Opcode.GEMM:
            clock.now = checked + _gemm(params, x, formats).cycles


def compress_cycles(params: AndaParams, elements: int, mantissa: int) -> int:
    """Cycles from checking a compress to fetching the next."""
    first = 1 + params.vector.latency  # the first word reaches the collector
    gathered = first + FP16_ROWS - 1  # the last word of the first group does
    accepted = gathered + 1  # the compressor takes the group
    for _ in range(1, groups_of(params, elements)):
        gathered = max(gathered, accepted - 1) + FP16_ROWS
        accepted = max(gathered + 1, accepted + 1 + mantissa)
    return accepted + mantissa + 1 + 2


class GemmCycles(NamedTuple):
    """Cycles of one ``gemm`` instruction."""

    cycles: int  # from checking it to fetching the next
    matrix_waits: int  # cycles in which a plane waits for the matrix unit
    result_waits: int  # cycles in which a row of results waits for the collector


@lru_cache(maxsize=1024)  # long programs repeat a few sizes
def gemm_cycles(
    params: AndaParams, source: int, result: int, inputs: int, outputs: int
) -> GemmCycles:
    """Planes and weights are offered in every cycle; results may wait for the collector.

    As :func:`tilewright.golden.anda.cycles.mxu_schedule` has it, with a consumer that is not always
    ready.
    """
    mxu = params.mxu
    groups, tiles = groups_of(params, inputs), -(-outputs // params.columns)
    tiles_of_group = params.group // params.columns
    # Counted from the cycle in which the first plane is taken: the first weights are complete.
    first = 1 + mxu.weight_beats + 1
    long_ago = -(1 << 30)
    loaded = -1
    multiplied = accumulated = free = left = compressed = long_ago
    room = long_ago  # the first cycle in which the collector takes rows again
    finished, result_waits = False, 0
    for tile in range(tiles):
        for group in range(groups):
            taken = max(loaded + 1, multiplied) + source
            multiplied = max(taken + 1, accumulated)
            accumulated = max(multiplied + 1, left if finished else long_ago)
            finished = group == groups - 1
            loaded = max(taken, loaded + mxu.weight_beats)
        left = max(accumulated + 1, free)
        given = max(left + 1, room)  # the first row of the tile
        result_waits += given - (left + 1)
        free = given + mxu.rows - 1  # the last row
        if tile == tiles - 1 or tile % tiles_of_group == tiles_of_group - 1:
            compressed = max(free + 1, compressed + 1 + result)
            room = compressed if result else free + FP16_ROWS
    written = compressed + 1 + result if result else free + FP16_ROWS
    planes = tiles * groups * group_rows(source)
    return GemmCycles(first + written + 2, first - 1 + taken + 1 - planes, result_waits)
