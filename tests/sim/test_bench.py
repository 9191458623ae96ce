"""The benchmark of the performance model judges what it measured and times peers on request."""

import json
import sys

import pytest

from benchmarks import model_bench


@pytest.mark.parametrize(("seconds", "code"), [(0.5, 0), (2.0, 1)])
def test_a_missed_limit_is_an_exit_code(capsys, monkeypatch, seconds, code):
    monkeypatch.setattr(model_bench, "best", lambda task, rounds=1: seconds)
    monkeypatch.setattr(sys, "argv", ["model_bench", "--json", "--peer", "zigzag=run it"])
    assert model_bench.main() == code
    rows = json.loads(capsys.readouterr().out)
    assert rows[-1]["task"] == "zigzag, start to finish"
    assert rows[-1]["good"] is True  # a peer has no limit
    assert [row["good"] for row in rows[:3]] == [code == 0] * 3


def test_the_tasks_run():
    model_bench.roof_surface()
    model_bench.table6()
    model_bench.process([sys.executable, "-c", "pass"])()
