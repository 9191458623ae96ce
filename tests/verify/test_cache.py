"""Built once, whole or not at all, whoever asks at the same time."""

import multiprocessing
import os
import shutil
import subprocess
import time
import uuid

import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_verilog
from tilewright.verify.job import Job
from tilewright.verify.simulators import cache, run_bench
from tilewright.verify.simulators.find import find_compiler
from tilewright.verify.simulators.programs import is_gcc
from tilewright.verify.simulators.run import build_simulation


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tilewright" / "sim"


def write_marker(folder):
    (folder / "marker").write_text("made")


def test_made_once_per_content(folder):
    made = []
    for parts in (["a", "b"], ["a", "b"], ["ab"], ["a", "b", ""]):
        cache.cached(parts, made.append)
    assert len(made) == 3


def test_failure_leaves_nothing(folder):
    def fail(place):
        write_marker(place)
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match=r"^half way$"):
        cache.cached(["x"], fail)
    assert [path for path in folder.iterdir() if path.is_dir()] == []
    assert (cache.cached(["x"], write_marker) / "marker").read_text() == "made"


def make_slowly(place):
    with (place.parent / "starts").open("a") as starts:
        starts.write("start\n")
    time.sleep(0.3)
    write_marker(place)


def ask(_):
    return (cache.cached(["shared"], make_slowly) / "marker").read_text()


def test_processes_wait_for_the_first(folder):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.map(ask, range(3), chunksize=1) == ["made"] * 3
    assert (folder / "starts").read_text() == "start\n"


def test_unused_entries_go(folder):
    old = cache.cached(["old"], write_marker)
    fresh = cache.cached(["fresh"], write_marker)
    long_ago = time.time() - cache.UNUSED_SECONDS - 1
    os.utime(old, (long_ago, long_ago))
    cache.cached(["another"], write_marker)
    assert fresh.is_dir()
    assert not old.exists()


@pytest.mark.parametrize("simulator", ["verilator", "icarus"])
def test_second_run_starts_no_compiler(simulator, monkeypatch):
    started, commands = [], []
    run = subprocess.run

    def noting(command, **options):
        started.append(os.path.basename(command[0]))
        commands.append(command)
        return run(command, **options)

    params = resolve("popcount")
    verilog = f"// {uuid.uuid4()}\n{to_verilog(params)}"  # never built before
    module = "tilewright.verify.stream_tests"
    setting = {"simulator": simulator, "job": Job("popcount", cases=5).as_dict()}
    monkeypatch.setattr(subprocess, "run", noting)
    first = run_bench(verilog, params.slug, module, **setting)
    compilers = [name for name in started if name not in ("sim", "vvp")]
    assert compilers
    if simulator == "verilator" and is_gcc(find_compiler()):
        (header,) = (c[c.index("-include") + 1] for c in commands if "-include" in c)
        assert os.path.getsize(f"{header}.gch") > 1 << 20  # compiled, beside it
    started.clear()
    second = run_bench(verilog, params.slug, module, **setting)
    assert started in (["sim"], ["vvp"])
    assert first.passed and second.passed
    shutil.rmtree(build_simulation(verilog, params.slug, simulator).parent)
