"""Steps of a model whose layers fit an accelerator's memories: cycles of the programs they are.

The programs are those that ``tilewright compile`` writes (``tilewright.golden.harmonia_model``,
``tilewright.golden.anda_model``), for one sequence; ``tilewright run`` executes them, and its
cycles are these. A step is one loop over the layers, and every layer but the first two begins in
the same state of all units as the one before it: three layers tell how long any number takes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from tilewright.golden.anda_machine.block import Mantissas
from tilewright.golden.anda_model import lines as anda_lines
from tilewright.golden.anda_model import plan as anda_plans
from tilewright.golden.anda_model import step as anda_step
from tilewright.golden.anda_model.head import head_program as anda_head_program
from tilewright.golden.harmonia_machine.isa import Instruction
from tilewright.golden.harmonia_model.head import head_program
from tilewright.golden.harmonia_model.lines import Lines
from tilewright.golden.harmonia_model.plan import Plan
from tilewright.golden.harmonia_model.step import layer_parts, step_program
from tilewright.golden.machine.clock import Work
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.block import require
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.params.llm import LlmShape
from tilewright.sim.schedule import ProgramTime, program_time

__all__ = [
    *("anda_compiled_time", "anda_plan", "compiled_plan", "compiled_steps", "compiled_time"),
]

ENOUGH_LAYERS = 3  # to know what one more takes
PROGRAM_LINES = 1 << 16  # of external memory; how many there are changes no cycle


@lru_cache(maxsize=16)
def compiled_plan(params: HarmoniaParams, model: LlmShape, context: int) -> Plan | None:
    """Return the plan of a model with 4-bit weights; None where programs cannot be compiled."""
    try:
        return Plan(params=params, config=model, context=context, weight_bits=4, head_bits=4)
    except ValueError:  # too large for the memories, or of another family
        return None


def compiled_steps(plan: Plan | anda_plans.Plan, prompt: int) -> Iterator[tuple[int, int]]:
    """First token and size of the steps in which a prompt passes.

    One of any size at first, then whole ones, then single tokens.
    """
    first = 0
    while first < prompt:
        left = prompt - first
        size = min(plan.step_tokens, left)
        if first and size < plan.step_tokens:
            size = 1
        yield first, size
        first += size


def compiled_time(
    plan: Plan, steps: Sequence[tuple[int, int]], latency: int
) -> dict[str, ProgramTime]:
    """Cycles of these steps through all layers, and of the head behind the last, by part.

    ``steps`` are the first token and the number of tokens of each.
    """
    lines, layers = Lines(plan, PROGRAM_LINES), plan.config.num_hidden_layers
    total: dict[str, ProgramTime] = {}
    for first, count in steps:
        for name, time in _step(plan, lines, first, count, layers, latency).items():
            total[name] = total[name] + time if name in total else time
    first, count = steps[-1]
    rows = plan.params.rows
    tile = (first + count - 1) // rows - first // rows
    head = head_program(plan, lines, tile)
    return total | {"head": program_time(plan.params, head, latency)}


def _step(
    plan: Plan, lines: Lines, first: int, count: int, layers: int, latency: int
) -> dict[str, ProgramTime]:
    few = min(layers, ENOUGH_LAYERS)
    program = step_program(plan, lines, first, count, layers=few)
    return _repeated(plan, program, layer_parts(plan, lines, first, count), few, layers, latency)


def _repeated(
    plan: Plan,
    program: Sequence[Instruction],
    parts: dict[str, int],
    few: int,
    layers: int,
    latency: int,
) -> dict[str, ProgramTime]:
    """Cycles by part of a layer, from its first work to the next one's, of all layers.

    ``parts`` are the numbers of the instructions with which they begin. What is before the first
    layer is the first part's, what is behind the last one the last part's.
    """
    names = [name for name in parts if name != "end"]
    begins: list[int] = []  # of every part of every layer
    busy: list[list[int]] = []
    number = -1

    def listen(work: Work) -> None:
        nonlocal number
        if not parts[names[0]] <= work.number < parts["end"]:
            (busy[-1] if busy else before)[work.unit] += work.end - work.begin - 1
            return
        part = max(k for k, name in enumerate(names) if work.number >= parts[name])
        if part != number:
            number = part
            begins.append(work.begin)
            busy.append([0] * 5)
        busy[-1][work.unit] += work.end - work.begin - 1

    before = [0] * 5
    whole = program_time(plan.params, program, latency, listen=listen)
    assert len(begins) == few * len(names)
    ends = [*begins[1:], whole.cycles]
    begins[0] = 0
    busy[0] = [a + b for a, b in zip(busy[0], before, strict=True)]
    more = layers - few  # as the last layer but one, which another follows
    found: dict[str, ProgramTime] = {}
    for k, name in enumerate(names):
        cycles, units = 0, [0] * 5
        for layer in range(few):
            at = layer * len(names) + k
            count = 1 + (more if few > 1 and layer == few - 2 else 0)
            cycles += count * (ends[at] - begins[at])
            units = [u + count * b for u, b in zip(units, busy[at], strict=True)]
        load, store, gemm, vector, convert = units
        found[name] = ProgramTime(0, cycles, 0, load, store, gemm, vector, convert)
    return found


# Anda.


def anda_plan(
    params: AndaParams, model: LlmShape, context: int, lengths: Mapping[str, int]
) -> anda_plans.Plan | None:
    """Return the plan of a model with 4-bit weights on Anda; None where it cannot be compiled."""
    mantissas = Mantissas(*(lengths[module] for module in ("qkv", "o", "u", "d")))
    own: dict[str, Any] = {
        "params": params,
        "config": model,
        "context": context,
        "mantissas": mantissas,
    }
    try:
        return anda_plans.Plan(**own, weight_bits=4, head_bits=4)
    except ValueError:
        return None


def anda_compiled_time(
    plan: anda_plans.Plan, steps: Sequence[tuple[int, int]], latency: int
) -> dict[str, ProgramTime]:
    """Cycles of these steps through all layers, and of the head behind the last.

    ``steps`` are the first token and the number of tokens of each, as :func:`compiled_steps` has
    them. Those of as many tokens, a tile apart, differ in how much of the cache they see.
    """
    lines, rows = anda_lines.Lines(plan, PROGRAM_LINES), plan.params.rows
    alike: dict[tuple[int, int], list[int]] = {}  # tiles, by the place in them and the tokens
    for first, count in steps:
        alike.setdefault((first % rows, count), []).append(first // rows)
    total = []
    for (bank, count), tiles in alike.items():
        require(tiles == [*range(tiles[0], tiles[-1] + 1)], "a prompt's steps follow each other")

        def time(tile: int, bank: int = bank, count: int = count) -> ProgramTime:
            return _anda_step(plan, lines, tile * rows + bank, count, latency)

        total.append(_series(time, tiles[0], tiles[-1]))
    head = program_time(plan.params, anda_head_program(plan, lines), latency)
    return {"layers": sum(total[1:], total[0]), "head": head}


def _anda_step(
    plan: anda_plans.Plan, lines: anda_lines.Lines, first: int, count: int, latency: int
) -> ProgramTime:
    layers = plan.config.num_hidden_layers

    def time(few: int) -> ProgramTime:
        program = anda_step.step_program(plan, lines, first, count, layers=few)
        return program_time(plan.params, program, latency)

    found = time(min(layers, ENOUGH_LAYERS))
    if layers > ENOUGH_LAYERS:
        one = time(ENOUGH_LAYERS + 1).plus(found, -1)
        found = found.plus(one, layers - ENOUGH_LAYERS)
    return found


def _series(time: Callable[[int], ProgramTime], first: int, last: int) -> ProgramTime:
    """The sum of ``time(first)`` to ``time(last)``, of which few are counted.

    Each tile of the cache takes as long as the one before it, or longer from where fewer queries
    fit beside it. In such a series all of a range is on the line through its ends if one is.
    """
    begin = time(first)
    if first == last:
        return begin
    end = time(last)
    return begin + end + _between(time, (first, begin), (last, end))


def _between(
    time: Callable[[int], ProgramTime],
    low: tuple[int, ProgramTime],
    high: tuple[int, ProgramTime],
) -> ProgramTime:
    """The sum of what is between two that are known."""
    (first, begin), (last, end) = low, high
    steps = last - first
    if steps < 2:
        return begin.times(0)
    middle = (first + last) // 2
    known = time(middle)
    if known.plus(begin, -1).times(steps) == end.plus(begin, -1).times(middle - first):
        pairs = (begin + end).times((steps - 1) // 2)  # the second and the last but one, ...
        return pairs if steps % 2 else pairs + known
    both = [_between(time, *ends) for ends in ((low, (middle, known)), ((middle, known), high))]
    return both[0] + known + both[1]
