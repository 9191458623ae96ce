"""Energies of a compact cell table, condensed from the full Liberty files of its library.

``python -m tilewright.synth.condense asap7 FILE...`` writes ``energy``, ``clock_energy`` and
``input_energy`` into ``synth/tech/asap7.toml`` anew; everything else in the table stays as it is.

All are fJ at the slew of an inverter driving four of its kind and at the load of four inverters,
means of rise and fall, of related pins and, where not said otherwise, of states (``when``):

- ``energy``: per transition of an output
- ``clock_energy``: of a flip-flop, per whole clock cycle in which nothing changes
- ``input_energy``: of a flip-flop, per transition of a data pin that reaches its first latch

Energies of inputs of gates that change no output are left out: rise and fall nearly cancel.

What a library says per supply (``related_pg_pin``) is summed. In ASAP7's, each supply's table has
half of voltage times charge, so that neither alone is the cell's energy: an input that rises and
changes no output pushes the charge C V of its pin into the supplies, and the entries of the two for
such a transition differ by half C V^2, not by C V^2.

An edge of the clock that changes the state stands in some libraries (those that give the clock's
energy by state) wholly with the output; the energy of a quiet edge is then taken off there.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from tilewright.synth.liberty_reader import (
    Group,
    LibertyScale,
    parse_liberty,
    read_table,
    read_text,
)
from tilewright.synth.technology import TECHNOLOGY_FOLDER, Cell, Table, Technology, load_technology

__all__ = ["CellEnergy", "Powers", "condense", "energy_at", "internal_powers"]

_EDGES = ("rise", "fall")

# Energies by (pin, related pin, state), then by (edge, supply).
Powers = dict[tuple[str, str, str], dict[tuple[str, str], Table]]


class CellEnergy(NamedTuple):
    """fJ of a cell at one slew and load."""

    outputs: dict[str, float]  # per transition
    inputs: dict[str, float]  # of a flip-flop, per transition of a data pin
    clock: float  # of a flip-flop, per quiet cycle


def internal_powers(paths: Sequence[Path], technology: Technology) -> dict[str, Powers]:
    """Every ``internal_power`` of the technology's cells in the files."""
    found: dict[str, Powers] = {}
    for path in paths:
        library = parse_liberty(read_text(path), str(path))
        scale = LibertyScale(library, str(path))
        for cell in library.of_kind("cell"):
            if cell.names[0] in technology.cells:
                found[cell.names[0]] = _powers(cell, scale)
    return found


def _powers(cell: Group, scale: LibertyScale) -> Powers:
    # Energies are in the file's unit of load times its volt squared.
    unit = scale.load / scale.time
    powers: Powers = defaultdict(dict)
    for pin in cell.of_kind("pin"):
        for power in pin.of_kind("internal_power"):
            get = power.attributes.get
            place = (pin.names[0], get("related_pin", ""), get("when", ""))
            for edge in _EDGES:
                for group in power.of_kind(f"{edge}_power"):
                    table = read_table(group, scale)
                    rows = tuple(tuple(unit * value for value in row) for row in table.rows)
                    supply = get("related_pg_pin", "")
                    powers[place][edge, supply] = Table(table.slews, table.loads, rows)
    return dict(powers)


def energy_at(cell: Cell, powers: Powers, slew: float, load: float) -> CellEnergy:
    """What the library says about ``cell``, supplies summed, at one slew and load."""
    sums = {
        place: {
            edge: sum(t.at(slew, load) for (which, _), t in tables.items() if which == edge)
            for edge in _EDGES
        }
        for place, tables in powers.items()
    }
    clock = cell.clock_pin
    if cell.state is None or cell.state.latch or clock is None:
        return CellEnergy({pin: _mean(sums, pin) for pin in cell.outputs}, {}, 0.0)
    outputs = {pin: _mean(sums, pin, clock) for pin in cell.outputs}
    edges = _quiet_edges([values for (pin, _, _), values in sums.items() if pin == clock])
    if any(pin == clock and when for pin, _, when in sums):
        active = "fall" if cell.state.clock.startswith("!") else "rise"
        outputs = {pin: value - edges[active] for pin, value in outputs.items()}
    data = {pin: _largest(sums, pin) for pin in cell.inputs if pin != clock}
    return CellEnergy(outputs, data, sum(edges.values()))


_Sums = dict[tuple[str, str, str], dict[str, float]]


def _mean(sums: _Sums, pin: str, only: str | None = None) -> float:
    """Over related pins (or ``only`` that one), each the mean of its states."""
    by_related: defaultdict[str, list[float]] = defaultdict(list)
    for (place, related, _), values in sums.items():
        if place == pin and only in (None, related):
            by_related[related].append(mean(values.values()))
    return mean(mean(values) for values in by_related.values())


def _largest(sums: _Sums, pin: str) -> float:
    """Over states, as the one in which the first latch is open: it opens in every cycle."""
    means = (mean(values.values()) for (place, _, _), values in sums.items() if place == pin)
    return max(means, default=0.0)


def _quiet_edges(states: list[dict[str, float]]) -> dict[str, float]:
    """Of a clock's edges while the stored bit is what comes in.

    Where energies are given by state, an edge that changes the state is 0 in the table; the states
    without such a 0 are the quiet ones.
    """
    quiet = [values for values in states if all(values.values())]
    return {edge: mean(values[edge] for values in quiet) for edge in _EDGES}


def condense(cell: Cell, powers: Powers, technology: Technology) -> dict[str, str]:
    """Entries of the compact table, as TOML keys and values."""
    found = energy_at(cell, powers, technology.clock_slew, technology.fanout_of_four_load)
    entries = {"energy": _inline(found.outputs)}
    if found.clock:
        entries = {
            "clock_energy": f"{found.clock:.4g}",
            "input_energy": _inline(found.inputs),
            **entries,
        }
    return entries


def _inline(values: dict[str, float]) -> str:
    return "{ " + ", ".join(f"{name} = {value:.4g}" for name, value in values.items()) + " }"


def rewrite(text: str, entries: dict[str, dict[str, str]]) -> str:
    """The table ``text`` with the energies of each cell replaced."""
    blocks = re.split(r"(?m)^(?=\[)", text)
    for k, block in enumerate(blocks):
        named = re.match(r"\[cell\.(\S+)\]\n", block)
        if named is None:
            continue
        kept = re.sub(r"(?m)^(?:energy|clock_energy|input_energy) = .*\n", "", block)
        lines = "".join(f"{key} = {value}\n" for key, value in entries.get(named[1], {}).items())
        blocks[k] = kept.replace("arcs = [\n", f"{lines}arcs = [\n")
    return "".join(blocks)


def main(arguments: Sequence[str]) -> None:
    name, *files = arguments
    technology = load_technology(name)
    powers = internal_powers([Path(file) for file in files], technology)
    entries = {
        cell.name: condense(cell, powers[cell.name], technology)
        for cell in technology.cells.values()
        if cell.arcs
    }
    path = TECHNOLOGY_FOLDER / f"{name}.toml"
    path.write_text(rewrite(path.read_text(), entries))


if __name__ == "__main__":
    main(sys.argv[1:])
