"""Sequences that take turns: fewer of them in a pass where that gives more tokens a second.

An array takes whole token tiles: nine sequences on eight rows are two tiles, and take as long as
sixteen. Eight of the nine in a pass, each time another one left out, have all rows at work. Every
sequence then has its next token after 9/8 passes on average, and that is the time of a step.
"""

from collections.abc import Callable
from dataclasses import replace

from tilewright.sim.workload import Batch, Pass, Step


def in_turn(run: Callable[[Pass], Step], work: Pass, rows: int, *, spread: bool = False) -> Step:
    """Return a step of all sequences, in one pass or in turn, whichever has more tokens a second.

    ``rows`` are the sequences of a whole tile; a pass has the most whole tiles, or where tokens
    ``spread`` over experts, each with tiles of its own, any number of them. Only tokens of
    sequences that are equally long are taken so.
    """
    whole = run(work)
    ((count, tokens), *others) = work.batch.groups
    if others or work.new != 1 or count == 1:
        return whole
    most = count // rows * rows or 1
    parts = {
        few: run(Pass(Batch(((few, tokens),))))
        for few in (range(rows, most + 1, rows) if spread and most > 1 else (most,))
    }
    few = min(parts, key=lambda few: parts[few].seconds / few)
    part = parts[few]
    turns = count / few
    if turns * part.seconds >= whole.seconds:
        return whole

    def scaled(values: dict[str, float]) -> dict[str, float]:
        return {name: turns * value for name, value in values.items()}

    formula = part.formula_seconds
    return replace(
        part,
        seconds=turns * part.seconds,
        formula_seconds=None if formula is None else turns * formula,
        ms_by_part=scaled(part.ms_by_part),
        joules_by_part=scaled(part.joules_by_part),
        cache=whole.cache,
        fits=whole.fits,
        pass_batch=few,
        remarks=(
            f"{few} of {count} sequences in a pass, in turn: {1e3 * whole.seconds:.4g} ms if all"
            " were in each; the latency is that of a sequence's next token on average",
            *part.remarks,
        ),
    )
