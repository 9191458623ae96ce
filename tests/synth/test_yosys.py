"""Yosys in its own process: quiet, and its errors are ours to catch."""

import pytest

import tilewright.synth.yosys
from tilewright.synth.yosys import SynthesisError, run_yosys, yosys_files


def test_prints_nothing_and_returns_the_log(tmp_path, capfd):
    assert "yosys> " not in (log := run_yosys(["log hello"], tmp_path))
    assert "hello" in log
    assert capfd.readouterr() == ("", "")


def test_error_is_one_line(tmp_path):
    with pytest.raises(SynthesisError, match=r"^Yosys: File `missing\.il' not found or is a dir"):
        run_yosys(["read_rtlil missing.il"], tmp_path)


def test_unknown_command(tmp_path):
    with pytest.raises(SynthesisError, match=r"^Yosys: No such command: nonsense"):
        run_yosys(["nonsense"], tmp_path)


def test_abc_speaks_for_itself(tmp_path):
    (tmp_path / "top.v").write_text("module t(input a, b, output y); assign y = a & b; endmodule")
    (tmp_path / "empty.lib").write_text("library (empty) {\n}\n")
    commands = ["read_verilog top.v", "synth -top t -noabc", "abc -liberty empty.lib"]
    with pytest.raises(SynthesisError, match=r"^ABC: (?!\*\* cmd error)"):
        run_yosys(commands, tmp_path)


def test_sudden_death_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "tilewright.synth.yosys._CHILD", "import os; print('last words'); os.abort()"
    )
    with pytest.raises(SynthesisError, match=r"^Yosys ended with signal 6: "):
        run_yosys([], tmp_path)


def test_the_same_run_is_not_made_again(empty_cache, monkeypatch):
    runs = []

    def counted(commands, folder, run=run_yosys):
        runs.append(commands)
        return run(commands, folder)

    monkeypatch.setattr(tilewright.synth.yosys, "run_yosys", counted)
    gate = "module t(input a, b, output y); assign y = a {} b; endmodule"
    commands = ["read_verilog t.v", "write_verilog -noattr out.v"]

    def written(operator, *more):
        return yosys_files([*commands, *more], {"t.v": gate.format(operator)}, ["out.v"])["out.v"]

    first = written("&")
    assert "a & b" in first and written("&") == first and len(runs) == 1
    assert "a | b" in written("|") and len(runs) == 2  # other files
    assert written("&", "log done") == first and len(runs) == 3  # other commands


def test_what_failed_is_not_kept(empty_cache):
    for _ in range(2):
        with pytest.raises(SynthesisError, match="No such command"):
            yosys_files(["nonsense"], {}, [])
