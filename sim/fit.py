"""Fits the constants of ``calibration.toml`` to the figures that their entries name, and no others.

    python -m tilewright.sim.fit

Each constant in turn takes a step up or down while the sum of squared deviations falls, in units
of the claims' tolerances; steps shrink. Constants that no figure determines alone share one sum, so
all of them are fitted together. Prints the values; they are written to the table by hand, rounded.
"""

from tilewright.sim.calibration import constant, set_constant, table
from tilewright.sim.claims import Claim, Compare, papers
from tilewright.sim.scoreboard import answer_number, fitted_claims, scoreboard_claims

__all__ = ["cost", "fit", "fitted_constants"]

FIRST_STEP, LAST_STEP = 0.03, 0.002  # shares of a constant


def fitted_constants() -> list[str]:
    """Return the names of the constants that were fitted to published figures."""
    return [name for name, entry in table().items() if entry.fitted_on]


def _figures() -> list[Claim]:
    wanted = fitted_claims()
    return [c for paper in papers() for c in scoreboard_claims(paper) if c.id in wanted]


def cost() -> float:
    """Sum of squared deviations of the figures, one where a figure is off by its tolerance."""
    total = 0.0
    for claim in _figures():
        off, scale = answer_number(claim) - claim.number, claim.tolerance or 0.0
        if claim.compare is not Compare.ABSOLUTE:
            scale *= claim.number
        total += (off / scale) ** 2
    return total


def fit() -> dict[str, float]:
    """Return values at which no single step helps; the constants of this process keep them."""
    names = fitted_constants()
    best, step = cost(), FIRST_STEP
    while step > LAST_STEP:
        moved = False
        for name in names:
            for factor in (1 + step, 1 / (1 + step)):
                before = constant(name)
                set_constant(name, before * factor)
                found = cost()
                if found < best * (1 - 1e-6):
                    best, moved = found, True
                    break
                set_constant(name, before)
        if not moved:
            step /= 2
    return {name: constant(name) for name in names}


def main() -> None:
    """Fit, and print each constant before and after."""
    before, start = {name: constant(name) for name in fitted_constants()}, cost()
    found = fit()
    for name, value in found.items():
        print(f"{name:32} {before[name]:10.4g} -> {value:10.4g}")
    print(f"sum of squared deviations {start:.4f} -> {cost():.4f}")


if __name__ == "__main__":
    main()
