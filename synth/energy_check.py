"""How far our energies are from OpenSTA's with the energy tables of a full library.

``python -m tilewright.synth.energy_check asap7 FILE...`` needs OpenSTA and the full Liberty files,
and writes its part of ``synth/records/energy_deviation.json``. Both sides get one netlist and one
count of toggles, on random words; OpenSTA evaluates the full tables at the slews and loads that it
finds (``tilewright.synth.opensta``), we have one energy per cell and output.
"""

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.base.records import updated_table
from tilewright.golden.params.resolve import resolve
from tilewright.synth.activity import Activity, measure
from tilewright.synth.condense import CellEnergy, energy_at, internal_powers
from tilewright.synth.emit import to_rtlil
from tilewright.synth.energy import wire_capacitance
from tilewright.synth.flow import synthesise
from tilewright.synth.liberty_reader import read_text
from tilewright.synth.netlist import Netlist
from tilewright.synth.opensta import Components, opensta_power, our_power, table_energy
from tilewright.synth.record import RECORDS, energy_sha256, sha256, tool_versions
from tilewright.synth.technology import Cell, load_technology

__all__ = ["DESIGNS", "ENERGY_DEVIATION", "PERIOD", "energy_deviation", "random_activity"]

ENERGY_DEVIATION = RECORDS / "energy_deviation.json"

# Adders, multiplier and rounding, registers with wide selection, multiplexers.
DESIGNS = ("adder_tree:pipelined", "float_mul:pipelined", "queue", "expand:pipelined")
PERIOD = 4000.0  # ps
STREAMS, BEATS, SEED = 16, 48, 1


def random_activity(netlist: Netlist) -> Activity:
    """Random words in every cycle; the first few are not counted."""
    rng = random.Random(SEED)
    payloads = {p: nets for p, nets in netlist.inputs.items() if p.endswith("__payload")}
    beats = {
        port.removesuffix("__payload"): [
            [rng.getrandbits(STREAMS) for _ in nets] for _ in range(BEATS)
        ]
        for port, nets in payloads.items()
    }
    return measure(netlist, STREAMS, beats, range(8, BEATS))


def energy_deviation(name: str, paths: Sequence[Path]) -> dict[str, Any]:
    """The compact table ``name`` against the full Liberty files ``paths``."""
    technology = load_technology(name)
    powers = internal_powers(paths, technology)

    def full(cell: Cell, slew: float, load: float) -> CellEnergy:
        known = powers.get(cell.name)
        return energy_at(cell, known, slew, load) if known else table_energy(cell, slew, load)

    designs = {}
    for spec in DESIGNS:
        params = resolve(spec)
        netlist = synthesise(to_rtlil(params), params.slug, technology, gating=False).netlist
        activity, wire = random_activity(netlist), wire_capacitance(netlist, technology)
        ours = our_power(netlist, technology, activity, PERIOD, wire)
        theirs = opensta_power(netlist, technology, activity, PERIOD, wire, full)
        designs[spec] = {
            "ours": _figures(ours),
            "opensta": _figures(theirs),
            "ratio": {
                c: round(value / _figures(theirs)[c], 4) for c, value in _figures(ours).items()
            },
        }
    files = " ".join(path.name for path in paths)
    return {
        "command": f"python -m tilewright.synth.energy_check {name} {files}",
        "full_library_sha256": [sha256(read_text(path)) for path in paths],
        "energy_sha256": energy_sha256(name),
        "tools": tool_versions(),
        "unit": "fJ per cycle",
        "designs": designs,
    }


def _figures(power: Components) -> dict[str, float]:
    values = {c: getattr(power, c) for c in ("internal", "switching", "leakage", "total")}
    return {name: float(f"{value:.6g}") for name, value in values.items()}


def main(arguments: Sequence[str]) -> None:
    name, *files = arguments
    record = energy_deviation(name, [Path(file) for file in files])
    with updated_table(ENERGY_DEVIATION) as table:
        table[name] = record


if __name__ == "__main__":
    main(sys.argv[1:])
