"""nextpnr and the tools that come with it, each in a process of its own."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.synth.fpga.devices import Device
from tilewright.synth.yosys import SynthesisError

__all__ = ["run_nextpnr", "run_tool"]

# A tool's entry point ends the process that calls it, and prints as it goes.
_CHILD = "import sys, {module} as tool; sys.exit(tool.run_{run}(sys.argv[1:]))"


def run_nextpnr(device: Device, options: Sequence[str], folder: Path) -> None:
    """Place and route in ``folder``; a clock that is missed is no error."""
    options = ["--timing-allow-fail", "--quiet", *options]
    run_tool(device, device.family.module.removeprefix("yowasp_"), options, folder)


def run_tool(device: Device, tool: str, options: Sequence[str], folder: Path) -> None:
    """Run a tool of the package that the device's family needs; an error is said in one line."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD.format(module=device.family.module, run=tool), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        cwd=folder,
        check=False,
    )
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if line.startswith("ERROR: ")]
        last = done.stdout.strip().splitlines()[-1:] or ["nothing printed"]
        reason = (errors or last)[0].removeprefix("ERROR: ")
        raise SynthesisError(f"{tool.partition('_')[0]} on {device.name}: {reason}")
