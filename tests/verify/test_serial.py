"""Accelerators in the shell of a bitstream, driven over their serial line."""

import json

import numpy as np
import pytest
from amaranth.back import rtlil

from tilewright.golden.params.machine import Error
from tilewright.golden.params.resolve import resolve
from tilewright.hw.shared import SharedModules
from tilewright.hw.soc.serial_system import SerialSystem
from tilewright.synth.emit import verilog_from_rtlil
from tilewright.verify.job import Job
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.machine.workload import gemm_of
from tilewright.verify.simulators import default_simulator, run_bench

LINES, DIVIDER = 128, 4


@pytest.mark.full
@pytest.mark.parametrize("block", ["anda", "harmonia"])
def test_a_stream_runs_over_the_serial_line(block):
    """The memory is golden's afterwards, byte for byte."""
    spec = f"{block}:small"
    params = resolve(spec)
    options = {"tokens": 2, "inputs": 16, "outputs": 4, "from_memory": True, "mantissa": 5}
    (line,), before = gemm_of(params, np.random.default_rng(1), options)
    assert len(before) <= LINES * params.line_bytes
    after = before.copy()
    outcome = accelerator_of(params).machine(params, after).run_stream(line)
    assert outcome.error is Error.NONE and (after != before).any()
    platform, top = SharedModules(), f"serial_{block}"
    system = SerialSystem(resolve(f"{block}_axi:small"), lines=LINES, divider=DIVIDER)
    text = rtlil.convert(system, name=top, platform=platform, emit_src=False)
    task = {
        "before": before.tobytes().hex(),
        "after": after.tobytes().hex(),
        "line": line,
        "divider": DIVIDER,
    }
    found = run_bench(
        verilog_from_rtlil(text + "".join(platform.modules.values())),
        top,
        "tests.support.serial_bench",
        simulator=default_simulator(),
        job=Job(spec).as_dict(),
        environment={"TILEWRIGHT_TASK": json.dumps(task)},
    )
    assert found.passed, found.failure
