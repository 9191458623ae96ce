"""The benchmark of the golden models runs, and what it measures is judged by its limits."""

import json

import pytest

from benchmarks import __main__ as command
from benchmarks import golden
from benchmarks.race import Figure


def test_a_small_run(capsys):
    figures = [*golden.measure(rows=4, duration=0), *golden.measure_anda(rows=4, size=128)]
    names = [figure.name for figure in figures]
    assert (
        names[0] == "encode fp16 to bfp8g64" and "peak memory of bf16 cast over its input" in names
    )
    assert all(figure.value > 0 for figure in figures)
    missing = [line for line in capsys.readouterr().err.splitlines() if "left out" in line]
    raced = [name for name in golden.PEERS if any(name in figure for figure in names)]
    assert len(missing) + len(raced) == len(golden.PEERS)


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
