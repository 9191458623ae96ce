"""A simulation is compiled once."""

import os
import shutil
import subprocess
import sys
import uuid

import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.synth import emitted
from tilewright.synth.emit import to_verilog
from tilewright.verify.job import Job
from tilewright.verify.simulators import run_bench
from tilewright.verify.simulators.find import BuildError, find_compiler, import_path, is_gcc
from tilewright.verify.simulators.run import block_verilog


@pytest.mark.parametrize("simulator", ["verilator", "icarus"])
def test_second_run_starts_no_compiler(simulator, monkeypatch):
    started, commands = [], []
    run = subprocess.run

    def noting(command, **options):
        started.append(os.path.basename(command[0]))
        commands.append(command)
        return run(command, **options)

    params = resolve("popcount")
    text = f"// {uuid.uuid4()}\n{to_verilog(params)}"  # never built before
    module = "tilewright.verify.stream_tests"
    setting = {"simulator": simulator, "job": Job("popcount", cases=5).as_dict()}
    monkeypatch.setattr(subprocess, "run", noting)
    first = run_bench(text, params.slug, module, **setting)
    compilers = [name for name in started if name not in ("sim", "vvp")]
    assert compilers
    if simulator == "verilator" and is_gcc(find_compiler()):
        (header,) = (c[c.index("-include") + 1] for c in commands if "-include" in c)
        assert os.path.getsize(f"{header}.gch") > 1 << 20  # compiled, in the same folder
    started.clear()
    second = run_bench(text, params.slug, module, **setting)
    assert started in (["sim"], ["vvp"])
    assert first.passed and second.passed
    shutil.rmtree(os.path.dirname(commands[-1][-1]))


def test_verilog_of_other_sources_is_not_kept(monkeypatch, tmp_path):
    """The process that writes Verilog may import other files than this one has hashed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(emitted, "SOURCES", ("tilewright.golden.params",))
    with pytest.raises(BuildError, match=r"^the Verilog of popcount was written from "):
        block_verilog("popcount")
    assert not list(tmp_path.rglob("popcount*.v"))


def test_imports_do_not_depend_on_the_folder(monkeypatch, tmp_path):
    """A relative entry of ``sys.path`` means the folder of this process in its children too."""
    monkeypatch.setattr(sys, "path", ["", "tests", *sys.path])
    here = os.getcwd()
    assert import_path().split(os.pathsep)[:2] == [here, os.path.join(here, "tests")]
