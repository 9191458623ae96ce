"""One design through every step: how area and clock of an accelerator are predicted."""

import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.studies.design import contents, design
from tilewright.synth.system import load_system
from tilewright.synth.whole_timing import load_clock


@pytest.fixture
def leave_out(monkeypatch):
    """Leaves out steps of a design, and its Verilog."""

    def these(*names):
        for name in names:
            monkeypatch.setattr(f"tilewright.studies.design.{name}", lambda *_: iter(()))

    monkeypatch.setattr("tilewright.studies.design.block_verilog", lambda block: "")
    return these


def test_contents_count_each_module_as_often_as_it_occurs():
    units = []
    for columns in (2, 1):
        parts, _ = contents(resolve(f"anda_mxu:small,columns={columns}"))
        units += [bits for name, bits in parts.items() if name.endswith("apu")]
    whole, half = units
    assert whole == 2 * half > 0
    assert contents(resolve("harmonia_array:small"))[1] == {"sram_8x41_1r1w": 3}


def test_the_published_size_has_its_record(leave_out):
    leave_out("_verilog", "_lint", "_model", "_simulation")
    area, clock = design("harmonia").figures
    parts = load_system("harmonia", "asap7")["parts"].values()
    total = sum(part["logic"] + part["memory"] for part in parts)
    assert (area.value, area.kind) == (pytest.approx(total / 1e6), "record, asap7")
    assert clock.value == pytest.approx(1e6 / load_clock("harmonia", "asap7")["period_ps"])


def test_a_step_that_cannot_be_made_leaves_its_reason(leave_out):
    leave_out("_verilog", "_lint", "_simulation")
    figures = {figure.name: figure for figure in design("popcount:odd").figures}
    assert figures["area"].kind == "from a netlist, asap7"
    assert figures["model"].shown == "not done"
    assert figures["model"].note.startswith("no system has a popcount")


@pytest.mark.parametrize(
    ("block", "kind", "note"),
    [
        ("harmonia,rows=4,columns=8", "predicted, programs", "bound by "),
        ("harmonia:small,columns=8", "predicted, formula", "formula only: head_dim is 64"),
    ],
)
def test_a_token_is_that_of_programs_or_says_why_not(block, kind, note, leave_out):
    leave_out("_verilog", "_lint", "_cells", "_simulation")
    token, _ = design(block).figures
    assert (token.name, token.kind) == ("token", kind) and note in token.note
