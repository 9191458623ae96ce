"""What placement needs of a technology beside its cells: rows, wires and routing tracks."""

import tomllib
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.synth.technology import TECHNOLOGY_FOLDER

__all__ = ["Rules", "load_rules"]

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
