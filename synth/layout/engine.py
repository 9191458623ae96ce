"""OpenROAD: finding it, and running one layout step."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.base.errors import CommandError

VARIABLE = "TILEWRIGHT_OPENROAD"
INSIDE = Path(__file__).with_name("inside.py")


@dataclass(frozen=True)
class Engine:
    """The program, a Python that can ``import openroad`` or OpenROAD itself, and its version."""

    program: str
    version: str


@cache
def find_engine() -> Engine:
    """The OpenROAD of this Python, of ``TILEWRIGHT_OPENROAD``, or on the search path."""
    named = os.environ.get(VARIABLE)
    if named:
        return _engine(named)
    if importlib.util.find_spec("openroad"):
        return _engine(sys.executable)
    if binary := shutil.which("openroad"):
        return _engine(binary)
    raise CommandError(
        "no OpenROAD found: pip install tilewright[layout] (x86_64 with glibc 2.38), put an"
        f" openroad on the PATH, or set {VARIABLE} to one or to a Python that can import it"
    )


def _engine(program: str) -> Engine:
    try:
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            done = _run(program, "--version", Path(folder))
    except OSError as error:
        raise CommandError(f"{program}: {error.strerror}; {VARIABLE} must name OpenROAD") from None
    found = re.search(r"^VERSION (.+)$", done.stdout, re.MULTILINE)
    if found is None:
        last = (done.stdout.strip().splitlines() or ["nothing printed"])[-1]
        raise CommandError(f"{program} cannot import openroad: {last}")
    return Engine(program, found[1])


def _run(program: str, argument: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [program, str(INSIDE), argument]
    if Path(program).name == "openroad":  # which has no arguments for a script
        script = folder / "step.py"
        script.write_text(
            "import runpy, sys\n"
            f"sys.argv = [{str(INSIDE)!r}, {argument!r}]\n"
            f"runpy.run_path({str(INSIDE)!r}, run_name='__main__')\n"
        )
        command = [program, "-python", "-exit", "-no_splash", str(script)]
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        cwd=folder,
        check=False,
    )


def run_step(engine: Engine, job: dict[str, Any], folder: Path) -> None:
    """Run one step in ``folder``; its files stay there, OpenROAD's output in ``log.txt``."""
    path = folder / "job.json"
    path.write_text(json.dumps(job | {"out": str(folder)}))
    done = _run(engine.program, str(path), folder)
    if done.returncode or not (folder / "figures.json").exists():
        raise CommandError(f"OpenROAD, step {job['step']}: {reason(done.stdout, done.returncode)}")
    (folder / "log.txt").write_text(done.stdout)
    path.unlink()


def reason(log: str, code: int) -> str:
    """OpenROAD's first error, else how it ended."""
    errors = re.findall(r"^\[(?:ERROR|CRITICAL) (\S+)\] (.+)$", log, re.MULTILINE)
    if errors:
        return f"{errors[0][1]} ({errors[0][0]})"
    if stopped := re.search(r"^STOPPED: (.+)$", log, re.MULTILINE):
        return stopped[1]
    last = (log.strip().splitlines() or ["nothing printed"])[-1]
    return f"ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}: {last}"
