"""Yosys, run apart from the caller: pyosys ends its process on an error and prints as it goes."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from tilewright.base.cache import get_or_make
from tilewright.base.errors import CommandError

# Each line of standard input is one Yosys command. An interrupt ends it at once: Python would wait
# for the command to return. The folder of pyosys is the only argument.
_CHILD = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.path.append(sys.argv[1])
from pyosys import libyosys
design = libyosys.Design()
for line in sys.stdin:
    libyosys.run_pass(line.rstrip("\\n"), design)
"""


class SynthesisError(CommandError):
    """Yosys or ABC could not do what was asked; the text is one line that says why."""


_MAPPED = re.compile(r"Extracting gate netlist of module `\\?(.*?)'")
_tell: Callable[[str], None] | None = None


@contextmanager
def watched(tell: Callable[[str], None]) -> Iterator[None]:
    """Call ``tell`` with the name of each module that any Yosys maps to gates."""
    global _tell
    before, _tell = _tell, tell
    try:
        yield
    finally:
        _tell = before


def run_yosys(commands: Sequence[str], folder: Path) -> str:
    """Run ``commands`` in ``folder`` and return what Yosys printed."""
    printed = []
    with subprocess.Popen(
        # -S: half of the time to start would go into packages that it does not use.
        [sys.executable, "-S", "-c", _CHILD, _packages()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},  # also removes what ABC leaves there
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write("".join(f"{command}\n" for command in commands))
            child.stdin.close()
        except BrokenPipeError:
            pass  # it ended early and has printed why; commands are less than a pipe takes
        for line in child.stdout:
            printed.append(line)
            if _tell is not None and (module := _MAPPED.search(line)):
                _tell(module[1])
    text = "".join(printed)
    if child.returncode:
        raise SynthesisError(_reason(text, child.returncode))
    return text


@cache
def _packages() -> str:
    spec = find_spec("pyosys")
    if spec is None or spec.origin is None:
        raise SynthesisError("no pyosys found; it is a requirement of tilewright: install it again")
    return str(Path(spec.origin).parents[1])


def yosys_files(
    commands: Sequence[str], files: Mapping[str, str], names: Sequence[str]
) -> dict[str, str]:
    """The files ``names`` that ``commands`` write where only ``files`` are; cached by content."""

    def make() -> dict[str, str]:
        with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
            folder = Path(name)
            for file, text in files.items():
                (folder / file).write_text(text)
            run_yosys(commands, folder)
            return {file: (folder / file).read_text() for file in names}

    given = (part for item in sorted(files.items()) for part in item)
    return get_or_make((f"Yosys {version('pyosys')}", *commands, *names, *given), make)


def run_abc(command: str, folder: Path, seconds: int) -> "subprocess.CompletedProcess[str]":
    """Run ABC in ``folder`` with so much processor time: a busy machine proves the same."""
    program = f"{_packages()}/pyosys/yosys-abc"
    limited = f'ulimit -t {seconds}; exec "$0" -c "{command}"'
    return subprocess.run(
        ["sh", "-c", limited, program], cwd=folder, capture_output=True, text=True, check=False
    )


def without_banner(verilog: str) -> str:
    """Verilog as Yosys writes it, less the comment that names its compiler."""
    return re.sub(r"\A/\*.*?\*/\s*", "", verilog, flags=re.DOTALL)


def _reason(log: str, code: int) -> str:
    lines = log.splitlines()
    is_error = re.compile(r"(\S+:\d+: )?ERROR: ")  # with a place, where a source has an error
    errors = [line.replace("ERROR: ", "", 1) for line in lines if is_error.match(line)]
    # ABC fails on its own; Yosys then only misses its output. ABC's last words say more.
    if errors and "ABC" in errors[-1]:
        spoken = [line.removeprefix("ABC: ") for line in lines if line.startswith("ABC: ")]
        spoken = [line for line in spoken if not line.startswith(("** cmd error", "+ "))]
        return f"ABC: {spoken[-1].strip()}" if spoken else f"Yosys: {errors[-1]}"
    if errors:
        return f"Yosys: {errors[-1]}"
    ending = f"signal {-code}" if code < 0 else f"exit code {code}"
    last = log.strip().splitlines()[-1:] or ["nothing printed"]
    return f"Yosys ended with {ending}: {last[0]}"
