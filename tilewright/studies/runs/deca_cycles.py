"""Cycles per tile of the simulated DECA PE against the model, the formula and the record."""

from dataclasses import dataclass

from tilewright.golden.params.deca import DecaParams
from tilewright.studies.runs.simulation import DEFAULT, Simulation

BENCH = "tilewright.verify.deca.cycles"
RECORD = "deca_cycles"
LONG = 5000  # cases that repay the time of an optimising compiler


@dataclass(frozen=True)
class CycleRow:
    """The cycles per tile of one tile format at one density."""

    code_bits: int
    scale: str
    group: int
    int8: bool
    density: float
    tiles: int
    measured: float
    model: float  # of these very tiles, by the golden model
    formula: float  # in the mean, by the closed form


def measure_cycles(
    block: str | None = None, *, cases: int = 1000, simulation: Simulation = DEFAULT
) -> dict[str, tuple[CycleRow, ...]]:
    """Return the cycles per tile with data present, by block: ``block`` or every preset of DECA."""
    blocks = [block] if block else [f"deca:{preset}" for preset in DecaParams.PRESETS]
    optimize = "-O1" if cases > LONG else "-O0"
    found = simulation.run_each("deca.cycles", blocks, BENCH, cases=cases, optimize=optimize)
    return {
        name: tuple(CycleRow(**row) for row in numbers["cycle_table"])
        for name, numbers in found.items()
    }
