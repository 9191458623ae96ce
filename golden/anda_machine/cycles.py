"""How long a program takes: every cycle of the hardware, given the memory's latency.

The memory takes a request or a line in every cycle and answers ``latency`` cycles later. An
instruction's cycles are counted from the one in which its unit starts to the first in which it is
idle; :mod:`tilewright.golden.machine.clock` says when it is issued. Tests compare these formulas
with the RTL, cycle for cycle.
"""

from functools import lru_cache
from typing import NamedTuple

from tilewright.golden.anda_machine.isa import (
    Formats,
    Instruction,
    attention_beats,
    extents,
    groups_of,
    keeps_sums,
)
from tilewright.golden.machine.clock import Task, move_task, program_counters, regions_of
from tilewright.golden.machine.instruction import works_on_scalars
from tilewright.golden.machine.machine import Outcome
from tilewright.golden.machine.moves import Latency
from tilewright.golden.params.anda_machine import (
    FP16_ROWS,
    AndaParams,
    Counter,
    Memory,
    Opcode,
    group_rows,
)
from tilewright.golden.params.machine import UnitOfWork
from tilewright.golden.params.vector import Operation


def program_cycles(params: AndaParams, outcome: Outcome, latency: Latency) -> dict[Counter, int]:
    """Counters of a program that halted, by where the time goes."""
    return program_counters(params, outcome, latency, Counter, task, _gemm)


# Gemm and compress write their results through the same collector: it is held like a region.
_COLLECTOR = 1 << 100


def task(params: AndaParams, x: Instruction, formats: Formats, latency: Latency) -> Task | None:
    """The task of an instruction; None if no unit runs it."""
    if x.opcode in (Opcode.CONFIGURE, Opcode.LOOP):
        return None
    regions = regions_of(params, extents(params, formats, x))
    match x.opcode:
        case Opcode.LOAD | Opcode.STORE:
            return move_task(params, x, Memory(x["memory"]), regions, latency)
        case Opcode.GEMM | Opcode.SHARED_GEMM:
            cycles = _gemm(params, formats, x).cycles
            regions |= 0 if keeps_sums(x) else _COLLECTOR
            return Task.of(params, UnitOfWork.MATRIX, cycles, regions)
        case Opcode.COMPRESS:
            cycles = compress_cycles(params, x["elements"], formats.result)
            return Task.of(params, UnitOfWork.VECTOR, cycles, regions | _COLLECTOR)
    return Task.of(params, UnitOfWork.VECTOR, vector_cycles(params, formats, x), regions)


def _gemm(params: AndaParams, formats: Formats, x: Instruction) -> "GemmCycles":
    sizes = formats.source, formats.result, x["inputs"], x["outputs"]
    if x.opcode is Opcode.SHARED_GEMM:
        return shared_gemm_cycles(params, *sizes, x["span"], bool(x["keeps"]))
    return gemm_cycles(params, *sizes)


def vector_cycles(params: AndaParams, formats: Formats, x: Instruction) -> int:
    """Cycles of a vector instruction.

    A beat a cycle, one in two where two tensors share a region, which has one read port, or the
    pace of the vector unit.
    """
    if works_on_scalars(x):
        return 1 + params.vector.latency + 2
    operation = Operation(x["operation"])
    beats = groups_of(params, x["elements"]) * params.group_beats
    if operation.attends:
        beats = x["results"] * attention_beats(params, x)
    read = extents(params, formats, x)
    if not operation.reduces:
        read = read[:-1]
    a, *others = [regions_of(params, [extent]) for extent in read]
    shared = any(a & b for b in others)
    first = 2 if shared else 1
    apart = max(first, params.vector.beat_cycles)
    return first + (beats - 1) * apart + params.vector.latency + 2


def compress_cycles(params: AndaParams, elements: int, mantissa: int) -> int:
    """Cycles of a compress."""
    first = 1 + params.vector.latency  # the first word reaches the collector
    apart = params.vector.beat_cycles
    gathered = first + (params.group_beats - 1) * apart  # the last word of the first group does
    accepted = gathered + 1  # the compressor takes the group
    for _ in range(1, groups_of(params, elements)):
        # Words at a slower pace never wait: a group is compressed before the next is gathered.
        gathered = max(gathered, accepted - 1 if apart == 1 else 0) + params.group_beats * apart
        accepted = max(gathered + 1, accepted + 1 + mantissa)
    return accepted + mantissa + 1 + 2


class GemmCycles(NamedTuple):
    """Cycles of one ``gemm`` instruction."""

    cycles: int
    matrix_waits: int  # cycles in which a plane waits for the matrix unit
    result_waits: int  # cycles in which a row of results waits for the collector


@lru_cache(maxsize=1024)  # long programs repeat a few sizes
def gemm_cycles(
    params: AndaParams, source: int, result: int, inputs: int, outputs: int
) -> GemmCycles:
    """As :func:`tilewright.golden.anda.cycles.mxu_schedule`; the collector may stall results."""
    mxu = params.mxu
    groups, tiles = groups_of(params, inputs), -(-outputs // params.columns)
    tiles_of_group = params.group // params.columns
    # Counted from the cycle in which the first plane is taken: the first weights are complete.
    first = 1 + mxu.common_beats + 1
    long_ago = -(1 << 30)
    loaded = -1
    multiplied = accumulated = free = left = compressed = long_ago
    room = long_ago  # the first cycle in which the collector takes rows again
    finished, result_waits = False, 0
    for tile in range(tiles):
        for group in range(groups):
            taken = max(loaded + 1, multiplied) + source
            multiplied = max(taken + 1, accumulated)
            accumulated = max(multiplied + mxu.scale_cycles, left if finished else long_ago)
            finished = group == groups - 1
            loaded = max(taken, loaded + mxu.common_beats)
        left = max(accumulated + 1, free + mxu.pipelined)
        given = max(left + 1, room)  # the first row of the tile
        result_waits += given - (left + 1)
        free = given + mxu.rows - 1  # the last row
        if tile == tiles - 1 or tile % tiles_of_group == tiles_of_group - 1:
            compressed = max(free + 1, compressed + 1 + result)
            room = compressed if result else free + FP16_ROWS
    written = compressed + 1 + result if result else free + FP16_ROWS
    planes = tiles * groups * group_rows(source)
    return GemmCycles(first + written + 2, first - 1 + taken + 1 - planes, result_waits)


@lru_cache(maxsize=1024)
def shared_gemm_cycles(
    params: AndaParams, source: int, result: int, inputs: int, outputs: int, span: int, keeps: bool
) -> GemmCycles:
    """As :func:`gemm_cycles`: pass after pass of a tile for every 2^``span`` rows.

    In each pass the collector has several groups to write, one after the other.
    """
    mxu, together = params.mxu, params.row_groups >> span
    groups, tiles = groups_of(params, inputs), -(-outputs // params.columns)
    passes = [min(together, tiles - first) for first in range(0, tiles, together)]
    beats = [params.whole_tiles(own) // params.beat_tiles for own in passes]
    first = 1 + beats[0] + 1
    long_ago = -(1 << 30)
    loaded = -1
    multiplied = accumulated = free = left = compressed = room = written = long_ago
    finished, result_waits = False, 0
    for own, now, later in zip(passes, beats, [*beats[1:], 0], strict=True):
        for group in range(groups):
            last = group == groups - 1
            taken = max(loaded + 1, multiplied) + source
            multiplied = max(taken + 1, accumulated)
            accumulated = max(multiplied + mxu.scale_cycles, left if finished else long_ago)
            finished = last
            loaded = max(taken, loaded + (later if last else now))
        if keeps:
            break
        left = free = max(accumulated + 1, free + mxu.pipelined)
        for tile in range(together):
            given = max(free + 1, room)
            result_waits += given - (free + 1)
            free = given + (1 << span) - 1  # the last row of the tile
            if tile < own and (tile == own - 1 or (tile + 1) % params.block_tiles == 0):
                compressed = max(free + 1, compressed + 1 + result)
                room = compressed if result else free + FP16_ROWS
                written = compressed + 1 + result if result else room
    planes = len(passes) * groups * group_rows(source)
    waits = first - 1 + taken + 1 - planes
    end = taken if keeps else max(written, free)
    return GemmCycles(first + end + 2, waits, result_waits)
