"""Emitted Verilog under ``verilator --lint-only -Wall`` with the project's waivers."""

import os
import subprocess
from pathlib import Path

from tilewright.synth.emit import LINT_WAIVERS
from tilewright.verify.simulators.find import Simulator
from tilewright.verify.simulators.verilator import with_short_top


def lint(verilator: Simulator, top: str, verilog: str, folder: Path, *, suffix: str = "v") -> str:
    """Return the warnings about the module ``top``; empty where there are none."""
    path = folder / f"{top}.{suffix}"  # waivers name files after blocks
    verilog, top = with_short_top(verilog, top)
    path.write_text(verilog)
    options = ["--lint-only", "-Wall", "--quiet-exit", "--top-module", top]
    done = subprocess.run(
        [str(verilator.path), *options, str(LINT_WAIVERS), str(path)],
        env={**os.environ, "VERILATOR_ROOT": str(verilator.root)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr if done.returncode else ""
