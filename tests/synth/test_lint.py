"""Every preset's Verilog under ``verilator --lint-only -Wall`` with the project's waivers."""

import shutil
import subprocess
from pathlib import Path

import pytest

from golden.params.arith import ARITH_BLOCKS
from golden.params.resolve import resolve
from golden.params.stream import STREAM_BLOCKS
from synth.emit import to_verilog

WAIVERS = Path(__file__).parents[2] / "synth" / "lint_waivers.vlt"


@pytest.fixture(scope="module")
def verilator():
    path = shutil.which("verilator")
    if path is None:
        pytest.skip("verilator is not installed; `tilewright doctor` tells how to get it")
    return path


def lint(verilator, top, verilog, folder):
    """What Verilator has to say; empty when it is content."""
    path = folder / f"{top}.v"
    path.write_text(verilog)
    command = [verilator, "--lint-only", "-Wall", "--top-module", top, str(WAIVERS), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("cls", [*STREAM_BLOCKS, *ARITH_BLOCKS], ids=lambda cls: cls.block)
def test_presets_are_clean(verilator, cls, tmp_path):
    for name in cls.PRESETS:
        params = cls.preset(name)
        assert lint(verilator, params.slug, to_verilog(params), tmp_path) == ""


def test_a_fault_is_found(verilator, tmp_path):
    """The waivers leave faults visible: a loop is still reported."""
    params = resolve("popcount:odd")
    good = "assign i__ready = o__ready;"
    verilog = to_verilog(params)
    assert good in verilog
    broken = verilog.replace(good, "assign i__ready = o__ready & ~i__ready;")
    assert "UNOPTFLAT" in lint(verilator, params.slug, broken, tmp_path)
