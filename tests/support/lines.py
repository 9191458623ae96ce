"""``--lines FILE``: which lines of functions ran, counted for each package.

Python 3.12 tells of every line once, which costs next to nothing. Lines outside functions are left
out: an import runs them, whether anything is tested or not. What other processes run is not seen:
benches inside simulators, and commands that a test starts as programs.
"""

import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from tilewright.base.files import write_atomic

ROOT = Path(__file__).parents[2]
TOP = ("golden", "hw", "sim", "synth")  # packages that lie beside tilewright in a checkout
COMMAND = "nox -s lines"
Lines = dict[str, set[int]]  # by file, as a path below the checkout


def pytest_addoption(parser):
    group = parser.getgroup("long runs")
    group.addoption("--lines", metavar="FILE", help="count the lines of functions that ran")


def pytest_configure(config):
    if path := config.getoption("--lines"):
        if sys.version_info < (3, 12):
            raise pytest.UsageError("--lines needs Python 3.12 or later")
        config.pluginmanager.register(Watcher(Path(path)), "tilewright-lines")


class Watcher:
    """Of one process: a worker tells with every test what is new, the one that started them writes.

    A run that is cut short leaves what it had.
    """

    def __init__(self, path: Path):
        self.path = path
        self.new: Lines = {}  # of this process, not told of yet
        self.seen: Lines = {}  # of all processes
        self.tests = 0
        watch(self.new)

    def take(self) -> dict[str, list[int]]:
        """What ran since the last time, as reports can hold it."""
        found = {file: sorted(lines) for file, lines in self.new.items()}
        self.new.clear()
        return found

    def add(self, found: dict[str, list[int]]) -> None:
        for file, lines in found.items():
            self.seen.setdefault(file, set()).update(lines)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call):
        report = yield
        if call.when == "teardown":
            report.lines_that_ran = self.take()
        return report

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            self.tests += 1
            self.add(report.lines_that_ran)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["lines"] = self.take()
        else:
            self.add(self.take())
            self.path.parent.mkdir(parents=True, exist_ok=True)
            found = record(self.seen) | {"tests": self.tests}
            write_atomic(self.path, json.dumps(found, indent=1) + "\n")

    @pytest.hookimpl(optionalhook=True)  # known where pytest-xdist is there
    def pytest_testnodedown(self, node):
        self.add(getattr(node, "workeroutput", {}).get("lines", {}))


def watch(seen: Lines) -> None:
    """Put every line of the packages that runs from now on into ``seen``."""
    monitoring = sys.monitoring
    names: dict[str, str | None] = {}

    def ran(code: CodeType, line: int) -> object:
        path = code.co_filename
        if path not in names:
            names[path] = name_of(Path(path))
        if (name := names[path]) is not None:
            seen.setdefault(name, set()).add(line)
        return monitoring.DISABLE  # of this line: once is enough

    monitoring.use_tool_id(monitoring.COVERAGE_ID, "tilewright lines")
    monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, ran)
    monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.LINE)


def name_of(path: Path) -> str | None:
    """A file of the packages as a path below the checkout; tilewright/hw is a link to hw."""
    if not path.is_absolute() or path.suffix != ".py":
        return None
    path = path.resolve()
    if not path.is_relative_to(ROOT):
        return None
    name = path.relative_to(ROOT)
    return str(name) if name.parts[0] in (*TOP, "tilewright") else None


def package_of(name: str) -> str:
    """The package of a file, as it is imported; of one at the top of tilewright, tilewright."""
    parts = Path(name).parts
    if parts[0] == "tilewright":
        parts = parts[1:]
    return f"tilewright.{parts[0]}" if len(parts) > 1 else "tilewright"


def lines_of(path: Path) -> set[int]:
    """The lines of functions that hold something to run."""
    module = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    return {line for code in _functions(module) for line in _own_lines(code)}


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Functions within functions too; neither a module nor the body of a class is one."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & 0x1:  # CO_OPTIMIZED: locals have places, as in functions alone
                yield inner
            yield from _functions(inner)


def _own_lines(code: CodeType) -> Iterator[int]:
    """Less the line of its `def`, which a call need not reach."""
    return (line for _, _, line in code.co_lines() if line and line != code.co_firstlineno)


def record(seen: Lines) -> dict:
    """For each package: lines of functions, and how many of them ran."""
    packages: dict[str, dict[str, int]] = {}
    files = [p for top in (*TOP, "tilewright") for p in sorted((ROOT / top).rglob("*.py"))]
    for path in files:
        name = name_of(path)
        if name is None or path.is_symlink() or Path(name) != path.relative_to(ROOT):
            continue  # reached by a link
        lines = lines_of(path)
        entry = packages.setdefault(package_of(name), {"files": 0, "lines": 0, "ran": 0})
        entry["files"] += 1
        entry["lines"] += len(lines)
        entry["ran"] += len(lines & seen.get(name, set()))
    return {
        "command": COMMAND,
        "python": platform.python_version(),
        "packages": dict(sorted(packages.items())),
    }
