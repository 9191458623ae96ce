"""How long a program takes: every cycle of the hardware, given the memory's latency.

The memory takes a request or a line in every cycle and answers ``latency`` cycles later. An
instruction's cycles are counted from the one in which its unit starts to the first in which it is
idle; :mod:`tilewright.golden.machine.clock` says when it is issued. Tests compare these formulas
with the RTL, cycle for cycle.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from tilewright.golden.harmonia.offset import SELECTION_CYCLES
from tilewright.golden.harmonia_machine.isa import (
    Instruction,
    Settings,
    extents,
    groups_of,
    sums_of,
    tiles_of,
    words_of,
)
from tilewright.golden.machine.clock import (
    Task,
    move_task,
    program_counters,
    regions_of,
    vector_cycles,
)
from tilewright.golden.machine.instruction import scalar_operands
from tilewright.golden.machine.machine import Outcome
from tilewright.golden.machine.moves import Latency
from tilewright.golden.params.harmonia_machine import (
    Conversion,
    Counter,
    Dataflow,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
    Sums,
)
from tilewright.golden.params.machine import SCALARS, UnitOfWork

FIRST_BEAT = 1  # of a gemm: the cycle in which it is offered
NOTICED = 2  # from the write of the last row to the first cycle in which the unit is idle


def program_cycles(
    params: HarmoniaParams, outcome: Outcome, latency: Latency
) -> dict[Counter, int]:
    """Counters of a program that halted, by where the time goes."""
    return program_counters(params, outcome, latency, Counter, task, gemm_cycles)


def task(
    params: HarmoniaParams, x: Instruction, settings: Settings, latency: Latency
) -> Task | None:
    """The task of an instruction; None if no unit runs it."""
    if x.opcode in (Opcode.CONFIGURE, Opcode.TILED_GEMM, Opcode.LOOP):
        return None
    regions = regions_of(params, extents(params, x)) | _scalars(x) << _SCALARS_PLACE
    match x.opcode:
        case Opcode.LOAD | Opcode.STORE:
            return move_task(params, x, Memory(x["memory"]), regions, latency)
        case Opcode.GEMM:
            cycles = gemm_cycles(params, settings, x).cycles
            return Task.of(params, UnitOfWork.MATRIX, cycles, regions)
        case Opcode.VECTOR:
            cycles = vector_cycles(params, x, words_of(params, x["elements"]))
            return Task.of(params, UnitOfWork.VECTOR, cycles, regions)
        case Opcode.CONVERT:
            cycles = convert_cycles(params, x)
        case Opcode.LEARN:
            cycles = learn_cycles(params, x)
        case Opcode.CLEAR:
            cycles = x["rows"] + 1
    return Task.of(params, UnitOfWork.CONVERT, cycles, regions)


_SCALARS_PLACE = 128  # above the bits of all regions


def _scalars(x: Instruction) -> int:
    """The scalar registers that an instruction reads or writes, a bit each: held like regions."""
    if x.opcode is Opcode.VECTOR:
        return sum(1 << number for number in scalar_operands(x))
    if x.opcode is Opcode.GEMM and x["maxima"]:
        numbers = range(x["register"], x["register"] + x["token_tiles"])
        return sum(1 << number % SCALARS for number in numbers)
    return 0


class GemmCycles(NamedTuple):
    """Cycles of one ``gemm`` instruction."""

    cycles: int
    matrix_waits: int  # cycles in which a sum waits for the array


def gemm_cycles(params: HarmoniaParams, settings: Settings, x: Instruction) -> GemmCycles:
    """As :func:`tilewright.golden.harmonia.array.cycles`: a sum a cycle, ``tile_apart`` a tile."""
    sizes = (x["groups"], x["tiles"], x["token_tiles"])
    own = settings.dataflow, settings.tokens, Operand(x["operand"]), Sums.OPEN in sums_of(x)
    return _gemm_cycles(params, *own, *sizes)


@lru_cache(maxsize=1024)  # long programs repeat a few sizes
def _gemm_cycles(
    params: HarmoniaParams,
    dataflow: Dataflow,
    tokens: int,
    operand: Operand,
    stays_open: bool,
    groups: int,
    tiles: int,
    token_tiles: int,
) -> GemmCycles:
    shared = operand is Operand.SHARED
    if shared:
        tiles //= params.row_groups
    units = {Operand.KEYS: tiles, Operand.VALUES: groups}.get(operand, 0)
    low_halves = [int(params.has_low(operand, unit, tokens)) for unit in range(units)]
    apart = params.array.beat_cycles
    taken, earliest, sums = -apart, 0, 0
    for tile in _tile_order(dataflow, tiles, token_tiles):
        match operand:
            case Operand.WEIGHTS | Operand.SHARED:
                count = groups
            case Operand.KEYS:
                count = groups * (1 + low_halves[tile])
            case Operand.VALUES:
                count = groups + sum(low_halves)
        taken = max(taken + count * apart, earliest)
        earliest = taken + params.array.tile_apart
        sums += count
    if stays_open:
        return GemmCycles(FIRST_BEAT + taken + NOTICED, taken + 1 - sums)
    last_column = FIRST_BEAT + taken + params.array.latency + params.columns - 1
    last_row = last_column + (params.row_groups - 1 if shared else 0)  # words leave one by one
    return GemmCycles(last_row + NOTICED, taken + 1 - sums)


def _tile_order(dataflow: Dataflow, tiles: int, token_tiles: int) -> Iterator[int]:
    """Tiles of columns in the order of the results."""
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
    last_beat = params.feeder_cycles + (blocks + 1) * beats
    if conversion is Conversion.KEYS:
        last_beat += params.offset.latency
    written = last_beat + 1
    if conversion is not Conversion.ACTIVATIONS and not x["short"]:
        written += 1  # low halves
    return written + NOTICED


def learn_cycles(params: HarmoniaParams, x: Instruction) -> int:
    """A channel a cycle; after the last tile all channels pass the list once more."""
    last_beat = params.feeder_cycles + x["elements"] - 1
    if x["last"]:
        last_beat += SELECTION_CYCLES + x["elements"]
    return last_beat + NOTICED
