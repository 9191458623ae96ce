"""Attention on Harmonia over caches that stream from external memory: cycles for any context.

A decoded token's query heads are taken one by one, each in the token's own bank, since nothing on
chip moves values between banks; its keys and values are appended by a program of their own. Of a
prompt, keys and values are converted part by part, and then every token tile of every head of
queries streams what it sees. Parts behind the first few take as long as those before them, so a few
tell how long any number of them takes.
"""

from dataclasses import replace

from tilewright.golden.harmonia_machine.append_token import append_token
from tilewright.golden.harmonia_machine.attention import Head
from tilewright.golden.harmonia_machine.builder import Builder
from tilewright.golden.harmonia_machine.decode_attention import CachedHead
from tilewright.golden.harmonia_machine.isa import Instruction
from tilewright.golden.harmonia_machine.streamed_attention import PART, streamed_program
from tilewright.golden.params.harmonia_machine import HarmoniaParams, Opcode
from tilewright.sim.kept_times import kept
from tilewright.sim.schedule import ProgramTime, program_time

__all__ = ["append_time", "cached_part_program", "streamed_decode_time", "streamed_prompt_time"]

FEW = 7  # parts behind which each takes as long as the one before


@kept
def streamed_decode_time(
    params: HarmoniaParams, sharing: int, tokens: int, channels: int, heads: int, latency: int
) -> ProgramTime | None:
    """One more token of one sequence, the last of ``tokens``, of all heads of a layer.

    None where not even two parts of a cache fit the memories.
    """
    few, more = _few_parts(tokens)

    def time(count: int) -> ProgramTime:
        return program_time(params, streamed_program(params, 1, channels, count), latency)

    try:
        found = time(few)
        if more:
            found = found.plus(time(few + PART).plus(found, -1), more)
        appended = append_time(params, tokens, channels, heads, latency)
    except ValueError:
        return None
    # A program of its own for each head of queries, and one for all that is appended.
    return found.times(sharing * heads) + appended


def _few_parts(tokens: int) -> tuple[int, int]:
    """Fewer tokens with the same last part, and how many parts less these are."""
    more = max(0, -(-tokens // PART) - FEW)
    return tokens - more * PART, more


def append_time(
    params: HarmoniaParams, tokens: int, channels: int, heads: int, latency: int
) -> ProgramTime:
    """The newest token's keys and values of all heads of a layer."""
    few, _ = _few_parts(tokens)
    empty = CachedHead.empty(params, few - 1, channels, 1)

    def time(count: int) -> ProgramTime:
        found = append_token(params, few, [empty] * count, checked=False)
        return program_time(params, found.builder.program, latency)

    first = 6 + heads % 3  # heads have three places in turn
    if heads <= first + 3:
        return time(heads)
    a, b = time(first), time(first + 3)
    return replace(a.plus(b.plus(a, -1), (heads - first) // 3), programs=1)


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
