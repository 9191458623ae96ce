"""Fits the constants of ``calibration.toml`` to the figures that their entries name, and no others.

    python -m tilewright.sim.fit

Each constant in turn takes a step up or down while the sum of squared deviations falls, in units
of the claims' tolerances; steps shrink. Constants that no figure determines alone share one sum, so
all of them are fitted together. Prints the values; they are written to the table by hand, rounded.
"""

from typing import Any

from tilewright.sim.calibration import _values, table
from tilewright.sim.core import simulate
from tilewright.sim.evaluations import EVALUATIONS
from tilewright.sim.scoreboard import claims, fitted_claims, papers

__all__ = ["cost", "fit", "fitted_constants"]

FIRST_STEP, LAST_STEP = 0.03, 0.002  # shares of a constant


def fitted_constants() -> list[str]:
    return [name for name, entry in table().items() if "fitted_on" in entry]


def _figures() -> list[dict[str, Any]]:
    wanted = fitted_claims()
    return [c for paper in papers() for c in claims(paper) if c["id"] in wanted]


def cost() -> float:
    """Sum of squared deviations of the figures, one where a figure is off by its tolerance."""
    simulate.cache_clear()
    total = 0.0
    for claim in _figures():
        ours = float(EVALUATIONS[claim["evaluate"]](**claim["with"]))  # type: ignore[arg-type]
        off = ours - claim["value"]
        scale = claim["tolerance"]
        if claim.get("mode") != "absolute":
            scale *= claim["value"]
        total += (off / scale) ** 2
    return total


def fit() -> dict[str, float]:
    """Values at which no single step helps; the constants of this process keep them."""
    values = _values()
    names = fitted_constants()
    best, step = cost(), FIRST_STEP
    while step > LAST_STEP:
        moved = False
        for name in names:
            for factor in (1 + step, 1 / (1 + step)):
                before = values[name]
                values[name] = before * factor
                found = cost()
                if found < best * (1 - 1e-6):
                    best, moved = found, True
                    break
                values[name] = before
        if not moved:
            step /= 2
    return {name: values[name] for name in names}


def main() -> None:
    before, start = {name: _values()[name] for name in fitted_constants()}, cost()
    found = fit()
    for name, value in found.items():
        print(f"{name:32} {before[name]:10.4g} -> {value:10.4g}")
    print(f"sum of squared deviations {start:.4f} -> {cost():.4f}")


if __name__ == "__main__":
    main()
