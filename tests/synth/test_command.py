"""``tilewright synth`` as a user meets it."""

import json

import pytest

from tilewright.cli import main
from tilewright.synth.record import committed_form, load_records
from tilewright.synth.technology import load_technology


def run(capsys, *argv):
    code = main(["synth", *map(str, argv)])
    out, err = capsys.readouterr()
    return code, out, err


def test_table_and_files(capsys, tmp_path):
    netlist_file = tmp_path / "netlist.v"
    asked = ("popcount:odd", "--tech", "asap7", "--netlist", netlist_file)
    code, out, err = run(capsys, *asked, "--path")
    assert (code, err) == (0, "")
    header, row, *rest = out.splitlines()
    assert header.split()[:4] == ["BLOCK", "TECHNOLOGY", "GOAL", "CELLS"]
    assert row.split()[:3] == ["popcount:odd", "asap7", "area"]
    assert any(line.startswith("FAx1_ASAP7_75t_R") for line in rest)
    (record,) = json.loads(run(capsys, *asked, "--json")[1])
    del record["seconds"]
    committed = load_records()["popcount__width_13.asap7"]
    assert committed_form(record) | {"proof": committed["proof"]} == committed
    verilog = netlist_file.read_text()
    assert "module popcount__width_13" in verilog
    assert verilog.count("FAx1_ASAP7_75t_R") == record["cells_by_kind"]["FAx1_ASAP7_75t_R"]


def test_json_and_clock(capsys):
    code, out, _ = run(capsys, "popcount:odd", "--tech", "asap7", "--clock", "0.39 ns", "--json")
    (record,) = json.loads(out)
    assert code == 0 and record["seconds"] >= 0
    assert record["goal"] == "balanced"
    assert record["metrics"]["delay"]["value"] <= 390


def test_slack_is_shown(capsys):
    _, out, _ = run(capsys, "popcount:odd", "--tech", "asap7", "--goal", "area", "--clock", "100")
    header, row = out.splitlines()
    assert "SLACK PS" in header
    assert any(word.startswith("-") and word != "->" for word in row.split())


def test_parts(capsys):
    _, out, _ = run(capsys, "queue:tiny", "--tech", "asap7", "--hierarchy")
    share = out.split("area by part\n")[1].splitlines()[1:]
    assert sum(float(line.split()[2]) for line in share) == pytest.approx(100, abs=0.2)


def test_unusable_liberty_is_one_line(capsys, tmp_path):
    path = tmp_path / "bad.lib"
    path.write_text("library (x) { cell (A) { area : 1; } }")
    code, out, err = run(capsys, "popcount", "--liberty", path)
    assert (code, out) == (2, "")
    assert err == "tilewright: bad.lib: no cell has a function: it has no usable cell\n"


def test_missing_liberty(capsys, tmp_path):
    code, _, err = run(capsys, "popcount", "--liberty", tmp_path / "no.lib")
    assert code == 2
    assert err.count("\n") == 1
    assert "no.lib" in err


def test_users_library_needs_no_table(capsys, tmp_path):
    from tilewright.synth.liberty import to_liberty

    path = tmp_path / "own.lib"
    path.write_text(to_liberty(load_technology("sky130hd")))
    code, out, _ = run(capsys, "popcount:odd", "--liberty", path, "--json")
    (record,) = json.loads(out)
    assert code == 0
    assert record["technology"] == "own.lib"
    assert record["liberty_sha256"] is None
    assert record["metrics"]["area"]["value"] > 0
