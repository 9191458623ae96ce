"""Records of the DECA PE: its cycles per tile, and the combinations that its tests have covered."""

from typing import Any

from tilewright.golden.params.deca import DecaParams
from tilewright.studies.runs.simulation import DEFAULT, Simulation

CYCLES, COVERAGE = "deca_cycles", "deca_coverage"  # the records
LONG = 5000  # cases that repay the time of an optimising compiler


def measure_cycles(
    block: str | None = None, *, cases: int = 1000, simulation: Simulation = DEFAULT
) -> dict[str, list[dict[str, Any]]]:
    """Return the cycles per tile with data present, by block: ``block`` or every preset of DECA.

    Each row is that of ``tilewright.verify.deca.cycles``: a format and a density, and the mean
    cycles as measured, by the golden model for these tiles, and by the closed form.
    """
    options = {"cases": cases, "optimize": "-O1" if cases > LONG else "-O0"}
    found = simulation.run_each(
        "deca.cycles", _blocks(block), "tilewright.verify.deca.cycles", **options
    )
    return {name: numbers["cycle_table"] for name, numbers in found.items()}


def cover_tiles(
    block: str | None = None, *, simulation: Simulation = DEFAULT
) -> dict[str, dict[str, Any]]:
    """Return what tiles in every combination reached, by block: ``block`` or every preset.

    It is the JSON of a :class:`tilewright.verify.coverage.Coverage`, with the number of tiles
    (``cases``) and of cycles. A combination that was not reached fails the run.
    """
    bench, options = "tilewright.verify.deca.combinations", {"exhaustive": True, "optimize": "-O1"}
    found = simulation.run_each("deca.coverage", _blocks(block), bench, **options)
    return {
        name: numbers["coverage"] | {"cases": numbers["cases"], "cycles": numbers["cycles"]}
        for name, numbers in found.items()
    }


def _blocks(block: str | None) -> list[str]:
    return [block] if block else [f"deca:{preset}" for preset in DecaParams.PRESETS]
