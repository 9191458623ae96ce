"""Yosys in its own process: quiet, and its errors are ours to catch."""

import pytest

from synth.yosys import SynthesisError, run_yosys


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
    monkeypatch.setattr("synth.yosys._CHILD", "import os; print('last words'); os.abort()")
    with pytest.raises(SynthesisError, match=r"^Yosys ended with signal 6: "):
        run_yosys([], tmp_path)
