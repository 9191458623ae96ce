"""One design from parameters to tokens a second: Verilog, lint, cells, a model, simulation."""

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.base.table import Reported, Table, number
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.machine import MachineParams
from tilewright.golden.params.resolve import resolve
from tilewright.sim.serving import Question, ask
from tilewright.sim.target import BLOCKS
from tilewright.studies.runs.simulation import bench_block
from tilewright.synth.block_files import write_block
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import Goal
from tilewright.synth.jobs import Request, plan, run_jobs
from tilewright.synth.memory import macro_cell, parse_macro
from tilewright.synth.system import Area, load_system, system_area
from tilewright.synth.technology import Technology, load_technology
from tilewright.synth.whole_timing import load_clock, netlist_clock
from tilewright.synth.yosys import SynthesisError, watched
from tilewright.verify.simulators import MissingToolError
from tilewright.verify.simulators.find import require_simulator
from tilewright.verify.simulators.run import block_verilog
from tilewright.verify.simulators.verilator import lint

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
    full: bool = False,
    doing: Doing = lambda _: None,
    mapping: Doing = lambda _: None,
) -> Design:
    """Take a block through every step and collect its figures.

    A step that cannot be made leaves a figure with the reason. ``folder`` is where the Verilog is
    written. Area and clock of an accelerator are predicted from the record of the published size;
    ``full`` maps and times the whole. ``mapping`` is called with each module that Yosys maps.
    """
    params, cells = resolve(block), load_technology(technology)
    verilog = cache(lambda: block_verilog(block))  # of an accelerator it takes seconds
    steps: list[tuple[str, str, Callable[[], Iterator[Figure]]]] = [
        ("Verilog", "RTL", lambda: _verilog(params, verilog(), folder)),
        ("lint", "RTL", lambda: _lint(params, verilog())),
        ("cells", "from a netlist", lambda: _cells(block, params, cells, full)),
        ("model", "predicted", lambda: _model(params, model)),
        ("simulation", "measured on RTL", lambda: _simulation(block, cases)),
    ]
    figures: list[Figure] = []
    for name, kind, step in steps:
        doing(name)
        try:
            with watched(mapping):
                figures += step()
        except (CommandError, MissingToolError, SynthesisError, ValueError) as reason:
            figures.append(Figure(name, None, "", kind, str(reason)))
    return Design(block, tuple(figures))


def _verilog(params: BlockParams, verilog: str, folder: Path | None) -> Iterator[Figure]:
    lines = len(verilog.splitlines())
    note = "" if folder is None else str(write_block(params, folder).verilog)
    yield Figure("Verilog", lines, "lines", "RTL", note)


def _lint(params: BlockParams, verilog: str) -> Iterator[Figure]:
    verilator = require_simulator("verilator")
    with tempfile.TemporaryDirectory() as folder:
        said = lint(verilator, params.slug, verilog, Path(folder))
    first = next(iter(said.splitlines()), "")
    yield Figure("lint", "warnings" if said else "clean", "", "RTL", first or verilator.title)


def _simulation(block: str, cases: int) -> Iterator[Figure]:
    result = bench_block(block, cases=cases)
    note = result.failure or f"{result.numbers.get('cycles', 0):,} cycles, {result.simulator.title}"
    verdict = "passed" if result.passed else "failed"
    yield Figure("simulation", verdict, "", "measured on RTL", note.splitlines()[0])


def _cells(block: str, params: BlockParams, technology: Technology, full: bool) -> Iterator[Figure]:
    kind = f"from a netlist, {technology.name}"
    if isinstance(params, MachineParams):
        made = _whole_accelerator if full else _like_the_record
        yield from made(params, technology)
        return
    (done,) = run_jobs(plan([Request(block)], [technology]))
    value = {name: metric["value"] for name, metric in done.record["metrics"].items()}
    yield Figure("area", value["area"], "um2", kind, f"{value['cells']:,} cells")
    if value["delay"]:
        yield _clock(value["delay"], kind)


def _whole_accelerator(params: MachineParams, technology: Technology) -> Iterator[Figure]:
    """Every module mapped by itself: a flattened accelerator takes hours."""
    kind = f"from a netlist, {technology.name}"
    rtlil = to_rtlil(params, memory_macros=True)
    parts, _ = system_area(rtlil, params.slug, technology)
    yield _area(sum(parts.values(), Area()), kind)
    yield _clock(netlist_clock(rtlil, params.slug, technology, Goal.AREA).delay, kind)


def _like_the_record(params: MachineParams, technology: Technology) -> Iterator[Figure]:
    """Parts of the published size, scaled by the bits of their registers and operations.

    Memories are those of the design itself. The longest path is the published one: it is in parts
    that hardly depend on size.
    """
    published = resolve(params.block)
    record = load_system(params.block, technology.name)
    if record is None:
        raise ValueError(f"no record of {params.block} in {technology.name}; --full maps it")
    if params == published:
        area = sum((Area(**part) for part in record["parts"].values()), Area())
        yield _area(area, f"record, {technology.name}")
        kind = f"record, {technology.name}"
    else:
        (here, macros), (there, _) = contents(params), contents(published)
        logic = sum(
            part["logic"] * here[name] / there[name]
            for name, part in record["parts"].items()
            if there[name]
        )
        kind = f"predicted from the record of {params.block}, {technology.name}"
        memory = sum(
            count * macro_cell(parse_macro(name), technology).area for name, count in macros.items()
        )
        yield _area(Area(logic, memory), kind)
    clock = load_clock(params.block, technology.name)
    if clock is not None:
        yield _clock(clock["period_ps"], kind)


def contents(params: BlockParams) -> tuple[Counter[str], Counter[str]]:
    """Bits of registers and operations of each part of an accelerator, and its memories.

    A module of the RTL counts as often as it occurs.
    """
    own: dict[str, int] = {}
    cells: dict[str, Counter[str]] = {}
    for module, body in _MODULE.findall(to_rtlil(params, memory_macros=True)):
        cells[module] = Counter(_CELL.findall(body))
        own[module] = sum(map(int, _BITS.findall(body)))

    @cache
    def bits(module: str) -> int:
        inside = cells.get(module, Counter())
        return own.get(module, 0) + sum(n * bits(kind) for kind, n in inside.items())

    @cache
    def macros(module: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for kind, count in cells.get(module, Counter()).items():
            each = Counter({kind: 1}) if kind.startswith("sram_") else macros(kind)
            found.update({name: count * n for name, n in each.items()})
        return found

    parts = Counter({"": own[params.slug]})
    for kind, count in cells[params.slug].items():
        parts[re.sub(r"\$\d+$", "", kind.removeprefix(f"{params.slug}."))] += count * bits(kind)
    return parts, macros(params.slug)


_MODULE = re.compile(r"^module \\(\S+)$(.*?)^end$", re.MULTILINE | re.DOTALL)
_CELL = re.compile(r"^ *cell \\(\S+) ", re.MULTILINE)
_BITS = re.compile(r"^ *parameter \\(?:Y_WIDTH|WIDTH) (\d+)$", re.MULTILINE)


def _area(area: Area, kind: str) -> Figure:
    note = f"{area.logic / 1e6:.3f} mm2 of logic, {area.memory / 1e6:.3f} of memories"
    return Figure("area", area.total / 1e6, "mm2", kind, note)


def _clock(period: float, kind: str) -> Figure:
    return Figure("clock", 1e6 / period, "MHz", kind, "before placement, without wires")


def _model(params: BlockParams, model: str) -> Iterator[Figure]:
    if params.block not in BLOCKS:
        known = ", ".join(BLOCKS)
        raise ValueError(f"no system has a {params.block}; {known} run models")
    found: Any = ask(Question(model=model, block=params))
    kind = f"predicted, {found.kind}"
    why_formula = (r for r in found.remarks if r.startswith("formula only"))
    note = f"{model}, batch 1, context {found.context}, bound by {found.bound}"
    note = "; ".join((note, *why_formula))
    yield Figure("token", found.tokens_per_second, "tokens/s", kind, note)
    yield Figure("energy of a token", 1e3 * found.joules_per_token, "mJ", kind)
