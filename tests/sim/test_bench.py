"""The tasks of the benchmarks run, and their figures are judged by their limits."""

import json

import pytest

from benchmarks import __main__ as command
from benchmarks import programs
from benchmarks.race import Figure


def test_a_missed_limit_fails(capsys, monkeypatch):
    figures = [Figure("fast", 0.5, limit=1.0), Figure("slow", 2.0, "GB", 1.0), Figure("free", 9.0)]
    monkeypatch.setattr(command, "BENCHES", {"all": lambda: figures, "fine": lambda: figures[::2]})
    assert command.main(["all", "--json"]) == 1
    out, err = capsys.readouterr()
    assert [row["good"] for row in json.loads(out)] == [True, False, True]
    assert "         2 GB   slow  (at most 1)  MISSED" in err.splitlines()
    assert command.main(["fine"]) == 0
    with pytest.raises(SystemExit):
        command.main(["gold"])


def test_the_tasks_run():
    programs.roof_surface()
    programs.table6()
    seconds, peak = programs.command("--version")
    assert seconds > 0 and peak > 1 << 20
