"""Starting the tools that build a simulation, and finding cocotb's libraries."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from tilewright.base.errors import CommandError
from tilewright.verify.simulators.find import package_command

QUOTED_LINES = 5  # of what a failing tool printed


class BuildError(CommandError):
    """A tool could not build the simulation; the text has its first complaints."""


def run_program(
    command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None
) -> None:
    """Run ``command`` in ``folder``; a failure raises :class:`BuildError`."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = done.stdout.strip().splitlines()
        errors = [line for line in lines if "rror" in line] or lines
        said = "\n  ".join(errors[:QUOTED_LINES]) or "nothing printed"
        name = Path(command[0]).name
        raise BuildError(f"{name} ended with exit code {done.returncode}:\n  {said}")


def import_path() -> str:
    """``$PYTHONPATH`` for a Python that finds what this one finds, whatever folder it runs in."""
    return os.pathsep.join(os.path.abspath(entry) for entry in sys.path)


def is_gcc(compiler: Path) -> bool:
    """Whether the compiler is GCC itself and not Clang, which also calls itself GNU C."""
    text = "#if !defined(__GNUC__) || defined(__clang__)\n#error\n#endif\n"
    command = [str(compiler), "-x", "c++", "-E", "-"]
    return subprocess.run(command, input=text.encode(), capture_output=True).returncode == 0


def cocotb_libraries() -> Path:
    """The folder of cocotb's libraries, found without importing it (a quarter of a second)."""
    return _cocotb() / "libs"


def cocotb_module() -> Path:
    """cocotb's compiled module, which the simulator loads."""
    spec = PathFinder.find_spec("simulator", [str(_cocotb())])
    if spec is None or spec.origin is None:
        raise BuildError(f"cocotb at {_cocotb()} has no compiled module `simulator`")
    return Path(spec.origin)


def _cocotb() -> Path:
    spec = PathFinder.find_spec("cocotb")
    if spec is None or spec.origin is None:
        raise BuildError(f"no cocotb found; to get it: {package_command('cocotb')}")
    return Path(spec.origin).parent
