"""Static timing: against arithmetic by hand, and against ABC on real designs."""

import re

import pytest
from amaranth.back import rtlil

import tilewright.synth.yosys
from tilewright.synth.flow import Goal, synthesise
from tilewright.synth.netlist import Instance, Netlist, in_signal_order
from tilewright.synth.reference import REFERENCE_DESIGNS
from tilewright.synth.technology import (
    TECHNOLOGIES,
    Arc,
    Cell,
    Edge,
    Plane,
    State,
    Technology,
    load_technology,
)
from tilewright.synth.timing import longest_paths
from tilewright.synth.yosys import SynthesisError

# Load 2 and slew 10 in, unless said otherwise; every number is chosen to be seen in the sums.
INVERTER = Cell(
    name="INV",
    area=1.0,
    leakage=0.0,
    inputs={"A": 2.0},
    outputs={"Y": "!A"},
    arcs=(
        Arc(
            "A",
            "Y",
            "-",
            rise=Edge(Plane(10.0, 1.0, 0.1), Plane(5.0, 1.0, 0.0)),
            fall=Edge(Plane(20.0, 2.0, 0.2), Plane(7.0, 2.0, 0.0)),
        ),
    ),
)
FLOP = Cell(
    name="DFF",
    area=4.0,
    leakage=0.0,
    inputs={"D": 3.0, "CK": 1.0},
    outputs={"Q": "IQ"},
    arcs=(
        Arc(
            "CK",
            "Q",
            "*",
            rise=Edge(Plane(50.0, 1.0, 0.5), Plane(6.0, 1.0, 0.0)),
            fall=Edge(Plane(40.0, 1.0, 0.5), Plane(6.0, 1.0, 0.0)),
        ),
    ),
    state=State(("IQ", "IQN"), "CK", "D"),
    clock_pin="CK",
    setup={"D": 8.0},
)
TOY = Technology(
    name="toy",
    title="",
    corner="",
    cells={"INV": INVERTER, "DFF": FLOP},
    drive_cell="INV",
    output_load=4.0,
    clock_slew=10.0,
    tie_high=None,
    tie_low=None,
    supply=1.0,
)


def toy_netlist(*instances, inputs, outputs, names):
    return Netlist("toy", inputs, outputs, list(instances), names)


def test_combinational_path_by_hand():
    """a -> INV -> INV -> y."""
    netlist = toy_netlist(
        Instance("u1", INVERTER, {"A": 1, "Y": 2}),
        Instance("u2", INVERTER, {"A": 2, "Y": 3}),
        inputs={"a": [1]},
        outputs={"y": [3]},
        names={1: "a", 3: "y"},
    )
    paths = longest_paths(netlist, TOY)
    assert list(paths) == ["input_to_output"]
    path = paths["input_to_output"]
    # a falls: the driver adds 2 * 2 for its load, slew 7 + 2 * 2 = 11
    # u1 rises: 10 + 1 * 2 + 0.1 * 11 = 13.1, slew 5 + 2 = 7
    # u2 falls: 20 + 2 * 4 + 0.2 * 7 = 29.4
    falls = 4 + 13.1 + 29.4
    # a rises: 2, slew 7; u1 falls: 20 + 4 + 1.4 = 25.4, slew 11; u2 rises: 10 + 4 + 1.1 = 15.1
    rises = 2 + 25.4 + 15.1
    assert path.delay == pytest.approx(max(falls, rises))
    assert (path.start, path.end, path.setup) == ("a", "y", 0.0)
    assert [step.cell for step in path.steps] == ["", "INV", "INV"]
    assert [step.edge for step in path.steps] == ["fall", "rise", "fall"]


def test_register_paths_by_hand():
    """q -> INV -> q, and q on an output."""
    netlist = toy_netlist(
        Instance("r$_DFF_P_", FLOP, {"D": 2, "CK": 9, "Q": 1}),
        Instance("u", INVERTER, {"A": 1, "Y": 2}),
        inputs={"clk": [9]},
        outputs={"o": [1]},
        names={9: "clk"},
    )
    paths = longest_paths(netlist, TOY)
    assert list(paths) == ["register_to_register", "register_to_output"]
    # Load of q: 2 + 4. Rises: 50 + 6 + 5 = 61, slew 12; u falls: 20 + 2 * 3 + 2.4 = 28.4; setup 8.
    loop = paths["register_to_register"]
    assert loop.delay == pytest.approx(61 + 28.4 + 8)
    assert (loop.start, loop.end, loop.setup) == ("r", "r", 8.0)
    assert paths["register_to_output"].delay == pytest.approx(61)


def test_reset_is_ideal():
    netlist = toy_netlist(
        *(Instance(f"u{k}", INVERTER, {"A": 1, "Y": 10 + k}) for k in range(100)),
        inputs={"rst": [1]},
        outputs={"y": [10]},
        names={1: "rst"},
    )
    # The 200 fF on rst cost nothing: slew 10, then 20 + 2 * 4 + 2.
    assert longest_paths(netlist, TOY)["input_to_output"].delay == pytest.approx(30)


def test_loop_is_refused():
    netlist = toy_netlist(
        Instance("u1", INVERTER, {"A": 1, "Y": 2}),
        Instance("u2", INVERTER, {"A": 2, "Y": 1}),
        inputs={},
        outputs={},
        names={2: "ring"},
    )
    with pytest.raises(SynthesisError, match=r"^toy: combinational loop through ring$"):
        in_signal_order(netlist)


@pytest.mark.parametrize("technology", TECHNOLOGIES)
@pytest.mark.parametrize("design", ["multiplier", "barrel_shifter", "maximum_tree"])
def test_agrees_with_abc(technology, design, monkeypatch, empty_cache):
    """On combinational netlists without full-adder cells ABC times the same graph."""
    logs = []

    def logged(commands, folder, run=tilewright.synth.yosys.run_yosys):
        logs.append(run(commands, folder))
        return logs[-1]

    monkeypatch.setattr(tilewright.synth.yosys, "run_yosys", logged)
    text = rtlil.convert(REFERENCE_DESIGNS[design](), name=design, emit_src=False)
    result = synthesise(text, design, load_technology(technology), Goal.BALANCED)
    by_abc = float(re.findall(r"Delay = *([\d.]+) ps", logs[0])[-1])
    # ABC works in 32-bit floats and prints two decimals.
    assert result.delay == pytest.approx(by_abc, rel=2e-5, abs=0.011)
