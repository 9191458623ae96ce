"""The accelerators with AXI, between AXI models that are not ours."""

import pytest

from tilewright.golden.params.resolve import resolve
from tilewright.verify.job import Job
from tilewright.verify.simulators import run_bench
from tilewright.verify.simulators.run import block_verilog

BENCH = "tilewright.verify.machine.axi"


@pytest.mark.parametrize(
    "spec", ["anda_axi:small", pytest.param("harmonia_axi:small", marks=pytest.mark.full)]
)
def test_programs_behind_axi(spec):
    verilog, job = block_verilog(spec), Job(spec).as_dict()
    result = run_bench(verilog, resolve(spec).slug, BENCH, simulator="verilator", job=job)
    assert result.passed, result.failure
    assert len(result.tests) == 7


def test_lines_are_no_wider_than_axi():
    with pytest.raises(ValueError, match=r"^line_bytes must be at most 128, not 256$"):
        resolve("anda_axi:small,line_bytes=256")
