"""Verilog of a block, and a bench on it: build or reuse, run, read the reports of both."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tilewright.base.cache import content_key, get_or_make_folder
from tilewright.base.errors import CommandError
from tilewright.base.files import open_atomic
from tilewright.golden.params.resolve import resolve
from tilewright.synth import emitted
from tilewright.synth.emitted import KEY_FILE, verilog_sources
from tilewright.verify.simulators.find import (
    BuildError,
    Simulator,
    cocotb_libraries,
    cocotb_module,
    import_path,
    require_simulator,
    run_program,
)
from tilewright.verify.simulators.verilator import build_verilator, has_inertial_puts

TOOLS = ("amaranth", "pyosys")  # that write Verilog


class SimulationError(CommandError):
    """The simulation ended without a result; the text has the end of its log."""


@dataclass(frozen=True)
class TestResult:
    """One cocotb test."""

    __test__ = False  # not a class of tests, whatever its name

    name: str
    message: str | None  # why it failed; None when it passed


@dataclass(frozen=True)
class BenchResult:
    """Results of one run of a bench."""

    simulator: Simulator
    tests: tuple[TestResult, ...]  # never empty
    numbers: dict[str, Any]  # what the bench itself reported (tilewright.verify.job.report)
    seconds: float  # wall clock of the simulation, without the build

    @property
    def passed(self) -> bool:
        return self.failure is None

    @property
    def failure(self) -> str | None:
        """Why the first failing test failed."""
        return next((t.message for t in self.tests if t.message is not None), None)

    @property
    def cycles_per_second(self) -> int | None:
        """Simulated cycles per second of wall clock, None where none were clocked."""
        cycles, seconds = self.numbers.get("cycles"), self.numbers.get("seconds")
        return round(cycles / seconds) if cycles and seconds else None


def block_verilog(spec: str) -> str:
    """Return the Verilog of the block that ``spec`` names, written once per source text.

    Writing that of a large one takes longer than a short simulation.
    """
    slug, sources = resolve(spec).slug, verilog_sources()

    def write(folder: Path) -> None:
        # A process of its own reads the files as they are, whatever this one imported before.
        command: list[str | Path] = [sys.executable, "-m", emitted.__name__, spec, folder]
        run_program(command, folder, {"PYTHONPATH": import_path()})
        # Its output depends on what that process imported.
        written_from = (folder / KEY_FILE).read_text()
        if verilog_sources() != sources or written_from != content_key(sources):
            raise BuildError(
                f"the Verilog of {spec} was written from other sources than this program sees: one"
                " changed meanwhile, or sys.path leads elsewhere from another folder; try again"
            )

    folder = get_or_make_folder("sim", [slug, *sources, *map(version, TOOLS)], write)
    return (folder / f"{slug}.v").read_text()


def _build_icarus(icarus: Simulator, verilog: str, top: str, *, waves: bool) -> Path:
    """The vvp program of module ``top``, which dumps its signals with ``waves``."""
    tops = [top]
    if waves:
        tops.append("tilewright_waves")
        verilog += (
            "\nmodule tilewright_waves;\n  initial begin\n"
            f'    $dumpfile("waves.vcd");\n    $dumpvars(0, \\{top} );\n'
            "  end\nendmodule\n"
        )
    options = ["-g2012", *(word for name in tops for word in ("-s", name))]

    def make(folder: Path) -> None:
        # A time unit of 1 ns and a precision of 1 ps, as cocotb's clocks are given in ns.
        (folder / "top.v").write_text(f"`timescale 1ns/1ps\n{verilog}")
        run_program([icarus.path, *options, "-o", "sim.vvp", "top.v"], folder)

    return get_or_make_folder("sim", [verilog, icarus.fingerprint, *options], make) / "sim.vvp"


def require_vcd(waves: Path | None) -> None:
    """Refuse a file of waves of another format."""
    if waves is not None and waves.suffix != ".vcd":
        raise ValueError(f"waves go to a .vcd file, not to {str(waves)!r}")


def run_bench(
    verilog: str,
    top: str,
    module: str,
    *,
    simulator: Simulator | str = "verilator",
    job: Mapping[str, Any] | None = None,
    waves: Path | None = None,
    optimize: str = "-O0",
    environment: Mapping[str, str] | None = None,
    limit: float | None = None,
) -> BenchResult:
    """Run the cocotb tests of Python module ``module`` on the Verilog module ``top``.

    ``job`` reaches the bench as ``tilewright.verify.job``. ``waves`` is written whether the tests
    pass or not. A failing test is a result; no result at all is a :class:`SimulationError`. A
    simulation that has not ended after ``limit`` seconds is stopped with a ``TimeoutError``.
    """
    if isinstance(simulator, str):
        simulator = require_simulator(simulator)
    require_vcd(waves)
    dumps = waves is not None
    if simulator.name == "icarus":
        program = _build_icarus(simulator, verilog, top, waves=dumps)
        library = cocotb_libraries() / "libcocotbvpi_icarus.so"
        command = [str(simulator.root / "vvp"), "-m", str(library), str(program)]
    else:
        program = build_verilator(simulator, verilog, top, waves=dumps, optimize=optimize)
        command = [str(program)]
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
        folder = Path(name)
        setting = _environment(simulator, top, module, folder, job or {})
        start = time.perf_counter()
        with (folder / "log").open("w") as log:
            try:
                done = subprocess.run(
                    command,
                    cwd=folder,
                    env=setting | dict(environment or {}),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    check=False,
                    timeout=limit,
                )
            except subprocess.TimeoutExpired:
                raise TimeoutError(f"no end after {limit:.0f} seconds") from None
        seconds = time.perf_counter() - start
        tests = _read_results(folder, module, done.returncode)
        if waves:
            with open_atomic(waves) as target, (folder / "waves.vcd").open("rb") as source:
                shutil.copyfileobj(source, target)
        report = folder / "report.json"
        numbers = json.loads(report.read_text()) if report.is_file() else {}
    return BenchResult(simulator, tests, numbers, seconds)


def _environment(
    simulator: Simulator, top: str, module: str, folder: Path, job: Mapping[str, Any]
) -> dict[str, str]:
    module_of_cocotb = cocotb_module()  # says what is missing where cocotb is
    from find_libpython import find_libpython

    library = find_libpython()
    if library is None:
        raise BuildError("this Python has no shared library (libpython), which simulators load")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("COCOTB_", "GPI_"))}
    settings = inherited | {
        "GPI_USERS": f"{library};{module_of_cocotb},initialize",
        "PYGPI_PYTHON_BIN": sys.executable,
        "PYTHONPATH": import_path(),
        "TOPLEVEL_LANG": "verilog",
        "COCOTB_TEST_MODULES": module,
        "COCOTB_RESULTS_FILE": str(folder / "results.xml"),
        "COCOTB_LOG_LEVEL": "WARNING",
        "GPI_LOG_LEVEL": "ERROR",
        "COCOTB_REWRITE_ASSERTION_FILES": "",  # would load every plugin of pytest
        "TILEWRIGHT_JOB": json.dumps(dict(job)),
        "TILEWRIGHT_REPORT": str(folder / "report.json"),
    }
    if simulator.name == "icarus":
        settings["COCOTB_TOPLEVEL"] = top
    else:
        # No COCOTB_TOPLEVEL: there is one, and 5.006 has its own spelling of two underscores.
        settings["COCOTB_TRUST_INERTIAL_WRITES"] = str(int(has_inertial_puts(simulator)))
    return settings


def _read_results(folder: Path, module: str, code: int) -> tuple[TestResult, ...]:
    path, log = folder / "results.xml", (folder / "log").read_text(errors="replace")
    ending = "\n  ".join(log.strip().splitlines()[-10:]) or "nothing printed"
    if not path.is_file():
        raise SimulationError(f"bench {module} died (exit code {code}):\n  {ending}")
    tests = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("skipped") is not None:
            continue
        message = None
        for problem in (*case.findall("failure"), *case.findall("error")):
            message = problem.get("message") or problem.get("type") or "failed without a message"
            break
        tests.append(TestResult(case.get("name", ""), message))
    if not tests:
        raise SimulationError(f"bench {module} ran no test:\n  {ending}")
    return tuple(tests)
