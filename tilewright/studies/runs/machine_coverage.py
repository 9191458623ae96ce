"""Functional coverage of the simulated accelerators: what their programs can be and meet.

Instructions by size, memory and stalls, and errors by stalls. A combination that was not reached is
a hole, and fails the run.
"""

from dataclasses import dataclass
from typing import Any

from tilewright.base.console import progress
from tilewright.base.errors import CheckError, CommandError
from tilewright.golden.params.resolve import resolve
from tilewright.studies.runs.simulation import DEFAULT, Simulation
from tilewright.verify.coverage import Coverage

__all__ = ["BLOCKS", "RECORD", "ProgramCoverage", "cover_programs"]

BENCH = "tilewright.verify.machine.combinations"
RECORD = "machine_coverage"
BLOCKS = ("anda:small", "harmonia:small")


@dataclass(frozen=True)
class ProgramCoverage:
    """The combinations that programs on one accelerator have reached."""

    crosses: tuple[Coverage, ...]  # of instructions, and of errors
    programs: int
    cycles: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        crosses = [cross.as_dict() for cross in self.crosses]
        return {"crosses": crosses, "programs": self.programs, "cycles": self.cycles}


def cover_programs(
    block: str | None = None, *, simulation: Simulation = DEFAULT
) -> dict[str, ProgramCoverage]:
    """Return what programs reached, by block: ``block`` or the small accelerators."""
    if block and resolve(block).block not in ("anda", "harmonia"):
        raise CommandError(f"programs run on anda and harmonia, not on {block}")
    blocks = [block] if block else list(BLOCKS)
    found = {}
    with progress("machine.coverage", len(blocks)) as tick:
        for each in blocks:
            tick(each, steps=0)
            try:
                numbers = simulation.run(each, BENCH)
            except CheckError as failure:
                raise CheckError(f"{each}: {failure}") from None
            crosses = tuple(Coverage.from_dict(cross) for cross in numbers["crosses"])
            found[each] = ProgramCoverage(crosses, numbers["cases"], numbers["cycles"])
            tick()
    return found
