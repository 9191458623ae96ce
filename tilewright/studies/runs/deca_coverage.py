"""Functional coverage of the simulated DECA PE: all combinations of what a tile can be and meet.

A combination that was not reached is a hole, and fails the run.
"""

from dataclasses import dataclass
from typing import Any

from tilewright.studies.runs.deca_presets import run_presets
from tilewright.studies.runs.simulation import DEFAULT, Simulation
from tilewright.verify.coverage import Coverage

__all__ = ["RECORD", "TileCoverage", "cover_tiles"]

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
    found = run_presets("deca.coverage", BENCH, block, simulation, exhaustive=True)
    return {
        name: TileCoverage(
            Coverage.from_dict(numbers["coverage"]), numbers["cases"], numbers["cycles"]
        )
        for name, numbers in found.items()
    }
