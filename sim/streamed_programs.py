"""Attention on Harmonia over caches that stream from external memory: cycles for any context.

A decoded token of all heads of a layer is one program: loads spread the heads of queries that share
keys and values over the rows of the array, and the token is appended to the caches on the way. Of a
prompt, keys and values are converted part by part, and then every token tile of every head of
queries streams what it sees. Parts behind the first few take as long as those before them, so a few
tell how long any number of them takes.
"""

from dataclasses import replace

from tilewright.golden.harmonia_machine.attention import Head
from tilewright.golden.harmonia_machine.builder import Builder
from tilewright.golden.harmonia_machine.decode_attention import CachedHead
from tilewright.golden.harmonia_machine.isa import Instruction
from tilewright.golden.harmonia_machine.layer_attention import layer_attention
from tilewright.golden.harmonia_machine.streamed_attention import PART, streamed_program
from tilewright.golden.params.harmonia_machine import HarmoniaParams, Opcode
from tilewright.sim.kept_times import kept
from tilewright.sim.schedule import ProgramTime, program_time

__all__ = ["cached_part_program", "streamed_decode_time", "streamed_prompt_time"]

FEW = 7  # parts of a prompt behind which each takes as long as the one before
FEW_OF_HEADS = 9  # parts of a decoded token's caches behind which that is so
FEW_HEADS = 6


@kept
def streamed_decode_time(
    params: HarmoniaParams, sharing: int, tokens: int, channels: int, caches: int, latency: int
) -> ProgramTime | None:
    """One more token, the last of ``tokens``, in one layer: so many heads of all its sequences.

    None where not even two parts of a cache fit the memories. Behind the first few heads, every two
    take as long as those before them: what is used in turn has two places.
    """
    more = max(0, (-(-tokens // PART) - FEW_OF_HEADS) // 2)  # pairs, since they have two places
    few = tokens - more * 2 * PART

    def time(heads: int, count: int) -> ProgramTime:
        empty = CachedHead.empty(params, count - 1, channels, sharing)
        found = layer_attention(params, [count], [[empty]] * heads, checked=False)
        return program_time(params, found.builder.program, latency)

    def of_all(count: int) -> ProgramTime:
        first = FEW_HEADS + caches % 2
        if caches <= first + 2:
            return time(caches, count)
        a, b = time(first, count), time(first + 2, count)
        return replace(a.plus(b.plus(a, -1), (caches - first) // 2), programs=1)

    try:
        found = of_all(few)
        return found.plus(of_all(few + 2 * PART).plus(found, -1), more) if more else found
    except ValueError:
        return None


@kept
def streamed_prompt_time(
    params: HarmoniaParams, sharing: int, tokens: int, channels: int, latency: int
) -> ProgramTime | None:
    """Heads that share keys and values, over a whole prompt; None if two parts do not fit.

    Token tiles of the first parts are counted one by one; those of later ones take longer by as
    much as a part does. Low halves of the newest tokens, which the last tiles see, are not apart:
    all tiles are taken to be far from the prompt's end.
    """
    rows, tiles = params.rows, -(-tokens // params.rows)
    try:
        built = program_time(params, cached_part_program(params, channels), latency)
        first = _first_tiles(params, channels, latency)
    except ValueError:
        return None
    each, period = [first[str(k)] for k in range(min(tiles, len(first)))], PART // rows
    total = built.times(-(-tokens // PART))
    for k, time in enumerate(each):
        total = total.plus(time, sharing)
        if k >= (FEW - 1) * period:  # others of later parts at the same place
            later = (tiles - 1 - k) // period
            step = time.plus(each[k - period], -1)
            total = total.plus(time, sharing * later)
            total = total.plus(step, sharing * (later * (later + 1) // 2))
    return total


@kept
def _first_tiles(params: HarmoniaParams, channels: int, latency: int) -> dict[str, ProgramTime]:
    """Token tiles of the first parts, by their number."""
    rows, far = params.rows, 2 * FEW * PART  # tokens of the cache

    def time(tile: int) -> ProgramTime:
        program = streamed_program(params, rows, channels, far, tile * rows)
        return program_time(params, program, latency)

    return {str(tile): time(tile) for tile in range(FEW * PART // rows)}


def cached_part_program(params: HarmoniaParams, channels: int) -> list[Instruction]:
    """Keys and values of a part of a prompt, converted and stored."""
    b = Builder(params)
    lines = -(-PART // params.rows) * b.halves_lines(channels)
    keys, values = b.reserve(lines), b.reserve(lines)
    head = Head(b, channels, PART)
    head.converts_beside = False  # no queries follow that values could be converted beside
    head.prompt(PART, keys, values)
    b.emit(Opcode.HALT)
    return b.program
