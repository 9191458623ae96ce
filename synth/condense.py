"""Energies of a compact cell table, condensed from the full Liberty files of its library.

``python -m tilewright.synth.condense asap7 FILE...`` writes ``energy``, ``clock_energy`` and
``input_energy`` into ``synth/tech/asap7.toml`` anew, and the whole entries of the cells that the
table lists as ``clock_gates``; everything else in the table stays as it is.

All are fJ at the slew of an inverter driving four of its kind and at the load of four inverters,
means of rise and fall, of related pins and, where not said otherwise, of states (``when``):

- ``energy``: per transition of an output
- ``clock_energy``: of a flip-flop, per whole clock cycle in which nothing changes
- ``input_energy``: of a flip-flop, per transition of a data pin that reaches its first latch

Of a clock gate, ``clock_energy`` is that of a cycle in which the clock is held back,
``input_energy`` that of a transition of the enable that reaches the latch, and ``energy`` what each
edge of the gated clock adds to the first; where a library gives only one of the two edges, as
ASAP7 does, the other is taken to be as large.

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
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from tilewright.synth.liberty_reader import (
    Group,
    LibertyScale,
    parse_liberty,
    read_clock_gate,
    read_setup,
    read_table,
    read_text,
)
from tilewright.synth.technology import (
    TECHNOLOGY_FOLDER,
    Cell,
    Surface,
    Table,
    Technology,
    load_technology,
    technology_from_table,
)

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
    if cell.clock_gate is not None:
        return _gate_energy(cell, sums)
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


def _gate_energy(cell: Cell, sums: _Sums) -> CellEnergy:
    gate, clock = cell.clock_gate, cell.clock_pin
    assert gate is not None
    quiet = sum(_quiet_edges([v for (pin, _, _), v in sums.items() if pin == clock]).values())
    # The least of the states: in the others the latch changes too, which counts with its input.
    pulse = min(_both_edges(v) for (pin, _, _), v in sums.items() if pin == gate.gated)
    if any(pin == clock and when for pin, _, when in sums):
        pulse -= quiet
    inputs = {pin: _largest(sums, pin) for pin in cell.inputs if pin != clock}
    return CellEnergy({gate.gated: pulse / 2}, inputs, quiet)


def _both_edges(values: dict[str, float]) -> float:
    """Of a rise and a fall; an edge without an energy of its own is taken as the other."""
    given = [value for value in values.values() if value]
    return 2 * mean(given)


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


def clock_gate_entry(group: Group, scale: LibertyScale, technology: Technology) -> str:
    """The whole entry of a gating cell, without its energies, in the form of the table."""
    cell = read_clock_gate(group, scale)
    if cell is None or cell.state is None or cell.clock_gate is None:
        raise ValueError(f"{group.names[0]} is no clock gate of a kind that is known")
    gate, slew = cell.clock_gate, technology.clock_slew
    roles = {"enable": gate.enable, "gated": gate.gated}
    roles |= {"test": gate.test} if gate.test else {}
    lines = [
        f"[cell.{cell.name}]",
        f"area = {cell.area:.7g}",
        f"leak = {cell.leakage:.4g}",
        f"in = {_inline(cell.inputs)}",
        f"out = {_quoted(cell.outputs)}",
        f"latch = {_quoted({'enable': cell.state.clock, 'data_in': cell.state.data})}",
        f'state = ["{cell.state.names[0]}", "{cell.state.names[1]}"]',
        f'clock = "{cell.clock_pin}"',
        f"gate = {_quoted(roles)}",
        f"setup = {_inline(read_setup(group, scale, slew))}",
        f"hold = {_inline(read_setup(group, scale, slew, 'hold'))}",
        f"max_load = {cell.max_load:.4g}",
        "arcs = [",
    ]
    for arc in cell.arcs:
        surfaces = (arc.rise.delay, arc.fall.delay, arc.rise.slew, arc.fall.slew)
        numbers = [f"{value:.4g}" for surface in surfaces for value in _plane(surface)]
        lines.append(f'  ["{arc.source}", "{arc.target}", "{arc.sense}", {", ".join(numbers)}],')
    return "\n".join([*lines, "]"])


def _plane(surface: Surface) -> tuple[float, ...]:
    """Base, slope by load and slope by slew, least squares over slews and loads of a clock."""
    assert isinstance(surface, Table)
    points = [
        ((1.0, load, slew), surface.rows[i][j])
        for i, slew in enumerate(surface.slews[:-2])
        for j, load in enumerate(surface.loads[:-1])
    ]
    rows = [
        [
            *(sum(x[i] * x[j] for x, _ in points) for j in range(3)),
            sum(x[i] * y for x, y in points),
        ]
        for i in range(3)
    ]
    for i in range(3):  # Gauss and Jordan; the normal equations are positive definite
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for k in {0, 1, 2} - {i}:
            rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
    return tuple(row[3] for row in rows)


def _quoted(values: dict[str, str]) -> str:
    return "{ " + ", ".join(f'{name} = "{value}"' for name, value in values.items()) + " }"


def with_clock_gates(text: str, paths: Sequence[Path], technology: Technology) -> str:
    """The table ``text`` with entries of its ``clock_gates`` at its end."""
    entries = {}
    for path in paths:
        library = parse_liberty(read_text(path), str(path))
        scale = LibertyScale(library, str(path))
        for cell in library.of_kind("cell"):
            if cell.names[0] in technology.clock_gates:
                entries[cell.names[0]] = clock_gate_entry(cell, scale, technology)
    blocks = re.split(r"(?m)^(?=\[)", text)
    named = {f"[cell.{name}]" for name in technology.clock_gates}
    kept = [block for block in blocks if block.partition("\n")[0] not in named]
    whole = ["".join(kept).rstrip("\n"), *(entries[name] for name in technology.clock_gates)]
    return "\n\n".join(whole) + "\n"


def main(arguments: Sequence[str]) -> None:
    name, *files = arguments
    path = TECHNOLOGY_FOLDER / f"{name}.toml"
    paths = [Path(file) for file in files]
    path.write_text(with_clock_gates(path.read_text(), paths, load_technology(name)))
    technology = technology_from_table(tomllib.loads(path.read_text()))
    powers = internal_powers(paths, technology)
    entries = {
        cell.name: condense(cell, powers[cell.name], technology)
        for cell in technology.cells.values()
        if cell.arcs
    }
    path.write_text(rewrite(path.read_text(), entries))


if __name__ == "__main__":
    main(sys.argv[1:])
