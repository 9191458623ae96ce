"""Attention of prompts on Anda: cycles for any context, and for many of them at once.

The program of a prompt is groups of token tiles of queries, one behind the other, and each group
meets the keys before it. Programs of two prompts are the same instructions up to the last group of
the shorter one, in other lines of external memory. So the clock of the longer one passes through
the state in which the last group of the shorter one begins: a copy of it there goes on with that
group alone. Tests compare with programs that are timed as a whole.

Behind the first periods, in which parts of the keys and groups of queries begin anew together,
every period takes longer than the one before it by what another one's keys take: three prompts
tell how long any longer one with the same rest takes.
"""

from dataclasses import replace
from functools import lru_cache

from tilewright.golden.anda_machine.attention import Attention
from tilewright.golden.anda_machine.builder import Builder
from tilewright.golden.anda_machine.isa import Instruction
from tilewright.golden.anda_machine.prompt_attention import (
    PromptItem,
    PromptRoom,
    PromptWriter,
)
from tilewright.golden.params.anda_machine import AndaParams, Memory, Opcode
from tilewright.sim.kept_times import kept
from tilewright.sim.schedule import ProgramTime, Timer, program_time

__all__ = ["anda_prompt_time", "counted_prompt"]

FAR = 1 << 30  # lines between tensors, wherever a program of its own has them


def anda_prompt_time(
    params: AndaParams, sharing: int, tokens: int, channels: int, latency: int
) -> ProgramTime | None:
    """Heads that share keys and values, over a whole prompt; None where that is impossible."""
    try:
        room = _attention(params, sharing, tokens, channels).prompt_room
        if room is None:  # queries are worked on one by one
            return counted_prompt(params, sharing, tokens, channels, latency)
        tiles, period = -(-tokens // params.rows), room.period(sharing)
        rest, periods = tiles % period, tiles // period

        def time(count: int) -> ProgramTime:  # a last tile takes as long with fewer tokens
            return counted_prompt(params, sharing, count * params.rows, channels, latency)

        if periods < 4:
            return time(tiles)
        c, b, a = (time(rest + k * period) for k in (3, 2, 1))
        return quadratic(a, b, c, periods - 3)
    except ValueError:
        return None


def quadratic(a: ProgramTime, b: ProgramTime, c: ProgramTime, more: int) -> ProgramTime:
    """Return the time so many terms behind ``c`` of a series whose second differences are equal."""
    step = c.plus(b, -1)
    grows = step.plus(b.plus(a, -1), -1)
    found = c.plus(step, more).plus(grows, more * (more + 1) // 2)
    return replace(found, programs=c.programs)


def _attention(params: AndaParams, sharing: int, tokens: int, channels: int) -> Attention:
    heads = {"heads": sharing, "kv_heads": 1, "head_dim": channels}
    return Attention(params=params, context=tokens, tokens=tokens, **heads)


@kept
def counted_prompt(
    params: AndaParams, sharing: int, tokens: int, channels: int, latency: int
) -> ProgramTime:
    """Every instruction of the prompt's program, or of the part of it that no other one has."""
    whole = _attention(params, sharing, tokens, channels)
    room, tiles = whole.prompt_room, -(-tokens // params.rows)
    if room is None or tiles * sharing <= room.together:
        return program_time(params, whole.program(), latency)
    # How lines are spread over the channels of the memory port decides how long loads take.
    begins = (*whole.cached(0), whole.cached(1).keys)
    phases = tuple(line % params.memory_channels for line in begins)
    return _groups(room.part_tiles, params, sharing, channels, latency, phases).time(room, tiles)


class _Groups:
    """Programs of all lengths with parts of the same size, and the clock before every group."""

    def __init__(self, params: AndaParams, sharing: int, latency: int, lines: tuple[int, ...]):
        self.params, self.sharing = params, sharing
        self.keys, self.values, self.constants = lines
        self.before = [Timer(params, latency)]

    def time(self, room: PromptRoom, tiles: int) -> ProgramTime:
        """Return the time of a prompt of so many token tiles."""
        builder = Builder(self.params)
        writer = PromptWriter(builder, room, self.constants, room.head_dim**-0.5)
        jobs = list(writer.jobs((self.keys, self.values), self._items(writer.words, tiles)))
        firsts = [k for k, job in enumerate(jobs) if k == 0 or job.group is not jobs[k - 1].group]
        last = len(firsts) - 1

        def written(group: int) -> list[Instruction]:
            """Return what begins and ends with the group; the first has what is before it."""
            builder.program = []
            if group == 0:
                writer.begin(jobs[0])
            for number in range(firsts[group], [*firsts, len(jobs)][group + 1]):
                writer.work(jobs, number)
            return builder.program

        for group in range(len(self.before) - 1, last):
            timer = self.before[group].copy()
            timer.run(written(group))
            self.before.append(timer)
        timer = self.before[last].copy()
        timer.run([*written(last), Instruction(Opcode.HALT)])
        return timer.time

    def _items(self, words: int, tiles: int) -> list[PromptItem]:
        """Token tiles of queries of all heads, tile by tile."""
        each = self.params.lines(Memory.ACTIVATIONS, words)
        return [
            PromptItem(number * each, FAR + number * each, number // self.sharing + 1)
            for number in range(tiles * self.sharing)
        ]


@lru_cache(maxsize=8)
def _groups(
    part: int,
    params: AndaParams,
    sharing: int,
    channels: int,
    latency: int,
    phases: tuple[int, ...],
) -> _Groups:
    lines = tuple(FAR * (number + 2) + phase for number, phase in enumerate(phases))
    return _Groups(params, sharing, latency, lines)
