"""Sweeps: what is varied, run, cached, refused; here and on a real Dask cluster."""

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tilewright.base.errors import CommandError
from tilewright.cli import main
from tilewright.studies.runs import simulation
from tilewright.studies.sweeps import sweep as sweeps
from tilewright.studies.sweeps.sweep import (
    Axis,
    Job,
    LeftOut,
    expand,
    failures_of,
    parse_axis,
    run_sweep,
)
from tilewright.synth import yosys
from tilewright.synth.yosys import SynthesisError


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
    specs, left_out = expand("deca", [Axis("lanes", ("8", "16")), Axis("luts", ("4", "16"))])
    assert specs == ("deca,lanes=8,luts=4", "deca,lanes=16,luts=4", "deca,lanes=16,luts=16")
    assert left_out == (LeftOut("deca,lanes=8,luts=16", "luts must be 1..8 (lanes), not 16"),)


ARGV = ("popcount", "--vary", "width=3,5", "--tech", "asap7")


def test_a_sweep_is_resumed_from_the_cache(capsys, monkeypatch, tmp_path):
    code, out, err = sweep(capsys, *ARGV, "--json", "--jobs", "2", "--out", str(tmp_path / "out"))
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [r["parameters"]["width"] for r in found["results"]] == [3, 5]
    areas = [r["metrics"]["area"]["value"] for r in found["results"]]
    assert 0 < areas[0] < areas[1]
    for result, width in zip(found["results"], (3, 5), strict=True):
        path = tmp_path / "out" / f"popcount__width_{width}.asap7.area.json"
        assert json.loads(path.read_text()) == result
    monkeypatch.setattr(yosys, "run_yosys", None)  # what it gave is cached
    assert sweep(capsys, *ARGV, "--json", "--jobs", "1")[1] == out
    code, out, _ = sweep(capsys, *ARGV, "--jobs", "1")
    assert code == 0
    assert out.splitlines()[0].split() == [
        *("WIDTH", "TECHNOLOGY", "GOAL", "AREA", "UM2", "CELLS", "REGISTERS", "DELAY", "PS")
    ]


def test_the_same_from_python(capsys):
    found = run_sweep("deca", [Axis("lanes", ("8",)), Axis("luts", ("1", "8"))], technologies=[])
    assert (found.results, found.left_out, found.failures) == ((), (), ())
    found = run_sweep("popcount", [Axis("width", ("3",))], technologies=["asap7"], goal="fastest")
    (result,) = found.results
    assert (result.spec, result.goal) == ("popcount,width=3", "fastest")
    assert result.metrics["area"]["unit"] == "um2" and result.longest_path is not None
    assert capsys.readouterr() == ("", "")


def test_one_failing_variant_does_not_stop_the_rest(capsys, monkeypatch, tmp_path):
    usual = sweeps.synthesise

    def fails(rtlil, name, *options):
        if name.endswith("_3"):
            raise SynthesisError("Yosys: out of memory")
        return usual(rtlil, name, *options)

    monkeypatch.setattr(sweeps, "synthesise", fails)
    argv = (*ARGV, "--jobs", "1")
    code, out, _ = sweep(capsys, *argv, "--out", str(tmp_path / "out"))
    assert code == 1
    assert out.endswith("\n1 of 2 failed:\n  popcount,width=3 in asap7: Yosys: out of memory\n")
    assert re.search(r"^ *5  asap7 ", out, re.MULTILINE)
    assert len(list((tmp_path / "out").iterdir())) == 1
    code, out, _ = sweep(capsys, *argv, "--json")
    failures = json.loads(out)["failures"]
    assert (code, [f["reason"] for f in failures]) == (1, ["Yosys: out of memory"])


def test_a_failure_is_one_line(monkeypatch):
    assert sweeps.work_out(Job("popcount", "asap8")).reason.startswith("unknown technology 'asap8'")
    failed = SimpleNamespace(failure="port o, case 3: got 1\nmore", numbers={})
    monkeypatch.setattr(simulation, "run_bench", lambda *_, **__: failed)
    found = sweeps.work_out(Job("popcount,width=3", "asap7", simulate=5))
    assert found.reason == "simulation: port o, case 3: got 1"


def dies(job):
    os._exit(1)


def test_a_crash_is_told(monkeypatch):
    monkeypatch.setattr(sweeps, "work_out", dies)
    jobs = [Job("popcount,width=3", "asap7"), Job("popcount,width=5", "asap7")]
    failures = failures_of(jobs, sweeps.run_jobs(jobs, workers=2))
    assert {f.reason for f in failures} == {"its process, or that of another variant, has died"}
    assert len(failures) == 2


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


def test_what_dask_needs_is_said(capsys, monkeypatch):
    words = (*ARGV, "--dask", "tcp://127.0.0.1:1")
    monkeypatch.setattr(sweeps, "CONNECT_SECONDS", 0.3)
    code, _, err = sweep(capsys, *words)
    assert code == 2
    assert err.startswith("tilewright: no Dask scheduler answers at tcp://127.0.0.1:1: ")
    monkeypatch.setitem(sys.modules, "distributed", None)
    missing = "tilewright: --dask needs Dask: pip install 'tilewright[dask]'\n"
    assert sweep(capsys, *words)[::2] == (2, missing)


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and a worker, each a process of its own."""
    file = tmp_path / "scheduler.json"
    common = ["--no-dashboard", "--scheduler-file", str(file)]
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", "0", *common]
    worker = ["worker", "--nthreads", "1", "--no-nanny", *common]
    worker += ["--local-directory", str(tmp_path / "work")]
    processes = []
    try:
        for command in (scheduler, worker):
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "dask", *command],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        while not (file.exists() and file.read_text().endswith("}")):
            assert processes[0].poll() is None
        yield json.loads(file.read_text())["address"]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def test_a_dask_cluster_gives_the_same(capsys, cluster, monkeypatch):
    code, out, err = sweep(capsys, *ARGV, "--json", "--dask", cluster)
    assert (code, err) == (0, "")
    assert json.loads(out)["results"] == json.loads(sweep(capsys, *ARGV, "--json")[1])["results"]
    assert len(json.loads(out)["results"]) == 2
    monkeypatch.setattr("distributed.Client.run", lambda *_: {"tcp://10.0.0.9:1": "others"})
    code, _, err = sweep(capsys, *ARGV, "--dask", cluster)
    message = "worker tcp://10.0.0.9:1 has other sources than this machine"
    assert (code, err) == (2, f"tilewright: {message}\n")
