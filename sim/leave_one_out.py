"""Each figure that constants were fitted to, predicted by a fit that does not see it.

    python -m tilewright.sim.leave_one_out

A fitted figure agrees because constants were moved until it did. Left out of the fit, it is a
prediction, and its deviation says how far the model can be trusted between the figures it was
fitted to. A figure that a constant rests on alone cannot be left out: nothing else would move the
constant, and the figure is called fitted and nothing more. The record is ``leave_one_out.json``.
"""

import json
import sys
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from tilewright.sim.calibration import constant, set_constant
from tilewright.sim.claims import Claim, Compare
from tilewright.sim.fit import HELD, Figures, fitted_constants, settle
from tilewright.sim.scoreboard import answer_number

__all__ = ["LeftOut", "leave_one_out", "left_out_record"]

RECORD = Path(__file__).with_name("leave_one_out.json")


@dataclass(frozen=True)
class LeftOut:
    """Of one fitted figure; deviations are shares of it, or in its unit where that is a share."""

    figure: str
    fitted: float  # deviation with the constants of the table
    left_out: float | None  # with those of a fit without it; none where constants rest on it alone
    rests_on_it: tuple[str, ...]  # constants that no other figure follows from


def leave_one_out(
    progress: Callable[[str], None] = lambda text: None, only: Collection[str] = ()
) -> list[LeftOut]:
    """Fit without each figure in turn, or each of some; constants are as before in the end."""
    figures = Figures()
    wanted = [claim for claim in figures.claims if not only or claim.id in only]
    before = {name: constant(name) for name in fitted_constants()}
    found = []
    for number, claim in enumerate(wanted, 1):
        progress(f"{number} of {len(wanted)}: {claim.id}")
        alone = _rests_on(claim, figures)
        fitted, left_out = _deviation(claim), None
        if not alone:
            settle(figures.without(claim.id))
            left_out = _deviation(claim)
            for name, value in before.items():
                set_constant(name, value)
        found.append(LeftOut(claim.id, fitted, left_out, alone))
    return found


def _rests_on(claim: Claim, figures: Figures) -> tuple[str, ...]:
    others = [figures.read_by[c.id] for c in figures.claims if c.id != claim.id]
    mine = figures.read_by[claim.id] - frozenset().union(*others)
    return tuple(name for name in fitted_constants() if name in mine and name not in HELD)


def _deviation(claim: Claim) -> float:
    off = answer_number(claim) - claim.number
    return round(off if claim.compare is Compare.ABSOLUTE else off / claim.number, 4)


@cache
def left_out_record() -> tuple[LeftOut, ...]:
    """Return what the last run found."""
    rows = json.loads(RECORD.read_text(encoding="utf-8"))["figures"]
    return tuple(LeftOut(**{**row, "rests_on_it": tuple(row["rests_on_it"])}) for row in rows)


def main() -> None:
    """Fit without each figure and write the record."""
    found = leave_one_out(lambda text: print(text, file=sys.stderr))
    text = json.dumps(
        {
            "command": "python -m tilewright.sim.leave_one_out",
            "constants": {name: constant(name) for name in fitted_constants()},
            "figures": [asdict(row) for row in found],
        },
        indent=1,
    )
    RECORD.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
