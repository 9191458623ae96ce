"""Benches that every preset of the DECA PE runs."""

from typing import Any

from tilewright.base.console import progress
from tilewright.base.errors import CheckError
from tilewright.golden.params.deca import DecaParams
from tilewright.studies.runs.simulation import Simulation
from tilewright.verify.job import Job

__all__ = ["run_presets"]

LONG = 5000  # cases that repay the time of an optimising compiler


def run_presets(
    name: str,
    bench: str,
    block: str | None,
    simulation: Simulation,
    *,
    cases: int = Job.cases,
    exhaustive: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return what the tests of module ``bench`` report, by block: ``block`` or every preset."""
    blocks = [block] if block else [f"deca:{preset}" for preset in DecaParams.PRESETS]
    optimize = "-O1" if exhaustive or cases > LONG else "-O0"
    found = {}
    with progress(name, len(blocks)) as tick:
        for each in blocks:
            tick(each, steps=0)
            try:
                found[each] = simulation.run(
                    each, bench, cases=cases, exhaustive=exhaustive, optimize=optimize
                )
            except CheckError as failure:
                raise CheckError(f"{each}: {failure}") from None
            tick()
    return found
