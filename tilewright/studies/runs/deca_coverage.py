"""Functional coverage of the simulated DECA PE: all combinations of tiles and events.

A combination that was not reached is a hole, and fails the run.
"""

from dataclasses import dataclass
from typing import Any

from tilewright.golden.params.deca import DecaParams
from tilewright.studies.runs.simulation import DEFAULT, Simulation
from tilewright.verify.coverage import Coverage

BENCH = "tilewright.verify.deca.combinations"
RECORD = "deca_coverage"


@dataclass(frozen=True)
class TileCoverage:
    """The combinations that the tiles of one block have reached."""

    coverage: Coverage
    cases: int  # tiles
    cycles: int

    @property
    def squashed(self) -> int:
        """How many tiles a squash disturbed."""
        bins = zip(self.coverage.bins(), self.coverage.hits, strict=True)
        return sum(hits for found, hits in bins if found["squash"] != "undisturbed")

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return self.coverage.as_dict() | {"cases": self.cases, "cycles": self.cycles}


def cover_tiles(
    block: str | None = None, *, simulation: Simulation = DEFAULT
) -> dict[str, TileCoverage]:
    """Return what tiles in every combination reached, by block: ``block`` or every preset."""
    blocks = [block] if block else [f"deca:{preset}" for preset in DecaParams.PRESETS]
    options = {"exhaustive": True, "optimize": "-O1"}
    found = simulation.run_each("deca.coverage", blocks, BENCH, **options)
    return {
        name: TileCoverage(
            Coverage.from_dict(numbers["coverage"]), numbers["cases"], numbers["cycles"]
        )
        for name, numbers in found.items()
    }
