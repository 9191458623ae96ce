"""The flow from RTLIL to cells."""

import pytest
from amaranth.back import rtlil

from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import Goal, synthesise, synthesise_for_clock
from tilewright.synth.liberty import cached_liberty
from tilewright.synth.liberty_reader import read_liberty
from tilewright.synth.reference import REFERENCE_DESIGNS
from tilewright.synth.technology import TECHNOLOGIES, load_technology

ASAP7 = load_technology("asap7")


@pytest.fixture(scope="module")
def multiplier():
    return rtlil.convert(REFERENCE_DESIGNS["multiplier"](), name="multiplier", emit_src=False)


@pytest.fixture(scope="module")
def by_goal(multiplier):
    return {goal: synthesise(multiplier, "multiplier", ASAP7, goal) for goal in Goal}


def test_goals_trade_area_for_delay(by_goal):
    area, balanced, fastest = (by_goal[goal] for goal in Goal)
    assert area.netlist.area < balanced.netlist.area < fastest.netlist.area
    assert area.delay > balanced.delay > fastest.delay


def test_area_goal_uses_full_adders(by_goal):
    assert by_goal[Goal.AREA].netlist.cell_counts["FAx1_ASAP7_75t_R"] > 20
    assert "FAx1_ASAP7_75t_R" not in by_goal[Goal.BALANCED].netlist.cell_counts


def test_clock_takes_the_smallest_that_meets_it(multiplier, by_goal):
    area, balanced, fastest = (by_goal[goal].delay for goal in Goal)
    for period, goal in [
        (area, Goal.AREA),
        (area - 1, Goal.BALANCED),
        (balanced - 1, Goal.FASTEST),
        (fastest / 2, Goal.FASTEST),  # nothing meets it
    ]:
        result = synthesise_for_clock(multiplier, "multiplier", ASAP7, period)
        assert (result.goal, result.delay) == (goal, by_goal[goal].delay)


def test_same_twice(multiplier, by_goal, empty_cache):
    again = synthesise(multiplier, "multiplier", ASAP7)
    assert again.verilog == by_goal[Goal.AREA].verilog
    assert again.paths == by_goal[Goal.AREA].paths
    assert again.verilog.startswith("module multiplier(")  # no banner with the compiler's name


def test_generated_liberty_as_the_users_own(multiplier, by_goal, tmp_path):
    """The reader, and a path with a space, change nothing."""
    folder = tmp_path / "my cells"
    folder.mkdir()
    path = folder / "a.lib"
    path.write_text(cached_liberty(ASAP7).read_text())
    technology = read_liberty([path], like=ASAP7)
    result = synthesise(multiplier, "multiplier", technology)
    assert result.netlist.cell_counts == by_goal[Goal.AREA].netlist.cell_counts
    assert result.delay == pytest.approx(by_goal[Goal.AREA].delay, rel=1e-4)


@pytest.mark.parametrize("technology", TECHNOLOGIES)
def test_registers_keep_their_names(technology):
    params = resolve("adder_tree:pipelined,terms=4")
    result = synthesise(to_rtlil(params), params.slug, load_technology(technology))
    assert result.netlist.register_bits > 0
    path = result.paths["register_to_output"]
    assert not path.start.startswith("$")
    assert "$" not in path.end
    assert set(result.paths) == {
        "input_to_output",  # o.ready to i.ready
        "input_to_register",
        "register_to_register",
        "register_to_output",
    }


def test_a_constant_is_a_tie_cell_and_no_path():
    text = "module \\one\n  wire output 1 \\y\n  connect \\y 1'1\nend\n"
    result = synthesise(text, "one", ASAP7)
    assert result.netlist.cell_counts == {"TIEHIx1_ASAP7_75t_R": 1}
    assert (result.longest, result.delay) == (None, 0.0)
