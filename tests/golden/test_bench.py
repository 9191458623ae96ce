"""The benchmark script runs, reports what it left out and judges what it measured."""

import json

from benchmarks.golden_bench import Memory, Race, installed, main, table


def test_small_run_as_json(capsys):
    main(["--json", "--rows", "4", "--seconds", "0"])
    record = json.loads(capsys.readouterr().out)
    tasks = [race["task"] for race in record["races"]]
    assert tasks[:2] == [
        "block floating point encode, 4x4096 fp16 to bfp8g64",
        "bf16 cast, 4x4096 fp32",
    ]
    assert all(race["golden"] > 0 for race in record["races"])
    assert [entry["ratio"] > 0 for entry in record["memory"]] == [True, True]
    race = record["races"][0]
    assert {*race["peers"], *race["missing"]} == {"torchao MXFP8", "microxcaling int8"}


def test_missing_peers_are_named():
    def unavailable(values):
        raise ImportError("No module named 'torchao'")

    contestants, missing = installed({"torchao MXFP8": unavailable}, None)
    assert contestants == {} and missing == {"torchao MXFP8": "No module named 'torchao'"}
    race = Race("encode", 1000, golden=0.5, peers={}, targets={}, missing=missing)
    lines = table([race], []).splitlines()
    assert "    torchao MXFP8: skipped, not installed (No module named 'torchao')" in lines


def test_targets_are_judged():
    race = Race(
        "encode", 1000, golden=0.5, peers={"slow": 1.6, "fast": 0.4},
        targets={"slow": 1 / 3, "fast": 1.0},
    )  # fmt: skip
    assert race.verdict("slow") and not race.verdict("fast")
    report = table([race], [Memory("encode", 3.9), Memory("cast", 4.0)])
    assert "fast: 400.0 ms; golden takes 1.25 of that, target at most 1.00: MISSED" in report
    assert "peak memory of encode: 3.90 of its input, target below 4: met" in report
    assert "peak memory of cast: 4.00 of its input, target below 4: MISSED" in report
