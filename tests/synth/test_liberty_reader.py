"""A user's Liberty files: what is read, and the one line that refuses what cannot be used."""

import gzip
import re

import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import Goal, synthesise
from tilewright.synth.jobs import require_full_adder
from tilewright.synth.liberty import to_liberty
from tilewright.synth.liberty_reader import read_liberty
from tilewright.synth.technology import load_technology
from tilewright.synth.yosys import SynthesisError

GATE = """
  cell ({name}) {{
    area : {area}
    pin (A) {{ direction : input; capacitance : 0.002; }}
    {second}
    pin (Y) {{
      direction : output; function : "{function}";
      timing () {{
        related_pin : "A{other}"; timing_sense : negative_unate;
        cell_rise (t) {{ values ("0.01, 0.03", "0.02, 0.04"); }}
        rise_transition (t) {{ values ("0.01, 0.03", "0.02, 0.04"); }}
        cell_fall (t) {{ values ("0.01, 0.03", "0.02, 0.04"); }}
        fall_transition (t) {{ values ("0.01, 0.03", "0.02, 0.04"); }}
      }}
    }}
  }}
"""
HEAD = """library ("mine") {
  /* a comment */
  time_unit : "1ns"; capacitive_load_unit (1, pf);
  lu_table_template (t) {
    variable_1 : total_output_net_capacitance; variable_2 : input_net_transition;
    index_1 ("0.0, 0.01"); index_2 ("0.1, 0.3");
  }
"""
INVERTER = GATE.format(name="INV", area="1.5;", second="", other="", function="!A")
SECOND_PIN = "pin (B) { direction : input; capacitance : 0.003; }"
NAND = GATE.format(name="NAND", area="2", second=SECOND_PIN, other=" B", function="!(A B)")


def write(folder, *cells, name="mine.lib"):
    path = folder / name
    path.write_text(HEAD + "".join(cells) + "}\n")
    return path


def test_units_axes_and_missing_semicolon(tmp_path):
    technology = read_liberty([write(tmp_path, INVERTER, NAND)])
    inverter = technology.cells["INV"]
    assert (inverter.area, technology.cells["NAND"].area) == (1.5, 2.0)
    assert inverter.inputs == {"A": pytest.approx(2.0)}  # 0.002 pF
    delay = inverter.arcs[0].rise.delay
    assert delay.at(slew=100.0, load=0.0) == pytest.approx(10.0)  # first axis is the load here
    assert delay.at(slew=300.0, load=0.0) == pytest.approx(30.0)
    assert delay.at(slew=100.0, load=10.0) == pytest.approx(20.0)
    assert [arc.source for arc in technology.cells["NAND"].arcs] == ["A", "B"]
    assert technology.drive_cell == "INV"  # there is no buffer
    assert technology.output_load == pytest.approx(8.0)


def test_gzip_is_read(tmp_path):
    plain = write(tmp_path, INVERTER, NAND)
    packed = tmp_path / "mine.lib.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_liberty([packed]).cells == read_liberty([plain]).cells


def refusal(*paths, **options):
    with pytest.raises(SynthesisError) as refused:
        read_liberty(paths, **options)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_missing_gates_are_named(tmp_path):
    assert refusal(write(tmp_path)) == "mine.lib: has no usable cell"
    assert refusal(write(tmp_path, NAND)) == "mine.lib: lacks an inverter with timing tables"
    assert (
        refusal(write(tmp_path, INVERTER))
        == "mine.lib: lacks a two-input AND, NAND, OR or NOR with timing tables"
    )
    unwanted = refusal(write(tmp_path, INVERTER, NAND), dont_use=["INV*"])
    assert unwanted == "mine.lib: lacks an inverter with timing tables"


def test_missing_and_broken_functions_are_named(tmp_path):
    without = INVERTER.replace('function : "!A";', "")
    assert refusal(write(tmp_path, without)) == (
        "mine.lib: no cell has a function: it has no usable cell"
    )
    broken = NAND.replace("!(A B)", "!(A &")
    assert refusal(write(tmp_path, INVERTER, broken)) == (
        "mine.lib: cell NAND, pin Y: function '!(A &' ends too early"
    )
    foreign = NAND.replace("!(A B)", "!(A C)")
    assert refusal(write(tmp_path, INVERTER, foreign)) == (
        "mine.lib: cell NAND, pin Y: function '!(A C)' names 'C', which is no input of the cell"
    )


def test_a_library_without_full_adder_is_no_measure_of_adders(tmp_path):
    """Only for the goal that uses it, and only for a block that adds."""
    path = tmp_path / "gates.lib"
    text = to_liberty(load_technology("asap7"))
    path.write_text(re.sub(r"  cell \(FAx.*?\n  }\n", "", text, flags=re.DOTALL))
    lacking = read_liberty([path])
    adds, shifts = (to_rtlil(resolve(spec)) for spec in ("popcount:odd", "register_slice:tiny"))
    message = (
        "gates.lib: lacks a full adder, a cell with sum and carry of three inputs;"
        " the goals balanced and fastest do without"
    )
    with pytest.raises(SynthesisError, match=f"^{re.escape(message)}$"):
        require_full_adder(adds, lacking, Goal.AREA)
    require_full_adder(adds, lacking, Goal.BALANCED)
    require_full_adder(shifts, lacking, Goal.AREA)
    path.write_text(text)
    require_full_adder(adds, read_liberty([path]), Goal.AREA)


def test_what_does_not_parse_is_shown_with_its_line(tmp_path):
    path = write(tmp_path, INVERTER, "  cell (X) { area = 3; }\n")
    line = path.read_text().split("area = 3")[0].count("\n") + 1
    assert refusal(path) == f"{path}: line {line}: cannot read 'area = 3; }}'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + INVERTER.rstrip()[:-1], "ends inside cell INV"),
        ("/* nothing */\n", "has no library group"),
        (HEAD.replace('"1ns"', '"1 week"') + INVERTER + "}\n", "cannot read time_unit '1 week'"),
    ],
)
def test_files_that_are_refused(text, message, tmp_path):
    path = tmp_path / "odd.lib"
    path.write_text(text)
    assert refusal(path) == f"{path}: {message}"


def test_not_text(tmp_path):
    path = tmp_path / "binary.lib"
    path.write_bytes(b"\xff\xfe\x00")
    assert refusal(path).startswith(f"{path}: not a Liberty file (")


def test_a_library_without_flip_flop_cannot_hold_registers(tmp_path):
    text = to_liberty(load_technology("asap7"))
    path = tmp_path / "comb.lib"
    path.write_text(re.sub(r"  cell \(DFF.*?\n  }\n", "", text, flags=re.DOTALL))
    technology = read_liberty([path])
    rtlil = """
module \\held
  wire input 1 \\clk
  wire input 2 \\d
  wire output 3 \\q
  cell $dff $r
    parameter \\WIDTH 1
    parameter \\CLK_POLARITY 1
    connect \\CLK \\clk
    connect \\D \\d
    connect \\Q \\q
  end
end
"""
    with pytest.raises(
        SynthesisError, match=r"^comb\.lib has no cell for a flip-flop on the rising clock edge$"
    ):
        synthesise(rtlil, "held", technology)
