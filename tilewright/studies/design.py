"""One design from parameters to tokens a second: Verilog, lint, simulation, cells, a model."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.base.table import Reported, Table, number
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.machine import MachineParams
from tilewright.golden.params.resolve import resolve
from tilewright.sim.serving import Question, ask
from tilewright.sim.target import BLOCKS
from tilewright.studies.runs.bench import bench_block
from tilewright.synth.block_files import write_block
from tilewright.synth.emit import to_rtlil, to_verilog
from tilewright.synth.flow import Goal
from tilewright.synth.jobs import Request, plan, run_jobs
from tilewright.synth.system import Area, system_area
from tilewright.synth.technology import Technology, load_technology
from tilewright.synth.whole_timing import netlist_clock
from tilewright.synth.yosys import SynthesisError
from tilewright.verify.lint import lint
from tilewright.verify.simulators import MissingToolError
from tilewright.verify.simulators.find import require_simulator

Doing = Callable[[str], None]


@dataclass(frozen=True)
class Figure:
    """One figure of a design; ``value`` is None where it could not be had, and ``note`` why."""

    name: str
    value: float | str | None
    unit: str
    kind: str  # measured on RTL, from a netlist, predicted
    note: str = ""

    @property
    def shown(self) -> str:
        """The value with its unit."""
        if self.value is None:
            return "not done"
        value = self.value if isinstance(self.value, str) else number(self.value)
        return f"{value} {self.unit}".rstrip()


@dataclass(frozen=True)
class Design(Reported):
    """A block and its figures in the order in which they were found."""

    block: str
    figures: tuple[Figure, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed; one that could not be made has not failed."""
        return all(figure.value not in ("failed", "warnings") for figure in self.figures)

    @property
    def report(self) -> Table:
        """A row for each figure."""
        rows = [(f.name, f.shown, f.kind, f.note) for f in self.figures]
        return Table(("FIGURE", "VALUE", "KIND", "NOTE"), rows)


def design(
    block: str,
    *,
    folder: Path | None = None,
    technology: str = "asap7",
    model: str = "smollm2",
    cases: int = 200,
    doing: Doing = lambda _: None,
) -> Design:
    """Take a block through every step and collect its figures.

    A step that cannot be made, for a missing tool or because it does not apply, leaves a figure
    with the reason. ``folder`` is where the Verilog and its interface are written.
    """
    params, cells = resolve(block), load_technology(technology)
    steps: list[tuple[str, str, Callable[[], Iterator[Figure]]]] = [
        ("Verilog", "RTL", lambda: _verilog(params, folder)),
        ("lint", "RTL", lambda: _lint(params)),
        ("simulation", "measured on RTL", lambda: _simulation(block, cases)),
        ("cells", "from a netlist", lambda: _cells(block, params, cells)),
        ("model", "predicted", lambda: _model(params, model)),
    ]
    figures: list[Figure] = []
    for name, kind, step in steps:
        doing(name)
        try:
            figures += step()
        except (CommandError, MissingToolError, SynthesisError, ValueError) as reason:
            figures.append(Figure(name, None, "", kind, str(reason)))
    return Design(block, tuple(figures))


def _verilog(params: BlockParams, folder: Path | None) -> Iterator[Figure]:
    lines = len(to_verilog(params).splitlines())
    note = "" if folder is None else str(write_block(params, folder).verilog)
    yield Figure("Verilog", lines, "lines", "RTL", note)


def _lint(params: BlockParams) -> Iterator[Figure]:
    verilator = require_simulator("verilator")
    with tempfile.TemporaryDirectory() as folder:
        said = lint(verilator, params.slug, to_verilog(params), Path(folder))
    first = next(iter(said.splitlines()), "")
    yield Figure("lint", "warnings" if said else "clean", "", "RTL", first or verilator.title)


def _simulation(block: str, cases: int) -> Iterator[Figure]:
    done = bench_block(block, cases=cases)
    (result,) = done.results
    note = result.failure or f"{result.numbers.get('cycles', 0):,} cycles, {result.simulator.title}"
    verdict = "passed" if result.passed else "failed"
    yield Figure("simulation", verdict, "", "measured on RTL", note.splitlines()[0])


def _cells(block: str, params: BlockParams, technology: Technology) -> Iterator[Figure]:
    kind = f"from a netlist, {technology.name}"
    if isinstance(params, MachineParams):
        yield from _whole_accelerator(params, technology, kind)
        return
    (done,) = run_jobs(plan([Request(block)], [technology]))
    value = {name: metric["value"] for name, metric in done.record["metrics"].items()}
    yield Figure("area", value["area"], "um2", kind, f"{value['cells']:,} cells")
    if value["delay"]:
        yield _clock(value["delay"], kind)


def _whole_accelerator(
    params: MachineParams, technology: Technology, kind: str
) -> Iterator[Figure]:
    """Every module mapped by itself: a flattened accelerator takes hours."""
    rtlil = to_rtlil(params, memory_macros=True)
    parts, _ = system_area(rtlil, params.slug, technology)
    total = sum(parts.values(), Area())
    note = f"{total.logic / 1e6:.3f} mm2 of logic, {total.memory / 1e6:.3f} of memories"
    yield Figure("area", total.total / 1e6, "mm2", kind, note)
    yield _clock(netlist_clock(rtlil, params.slug, technology, Goal.AREA).delay, kind)


def _clock(period: float, kind: str) -> Figure:
    return Figure("clock", 1e6 / period, "MHz", kind, "before placement, without wires")


def _model(params: BlockParams, model: str) -> Iterator[Figure]:
    if params.block not in BLOCKS:
        known = ", ".join(BLOCKS)
        raise ValueError(f"no system has a {params.block}; {known} run models")
    found: Any = ask(Question(model=model, block=params))
    kind = f"predicted, {found.kind}"
    note = f"{model}, batch 1, context {found.context}, bound by {found.bound}"
    yield Figure("token", found.tokens_per_second, "tokens/s", kind, note)
    yield Figure("energy of a token", 1e3 * found.joules_per_token, "mJ", kind)
