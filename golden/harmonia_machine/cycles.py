"""How long a program takes: every cycle of the hardware, given the memory's latency.

The memory takes a request or a line in every cycle and offers its answer ``latency`` cycles later.
Instructions follow each other, and a background load runs beside them; the formulas below are held
against the RTL, cycle for cycle. Cycles of an instruction are counted from the one after it was
checked to the one in which the next is fetched.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from tilewright.golden.harmonia.offset_stream import SELECTION_CYCLES
from tilewright.golden.harmonia_machine.isa import (
    Instruction,
    Settings,
    groups_of,
    tiles_of,
    words_of,
)
from tilewright.golden.machine.clock import CONTROL_CYCLES, Clock, vector_cycles
from tilewright.golden.machine.machine import Outcome
from tilewright.golden.params.harmonia_machine import (
    Conversion,
    Counter,
    Dataflow,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)

FIRST_BEAT = 1  # of a gemm, convert or learn: the cycle in which it is offered
NOTICED = 2  # from the cycle that writes the last row to the next fetch


@dataclass
class _Clock(Clock):
    """A clock that also knows when the conversion path is idle."""

    path_idle: int = 0  # the first cycle in which it is idle


def program_cycles(params: HarmoniaParams, outcome: Outcome, latency: int) -> dict[Counter, int]:
    """Counters of a program that halted, by where the time goes."""
    clock, counts = _Clock(), dict.fromkeys(_TIMES, 0)
    clock.follow(params, outcome, latency)
    for step in outcome.trace:
        instruction, settings = step.instruction, step.settings
        reached = clock.reach(step)
        counts[Counter.CYCLES] += reached
        counts[Counter.CONTROL] += reached
        start, stalled = clock.now, _stalled(clock, instruction)
        waits = _advance(params, clock, instruction, settings, latency)
        spent = clock.now - start
        counts[Counter.CYCLES] += spent
        counts[Counter.CONTROL] += CONTROL_CYCLES
        counts[Counter.MATRIX_WAITS] += waits
        kind = _KINDS.get(instruction.opcode)
        if kind is not None:
            counts[kind] += spent - CONTROL_CYCLES - stalled
        counts[Counter.VECTOR] += stalled
    return counts


_KINDS = {
    Opcode.LOAD: Counter.MEMORY,
    Opcode.STORE: Counter.MEMORY,
    Opcode.WAIT: Counter.MEMORY,
    Opcode.HALT: Counter.MEMORY,
    Opcode.GEMM: Counter.GEMM,
    Opcode.VECTOR: Counter.VECTOR,
    Opcode.CONVERT: Counter.VECTOR,
    Opcode.LEARN: Counter.VECTOR,
    Opcode.CLEAR: Counter.VECTOR,
}
# All others wait for a conversion in the background before they are checked.
_BESIDE_CONVERSION = (Opcode.GEMM, Opcode.CONFIGURE, Opcode.TILED_GEMM, Opcode.LOOP)
_TIMES = (
    *(Counter.CYCLES, Counter.CONTROL, Counter.MEMORY, Counter.GEMM, Counter.VECTOR),
    Counter.MATRIX_WAITS,
)


def _advance(
    params: HarmoniaParams, clock: _Clock, x: Instruction, settings: Settings, latency: int
) -> int:
    """Moves the clock; the cycles in which a sum waited for the array."""
    checked = clock.now + CONTROL_CYCLES + _stalled(clock, x)  # the cycle after the last of these
    waits = 0
    match x.opcode:
        case Opcode.CONFIGURE | Opcode.TILED_GEMM | Opcode.LOOP:
            clock.now = checked
        case Opcode.WAIT | Opcode.HALT:
            clock.wait(checked)
        case Opcode.LOAD | Opcode.STORE:
            clock.move(params, x, checked, latency, Memory(x["memory"]))
        case Opcode.GEMM:
            cycles, waits = gemm_cycles(params, settings, x)
            clock.now = checked + cycles
        case Opcode.VECTOR:
            rows = words_of(params, x["elements"])
            clock.now = checked + vector_cycles(params, x, rows)
        case Opcode.CONVERT:
            cycles = convert_cycles(params, x)
            clock.path_idle = checked + cycles - 1
            clock.now = checked if x["background"] else checked + cycles
        case Opcode.LEARN:
            clock.now = checked + learn_cycles(x)
        case Opcode.CLEAR:
            clock.now = checked + x["rows"] + 1
    return waits


def _stalled(clock: _Clock, x: Instruction) -> int:
    """Cycles for which an instruction waits for a conversion in the background."""
    if x.opcode in _BESIDE_CONVERSION:
        return 0
    return max(0, clock.path_idle + 1 - (clock.now + CONTROL_CYCLES))


class GemmCycles(NamedTuple):
    """Cycles of one ``gemm`` instruction."""

    cycles: int
    matrix_waits: int  # cycles in which a sum waits for the array


def gemm_cycles(params: HarmoniaParams, settings: Settings, x: Instruction) -> GemmCycles:
    """A sum a cycle; the last sums of two tiles are at least as many apart as there are columns.

    As :func:`tilewright.golden.harmonia.array.cycles` has it.
    """
    sizes = (x["groups"], x["tiles"], x["token_tiles"])
    return _gemm_cycles(params, settings.dataflow, settings.tokens, Operand(x["operand"]), *sizes)


@lru_cache(maxsize=1024)  # long programs repeat a few sizes
def _gemm_cycles(
    params: HarmoniaParams,
    dataflow: Dataflow,
    tokens: int,
    operand: Operand,
    groups: int,
    tiles: int,
    token_tiles: int,
) -> GemmCycles:
    units = {Operand.KEYS: tiles, Operand.VALUES: groups}.get(operand, 0)
    low_halves = [int(params.has_low(operand, unit, tokens)) for unit in range(units)]
    taken, earliest, sums = -1, 0, 0
    for tile in _tile_order(dataflow, tiles, token_tiles):
        match operand:
            case Operand.WEIGHTS:
                count = groups
            case Operand.KEYS:
                count = groups * (1 + low_halves[tile])
            case Operand.VALUES:
                count = groups + sum(low_halves)
        taken = max(taken + count, earliest)
        earliest = taken + params.columns
        sums += count
    last_column = FIRST_BEAT + taken + params.array.latency + params.columns - 1
    return GemmCycles(last_column + NOTICED, taken + 1 - sums)


def _tile_order(dataflow: Dataflow, tiles: int, token_tiles: int) -> Iterator[int]:
    """Tiles of columns, as the results come."""
    if dataflow is Dataflow.COLUMN_MAJOR:
        return (tile for tile, _ in product(range(tiles), range(token_tiles)))
    return (tile for _, tile in product(range(token_tiles), range(tiles)))


def convert_cycles(params: HarmoniaParams, x: Instruction) -> int:
    """Beats one a cycle; a block leaves the converter while the next one is taken."""
    conversion = Conversion(x["conversion"])
    spatial = conversion is Conversion.VALUES
    blocks = tiles_of(params, x["elements"]) if spatial else groups_of(params, x["elements"])
    beats = params.converter.block_beats(spatial)
    # The last block is read from the cycle after its last beat on, each beat offered a cycle later.
    last_beat = FIRST_BEAT + (blocks + 1) * beats
    if conversion is Conversion.KEYS:
        last_beat += 1  # through the offset generator
    written = last_beat + 1
    if conversion is not Conversion.ACTIVATIONS and not x["short"]:
        written += 1  # low halves
    return written + NOTICED


def learn_cycles(x: Instruction) -> int:
    """A channel a cycle; after the last tile all channels pass the list once more."""
    last_beat = FIRST_BEAT + x["elements"] - 1
    if x["last"]:
        last_beat += SELECTION_CYCLES + x["elements"]
    return last_beat + NOTICED
