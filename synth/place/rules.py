"""What placement needs of a technology: rows, wires, routing tracks, drive strengths."""

import tomllib
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.synth.technology import TECHNOLOGY_FOLDER, Cell, Technology

Quantity = TypeVar("Quantity", float, NDArray[np.float64])


@dataclass(frozen=True)
class Rules:
    """Lengths in um. One resistance and one capacitance serve all wires, whatever their layer."""

    row_height: float
    site_width: float
    ohm_per_um: float
    ff_per_um: float
    pitches: tuple[float, ...]  # of the layers that carry signals, clock and supply aside

    @property
    def tracks_per_um(self) -> float:
        """Wires that cross a line of one um, all layers of both directions together."""
        return sum(1 / pitch for pitch in self.pitches)

    def elmore(self, length: Quantity, behind: Quantity) -> Quantity:
        """ps along ``length`` um of wire with ``behind`` fF at its end."""
        # ohm * fF is 1e-3 ps
        return 1e-3 * self.ohm_per_um * length * (self.ff_per_um * length / 2 + behind)


# Rows and pitches of the technologies' LEF files: M2 to M7 of ASAP7, met1 to met4 of sky130.
_ROWS = {"asap7": (0.27, 0.054), "sky130hd": (2.72, 0.46)}
_PITCHES = {
    "asap7": (0.036, 0.036, 0.048, 0.048, 0.064, 0.064),
    "sky130hd": (0.34, 0.46, 0.68, 0.92),
}


@cache
def load_rules(technology: str) -> Rules:
    """Return the rules of one of our technologies; another one is refused."""
    if technology not in _ROWS:
        raise ValueError(f"{technology} has no rules for placement; {' and '.join(_ROWS)} have")
    table = tomllib.loads((TECHNOLOGY_FOLDER / f"{technology}.toml").read_text())
    height, site = _ROWS[technology]
    return Rules(
        height, site, table["wire_ohm_per_um"], table["wire_ff_per_um"], _PITCHES[technology]
    )


def sizes(technology: Technology) -> dict[str, list[Cell]]:
    """All cells that do what a cell does, the smallest first, by the name of the cell.

    Without weak ones, clock gates and cells that have no input.
    """
    groups: dict[object, list[Cell]] = {}
    for cell in technology.cells.values():
        if cell.weak or cell.clock_gate is not None or not cell.inputs or not cell.arcs:
            continue
        key = (tuple(cell.inputs), tuple(cell.outputs.items()), cell.state, cell.clock_pin)
        groups.setdefault(key, []).append(cell)
    for group in groups.values():
        group.sort(key=lambda cell: (cell.area, cell.name))
    return {cell.name: group for group in groups.values() for cell in group}


def buffers(technology: Technology) -> list[Cell]:
    """The technology's buffers, the smallest first; the cell that drives inputs is one of them."""
    return sizes(technology)[technology.drive_cell]
