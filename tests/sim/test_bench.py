"""The tasks of the benchmarks run, and their figures are judged by their limits."""

import pytest

from benchmarks import __main__ as programs
from benchmarks.race import Figure


def test_a_missed_limit_fails(capsys, monkeypatch):
    figures = [Figure("fast", 0.5, limit=1.0), Figure("slow", 2.0, "GB", 1.0), Figure("free", 9.0)]
    monkeypatch.setattr(programs, "BENCHES", {"all": lambda: figures, "fine": lambda: figures[::2]})
    assert programs.main(["all"]) == 1
    assert "         2 GB   slow  (at most 1)  MISSED" in capsys.readouterr().out.splitlines()
    assert programs.main(["fine"]) == 0
    with pytest.raises(SystemExit):
        programs.main(["gold"])


def test_the_tasks_run():
    programs.roof_surface()
    programs.table6()
    seconds, peak = programs.command("--version")
    assert seconds > 0 and peak > 1 << 20
