"""Cell tables and the Liberty made from them."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.synth.function import parse_function
from tilewright.synth.liberty import cached_liberty, to_liberty
from tilewright.synth.liberty_reader import read_liberty
from tilewright.synth.technology import TECHNOLOGIES, Table, load_technology

TECH = Path(__file__).parents[2] / "synth" / "tech"


def test_both_technologies_are_there():
    assert TECHNOLOGIES == ("asap7", "sky130hd")


def test_unknown_technology():
    with pytest.raises(ValueError, match=r"^unknown technology 'tsmc5'; known: asap7, sky130hd$"):
        load_technology("tsmc5")


@pytest.mark.parametrize("name", TECHNOLOGIES)
def test_source_and_licence_travel_with_the_table(name):
    table = (TECH / f"{name}.toml").read_text()
    assert "\nlicence = " in table
    assert "\nsource = " in table
    assert (TECH / f"LICENSE.{name}").stat().st_size > 1000


@pytest.mark.parametrize("name", TECHNOLOGIES)
def test_cells_are_consistent(name):
    technology = load_technology(name)
    assert technology.drive_cell in technology.cells
    for tie, value in ((technology.tie_high, "1"), (technology.tie_low, "0")):
        assert technology.cells[tie[0]].outputs[tie[1]] == value
    for cell in technology.cells.values():
        assert cell.area > 0
        for function in cell.outputs.values():
            state = cell.state.names if cell.state else ()
            assert set(parse_function(function).pins) <= {*cell.inputs, *state}
        for arc in cell.arcs:
            assert {arc.source, arc.target} <= {*cell.inputs, *cell.outputs}
            for edge in (arc.rise, arc.fall):
                assert edge.delay.at(technology.clock_slew, 0.0) > 0
                assert edge.slew.at(technology.clock_slew, 0.0) > 0


def test_table_is_bilinear_inside_and_beyond():
    """f(s, c) = 1 + 2 s + 3 c + 4 s c is its own bilinear interpolation."""

    def f(s, c):
        return 1 + 2 * s + 3 * c + 4 * s * c

    slews, loads = (1.0, 2.0, 4.0), (0.0, 5.0)
    table = Table(slews, loads, tuple(tuple(f(s, c) for c in loads) for s in slews))
    for s in (0.0, 1.0, 1.5, 3.0, 4.0, 6.0):
        for c in (0.0, 2.5, 5.0, 8.0):
            assert table.at(s, c) == pytest.approx(f(s, c), rel=1e-12)


@pytest.mark.parametrize("name", TECHNOLOGIES)
def test_liberty_gives_the_table_back(name, tmp_path):
    """Written and read again, every cell is what the compact table says.

    Weak cells and clock gates are left out: neither Yosys nor ABC maps to them.
    """
    technology = load_technology(name)
    path = tmp_path / f"{name}.lib"
    path.write_text(to_liberty(technology))
    again = read_liberty([path], like=technology)
    strong = {
        name: cell
        for name, cell in technology.cells.items()
        if not cell.weak and cell.clock_gate is None
    }
    assert again.cells.keys() == strong.keys()
    assert (again.tie_high, again.tie_low) == (technology.tie_high, technology.tie_low)
    for cell_name, cell in strong.items():
        copy = again.cells[cell_name]
        assert copy.area == cell.area
        assert copy.leakage == pytest.approx(cell.leakage, rel=1e-6)
        assert copy.outputs == cell.outputs
        assert copy.inputs == pytest.approx(cell.inputs, rel=1e-6)
        assert (copy.state, copy.clock_pin) == (cell.state, cell.clock_pin)
        assert copy.setup == pytest.approx(cell.setup, rel=1e-6)
        assert len(copy.arcs) == len(cell.arcs)
        for one, two in zip(
            sorted(cell.arcs, key=lambda a: (a.target, a.source)),
            sorted(copy.arcs, key=lambda a: (a.target, a.source)),
            strict=True,
        ):
            assert (one.source, one.target, one.sense) == (two.source, two.target, two.sense)
            for edge in ("rise", "fall"):
                for slew, load in ((5.0, 1.0), (40.0, 10.0), (500.0, 300.0)):
                    for part in ("delay", "slew"):
                        want = getattr(getattr(one, edge), part).at(slew, load)
                        got = getattr(getattr(two, edge), part).at(slew, load)
                        assert got == pytest.approx(want, rel=1e-4, abs=1e-3)


def test_cache_is_the_users_and_named_by_content(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    technology = load_technology("asap7")
    path = cached_liberty(technology)
    assert tmp_path in path.parents
    assert path.read_text() == to_liberty(technology)
    assert cached_liberty(technology) == path
    changed = replace(technology, max_slew=technology.max_slew + 1)
    assert cached_liberty(changed) != path
    assert len(os.listdir(path.parent)) == 2
