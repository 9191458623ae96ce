"""Sweeps: what is varied, run, cached, refused; here and on a real Dask cluster."""

import json
import re
import subprocess
import sys
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from tilewright.base.cache import load, result_path
from tilewright.base.errors import CommandError
from tilewright.cli import main
from tilewright.studies.sweeps import runners
from tilewright.studies.sweeps.results import Metric, Result
from tilewright.studies.sweeps.sweep import run_sweep
from tilewright.studies.sweeps.variants import Axis, expand, parse_axis
from tilewright.studies.sweeps.work import Job, VariantError, _simulate, quick_key, run_apart
from tilewright.verify import simulators


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def sweep(capsys, *argv):
    code = main(["sweep", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def test_axes():
    assert parse_axis("style=ripple,sklansky") == Axis("style", ("ripple", "sklansky"))
    assert parse_axis("width=1,4..6").values == ("1", "4", "5", "6")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("width", "--vary takes NAME=VALUE,VALUE,..., not 'width'"),
        ("width=", "--vary takes NAME=VALUE,VALUE,..., not 'width='"),
        ("width=1,,2", "--vary takes NAME=VALUE,VALUE,..., not 'width=1,,2'"),
        ("width=3,1..4", "--vary width: a value is given twice in '3,1..4'"),
        ("width=4..1", "a range is LOW..HIGH of whole numbers, not '4..1'"),
    ],
)
def test_axes_that_are_refused(text, message):
    with pytest.raises(CommandError, match=f"^{re.escape(message)}$"):
        parse_axis(text)


def test_impossible_combinations_are_left_out_and_named():
    found = expand("deca", [Axis("lanes", ("8", "16")), Axis("luts", ("4", "16"))])
    assert found.specs == (
        "deca,lanes=8,luts=4",
        "deca,lanes=16,luts=4",
        "deca,lanes=16,luts=16",
    )
    assert found.left_out == {"deca,lanes=8,luts=16": "luts must be 1..8 (lanes), not 16"}


ARGV = ("popcount", "--vary", "width=3,5", "--tech", "asap7")


def test_a_sweep_is_resumed_from_the_cache(capsys, monkeypatch, tmp_path):
    code, out, err = sweep(capsys, *ARGV, "--json", "--out", str(tmp_path / "out"))
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [r["parameters"]["width"] for r in found["results"]] == [3, 5]
    areas = [r["metrics"]["area"]["value"] for r in found["results"]]
    assert 0 < areas[0] < areas[1]
    for result, width in zip(found["results"], (3, 5), strict=True):
        path = tmp_path / "out" / f"popcount__width_{width}.asap7.area.json"
        assert json.loads(path.read_text()) == result
    # One of them is damaged: only that one is worked out again.
    result_path(quick_key(Job("popcount,width=5", "asap7"))).write_text("{")
    asked = []

    def watched(fields):
        asked.append(fields["spec"])
        return run_apart(fields)

    monkeypatch.setattr(runners, "run_apart", watched)
    assert sweep(capsys, *ARGV, "--json")[1] == out
    assert asked == ["popcount,width=5"]
    code, out, _ = sweep(capsys, *ARGV)
    assert code == 0
    assert out.splitlines()[0].split() == [
        *("WIDTH", "TECHNOLOGY", "GOAL", "AREA", "UM2", "CELLS", "REGISTERS", "DELAY", "PS")
    ]
    assert asked == ["popcount,width=5"]


def test_the_same_from_python(capsys):
    found = run_sweep("deca", [Axis("lanes", ("8",)), Axis("luts", ("1", "8"))], technologies=[])
    assert (found.results, found.left_out, found.failures) == ((), (), ())
    found = run_sweep("popcount", [Axis("width", ("3",))], technologies=["asap7"], goal="fastest")
    (result,) = found.results
    assert (result.spec, result.goal) == ("popcount,width=3", "fastest")
    assert result.metrics["area"].unit == "um2" and result.longest_path is not None
    assert Result.from_json(json.loads(json.dumps(asdict(result)))) == result
    assert capsys.readouterr() == ("", "")


def test_one_failing_variant_does_not_stop_the_rest(capsys, monkeypatch, tmp_path):
    def fails(fields):
        if fields["spec"].endswith("=3"):
            raise VariantError("Yosys: out of memory")
        numbers = {"area": 1.0, "cells": 2, "register_bits": 0, "delay": 3.0}
        result = Result(
            spec=fields["spec"],
            technology="asap7",
            goal="area",
            parameters={"width": 5},
            metrics={name: Metric(value, "") for name, value in numbers.items()},
            rtlil_sha256="",
        )
        return {"sources": "", "result": asdict(result)}

    monkeypatch.setattr(runners, "run_apart", fails)
    code, out, _ = sweep(capsys, *ARGV, "--out", str(tmp_path / "out"))
    assert code == 1
    assert out.endswith("\n1 of 2 failed:\n  popcount,width=3 in asap7: Yosys: out of memory\n")
    assert re.search(r"^ *5  asap7 ", out, re.MULTILINE)
    assert len(list((tmp_path / "out").iterdir())) == 1
    code, out, _ = sweep(capsys, *ARGV, "--json")
    failures = json.loads(out)["failures"]
    assert (code, [f["reason"] for f in failures]) == (1, ["Yosys: out of memory"])
    assert load(quick_key(Job("popcount,width=5", "asap7"))) is None  # other sources: not cached


def test_a_failure_is_one_line():
    with pytest.raises(VariantError, match=r"^unknown technology 'asap8'"):
        run_apart({"spec": "popcount", "technology": "asap8"})
    with pytest.raises(VariantError, match=r"^TypeError: .*unexpected keyword argument 'x'$"):
        run_apart({"x": 1})


def test_a_crash_is_told(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(VariantError, match=r"^ended with exit code 1 and said nothing$"):
        run_apart({"spec": "popcount", "technology": "asap7"})


def test_a_bench_that_fails_is_the_variants_failure(monkeypatch):
    failed = SimpleNamespace(passed=False, failure="port o, case 3: got 1\nmore", numbers={})
    monkeypatch.setattr(simulators, "run_bench", lambda *_, **__: failed)
    with pytest.raises(VariantError, match=r"^simulation: port o, case 3: got 1$"):
        _simulate(Job("popcount,width=3", "asap7", simulate=5))


@pytest.mark.full
def test_variants_are_simulated_and_meet_a_clock(capsys):
    argv = ("popcount", "--vary", "width=3", "--tech", "asap7", "--json")
    code, out, _ = sweep(capsys, *argv, "--simulate", "--cases", "20", "--clock", "5000")
    (result,) = json.loads(out)["results"]
    assert code == 0
    assert result["simulation"]["cases"] >= 20 and result["simulation"]["cycles"] > 0
    slack, delay = (result["metrics"][name] for name in ("slack", "delay"))
    assert slack["value"] == pytest.approx(5000 - delay["value"], abs=0.11)
    assert slack["unit"] == delay["unit"] == "ps"


def test_dask_is_asked_for_where_it_is_missing(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, _, err = sweep(capsys, *ARGV, "--dask", "tcp://127.0.0.1:1")
    assert (code, err) == (2, "tilewright: --dask needs Dask: pip install 'tilewright[dask]'\n")


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and two workers, each a process of its own."""
    file = tmp_path / "scheduler.json"
    common = ["--no-dashboard", "--scheduler-file", str(file)]
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", "0", *common]
    worker = ["worker", "--nthreads", "1", "--no-nanny", *common]
    worker += ["--local-directory", str(tmp_path / "work")]
    processes = []
    try:
        for command in (scheduler, worker, worker):
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "dask", *command],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        while not file.exists():
            assert processes[0].poll() is None
        yield json.loads(_complete(file))["address"]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def _complete(file):
    """The text of a JSON file that another process is writing."""
    while True:
        text = file.read_text()
        if text.endswith("}"):
            return text


def test_a_dask_cluster_gives_the_same(capsys, cluster, monkeypatch, tmp_path):
    code, out, err = sweep(capsys, *ARGV, "--json", "--dask", cluster)
    assert (code, err) == (0, "")
    on_cluster = json.loads(out)["results"]
    assert len(on_cluster) == 2
    # What came back is cached here: no cluster is asked a second time.
    assert sweep(capsys, *ARGV, "--json", "--dask", "tcp://127.0.0.1:1")[1] == out
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    assert json.loads(sweep(capsys, *ARGV, "--json")[1])["results"] == on_cluster


def test_workers_with_other_sources_are_refused(capsys, cluster, monkeypatch):
    from distributed import Client

    monkeypatch.setattr(Client, "run", lambda *_: {"tcp://10.0.0.9:1": "other sources"})
    code, _, err = sweep(capsys, *ARGV, "--dask", cluster)
    message = "worker tcp://10.0.0.9:1 has other sources than this machine"
    assert (code, err) == (2, f"tilewright: {message}\n")


def test_no_scheduler(capsys, monkeypatch):
    monkeypatch.setattr(runners, "CONNECT_SECONDS", 0.3)
    code, _, err = sweep(capsys, *ARGV, "--dask", "tcp://127.0.0.1:1")
    assert code == 2
    assert err.startswith("tilewright: no Dask scheduler answers at tcp://127.0.0.1:1: ")
