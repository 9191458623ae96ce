"""The benchmark of synthesis: what it measures and how it judges."""

import json

from benchmarks import synth_bench


def test_small_run_as_json(capsys):
    assert synth_bench.main(["--json", "--block", "popcount:odd"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["area_um2"] > 0 and figures["first_s"] > 0 and figures["again_s"] > 0


def test_over_the_limit(capsys, monkeypatch):
    slow = {"block": "b", "technology": "t", "first_s": 61.0, "again_s": 1.0}
    monkeypatch.setattr(synth_bench, "measure", lambda *_: slow)
    assert synth_bench.main([]) == 1
    assert capsys.readouterr().out == "b in t: 61.0 s, limit 60 s; again 1.0 s\n"
