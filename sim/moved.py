"""Finite differences: which of our measured inputs move an answer."""

from collections.abc import Callable, Iterator

from tilewright.sim.evaluations import Answer
from tilewright.sim.inputs import inputs_read, with_input

__all__ = ["moving_inputs"]

STEP = 1.1  # factor on an input
LEAST = 1e-6  # change of a figure that counts, as a share


def moving_inputs(answer: Callable[[], Answer]) -> Iterator[tuple[str, float | None]]:
    """Yield the inputs that move what ``answer`` returns, one after the other.

    With each comes the change of the figure in percent for 10% more of it, or None where a
    statement turns.
    """
    with inputs_read() as names:
        before = answer()
    for name in sorted(names):
        with with_input(name, STEP):
            after = answer()
        change = _change(before, after)
        if change is None or abs(change) > 100 * LEAST:
            yield name, change


def _change(before: Answer, after: Answer) -> float | None:
    match before, after:
        case bool(), bool():
            return 0.0 if before == after else None
        case [*old], [*new]:
            return max((_change(a, b) or 0.0 for a, b in zip(old, new, strict=True)), key=abs)
        case float() | int(), float() | int():
            return 100 * (after / before - 1) if before else 100 * (after - before)
    return 0.0 if before == after else None
