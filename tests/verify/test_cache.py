"""A simulation is compiled once."""

import os
import shutil
import subprocess
import uuid

import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_verilog
from tilewright.verify.job import Job
from tilewright.verify.simulators import run_bench
from tilewright.verify.simulators.find import find_compiler
from tilewright.verify.simulators.programs import is_gcc
from tilewright.verify.simulators.run import build_simulation


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
