"""Tools that simulation, synthesis and the report need: which are found, which are missing."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import invalidate_caches
from importlib.metadata import PackageNotFoundError, version

from tilewright.verify.simulators import find

PACKAGES = {  # Python package -> what it is needed for
    "numpy": "everything",
    "amaranth": "verilog, simulate, synth, report",
    "pyosys": "verilog, simulate, synth",
    "matplotlib": "report",
    "rich": "progress bars",
    "cocotb": "simulate",
}


@dataclass(frozen=True)
class Tool:
    """One thing that commands need; ``path`` is None where it is missing or too old."""

    name: str
    needed_for: str
    path: str | None
    version: str | None
    required: bool  # without it nothing can be simulated
    hint: str  # what to type to get it


def find_tools() -> list[Tool]:
    """Every tool, found or not."""
    return [
        Tool("python", "everything", sys.executable, platform.python_version(), True, ""),
        *(_package(name, purpose) for name, purpose in PACKAGES.items()),
        *_simulators(),
        _compiler(),
        _libpython(),
    ]


def install_tools(missing: Sequence[Tool], say: Callable[[str], None]) -> None:
    """Do what the hints of ``missing`` say where that needs no question: pip, and apt-get as root.

    A command that fails is only told to ``say``, as every command is: what is still missing
    afterwards decides.
    """
    hints = list(dict.fromkeys(tool.hint for tool in missing))
    for hint in hints:
        if hint.startswith("pip install "):
            _run([sys.executable, "-m", *hint.replace("'", "").split()], say)
    packages = [hint.split()[-1] for hint in hints if hint.startswith("apt-get install ")]
    if packages:
        _run(["apt-get", "update"], say)
        _run(["apt-get", "install", "-y", "--no-install-recommends", *packages], say)
    invalidate_caches()  # packages may be new


def _run(command: list[str], say: Callable[[str], None]) -> None:
    say(" ".join(command))
    # stdout belongs to the result (--json), so package managers talk on stderr.
    settings = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    code = subprocess.run(command, stdout=sys.stderr, env=settings).returncode
    if code:
        say(f"that ended with exit code {code}")


def _package(name: str, purpose: str) -> Tool:
    try:
        found = version(name)
    except PackageNotFoundError:
        found = None
    path = found and "Python package"
    return Tool(name, purpose, path, found, True, find.package_command(name))


def _simulators() -> list[Tool]:
    found = {"verilator": find.find_verilator(), "icarus": find.find_icarus()}
    usable = {name: s for name, s in found.items() if s is not None and s.recent_enough}
    tools = []
    for name, simulator in found.items():
        release = None if simulator is None else simulator.version
        if simulator is not None and name not in usable:
            release = f"{release}, too old: {find.MINIMUM[name]} needed"
        purpose = {"verilator": "simulate, lint", "icarus": "simulate, second opinion"}[name]
        path = str(usable[name].path) if name in usable else None
        # One simulator is enough.
        tools.append(Tool(name, purpose, path, release, not usable, find.install_command(name)))
    return tools


def _compiler() -> Tool:
    try:
        path = str(find.find_compiler())
    except find.MissingToolError:
        path = None
    # Icarus Verilog does without, but Verilator is what everything runs on by default.
    hint = find.install_command("compiler")
    return Tool("c++", "simulate with Verilator", path, path and _release(path), True, hint)


def _release(program: str) -> str:
    """The first number with a dot in the first line of ``program --version``."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"\d+\.[\d.]*\d", said.partition("\n")[0])
    return found[0] if found else "unknown"


def _libpython() -> Tool:
    """The shared library of this Python, which the simulators load to run a bench."""
    try:
        from find_libpython import find_libpython
    except ImportError:  # cocotb installs it
        return Tool("libpython", "simulate", None, None, True, find.package_command("cocotb"))
    path, release = find_libpython(), platform.python_version()
    if shutil.which("apt-get") and sys.base_prefix == "/usr":  # Debian keeps it in its own package
        sudo = "" if os.geteuid() == 0 else "sudo "
        hint = f"{sudo}apt-get install libpython{'.'.join(release.split('.')[:2])}"
    else:
        hint = "use a Python that was built with --enable-shared"
    return Tool("libpython", "simulate", path, path and release, True, hint)
