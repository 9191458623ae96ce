"""Open choices: what a paper's comparison leaves undecided, and how else it could be decided.

One rule serves all figures. Inside ``other_choice`` some points are decided the other way, so that
``tilewright.claims.scoreboard`` can say between which values ours lies over all of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

OPEN = {  # name -> the other way
    "outside": "operand registers at the edge of an array, in no PE",
    "discrete": "an fp16 PE that rounds after every operation",
    "plain": "baselines with the stages, adders and accumulators that they have by default",
    "array": "area of the array alone, without buffers",
    "attention": "the fp16 PEs with which a baseline computes attention take area, too",
    "logic": "area of logic alone, without memories",
    "memories": "memories of a DECA as large as printed",
    "activity": "the scheme with which a DECA takes the most power",
    "port": "one tile in flight in each of DECA's loaders",
}
_TAKEN: list[str] = []
_ASKED: list[set[str]] = []  # names, while somebody collects them


def chosen(name: str) -> bool:
    """Whether a point of ``OPEN`` is decided the other way at present."""
    for names in _ASKED:
        names.add(name)
    return name in _TAKEN


@contextmanager
def other_choice(*names: str) -> Iterator[None]:
    """Inside the ``with`` statement these points are decided the other way."""
    before = len(_TAKEN)
    _TAKEN.extend(names)
    try:
        yield
    finally:
        del _TAKEN[before:]


@contextmanager
def choices_asked() -> Iterator[set[str]]:
    """Collect the names of the points that results inside the ``with`` statement depend on."""
    _ASKED.append(set())
    try:
        yield _ASKED[-1]
    finally:
        _ASKED.pop()
