"""Areas and energies of synthesised units, from the committed records."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.base.records import load_table
from tilewright.sim.calibration import measured

RECORDS = Path(__file__).parents[1] / "synth" / "records"
TECHNOLOGY = "asap7"


class NoRecordError(LookupError):
    """A result needs a record that is not there."""


_table = cache(load_table)


def read_record(kind: str, unit: str, goal: str = "") -> dict[str, Any]:
    """Return the ``synthesis``, ``energy`` or ``system`` record of a unit."""
    table = _table(RECORDS / f"{kind}.{TECHNOLOGY}.json")
    record = table.get(f"{unit}.{TECHNOLOGY}{goal and f'.{goal}'}")
    if record is None:
        raise NoRecordError(f"no {kind} record of {unit} in {TECHNOLOGY}{goal and f', {goal}'}")
    return record


def area_um2(unit: str, goal: str = "") -> float:
    """Cells and memories of a unit, in square micrometres; made small, or for another goal."""
    area = float(read_record("synthesis", unit, goal)["metrics"]["area"]["value"])
    return measured(f"{unit}.area", area)


def system_um2(unit: str) -> float:
    """Logic and memories of a whole accelerator, in square micrometres; nothing is placed."""
    parts = read_record("system", unit)["parts"]
    return sum(float(sizes["logic"] + sizes["memory"]) for sizes in parts.values())


def energy_fj(unit: str, mantissa: float | None = None, mode: str | None = None) -> float:
    """Return the energy of a multiply-add on a real model's data, in one of the unit's modes.

    ``mantissa`` is the length of a unit that takes many; between two measured ones a line.
    """
    runs = read_record("energy", unit)["runs"]
    if mantissa is None:
        name = "real" if mode is None else f"real {mode}"
        if name not in runs:
            raise NoRecordError(f"no energy record of {unit} in {TECHNOLOGY}, {name}")
        return measured(f"{unit}.energy", float(runs[name]["total"]))
    prefix = "real m"
    known = sorted((int(n.removeprefix(prefix)), n) for n in runs if n.startswith(prefix))
    lengths = [length for length, _ in known]
    between = np.interp(mantissa, lengths, [runs[name]["total"] for _, name in known])
    return measured(f"{unit}.energy", float(between))


def netlist_rate(unit: str, run: str) -> float:
    """Multiply-adds a cycle of a PE's mapped netlist in one run of its energy record."""
    runs = read_record("energy", unit)["runs"]
    if run not in runs:
        raise NoRecordError(f"no energy record of {unit} in {TECHNOLOGY}, {run}")
    return measured(f"{unit}.rate", float(runs[run]["macs_per_cycle"]))


def deca_power_mw(run: str, figure: str = "total", unit: str = "deca") -> float:
    """Return the power of a DECA at full activity; ``run`` is a scheme and its data: ``bf8 real``.

    ``figure``: ``total`` of the netlist with its clock gates, ``least`` with no flip-flop clocked
    but where it changes.
    """
    runs = read_record("energy", unit)["runs"]
    if run not in runs:
        raise NoRecordError(f"no energy record of {unit} in {TECHNOLOGY}, {run}")
    return measured("deca.power", float(runs[run]["power"][figure]))


def deca_runs(unit: str = "deca") -> list[str]:
    """Return the names of the runs of a DECA's energy record, by the slug of its parameters."""
    return list(read_record("energy", unit)["runs"])
