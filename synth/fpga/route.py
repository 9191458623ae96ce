"""A block placed and routed on an FPGA by Yosys and nextpnr, with registers around it."""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.base.cache import get_or_make
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import resolve
from tilewright.synth.emit import to_rtlil
from tilewright.synth.fpga.devices import DEFAULT_DEVICE, PINS, Device, find_device
from tilewright.synth.fpga.harness import GIVEN, TAKEN, TOP, harness_verilog
from tilewright.synth.yosys import SynthesisError, yosys_files

# A tool's entry point exits its process, and prints as it goes.
_CHILD = "import sys, {module} as tool; sys.exit(tool.run_{run}(sys.argv[1:]))"


@dataclass(frozen=True)
class Use:
    """Sites of one kind that a design uses, of those that the device has."""

    used: int
    available: int


@dataclass(frozen=True)
class PathStep:
    """A cell on a path, and the wires from it to the next one."""

    cell: str  # its kind; empty where nextpnr made it while packing
    name: str
    signal: str  # the net that it drives
    logic_ns: float
    routing_ns: float


@dataclass(frozen=True)
class RoutedPath:
    """The longest path between two registers of a clock."""

    start: str
    end: str
    steps: tuple[PathStep, ...]

    @property
    def logic_ns(self) -> float:
        return sum(step.logic_ns for step in self.steps)

    @property
    def routing_ns(self) -> float:
        return sum(step.routing_ns for step in self.steps)

    @property
    def delay_ns(self) -> float:
        return self.logic_ns + self.routing_ns


@dataclass(frozen=True)
class RoutedReport:
    """A routed design: its highest clock, its longest path, and its use by kind of site."""

    mhz: float
    path: RoutedPath
    uses: dict[str, Use]  # kinds that are used, by the name nextpnr gives them


def run_nextpnr(device: Device, options: Sequence[str], folder: Path) -> None:
    """Place and route in ``folder``; a clock that is missed is no error."""
    options = ["--timing-allow-fail", "--quiet", *options]
    run_tool(device, device.family.module.removeprefix("yowasp_"), options, folder)


def run_tool(device: Device, tool: str, options: Sequence[str], folder: Path) -> None:
    """Run a tool of the package that the device's family needs; errors take one line."""
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


def read_report(
    report: Mapping[str, Any], kinds: Mapping[str, str], signals: Mapping[str, str]
) -> RoutedReport:
    """Read nextpnr's JSON report of a design with one clock.

    ``kinds`` maps cells of the netlist by name; ``signals`` maps registers not named after their
    signals to these.
    """
    clocks = report["fmax"]
    if len(clocks) != 1:
        raise ValueError(f"the design has {len(clocks)} clocks in nextpnr's report, not one")
    (clock,) = clocks.values()
    edges = ("posedge", "negedge")
    within = [
        path["path"]
        for path in report["critical_paths"]
        if path["from"].startswith(edges) and path["to"].startswith(edges)
    ]
    longest = max(within, key=lambda steps: sum(step["delay"] for step in steps))
    uses = {
        kind: Use(use["used"], use["available"])
        for kind, use in sorted(report["utilization"].items())
        if use["used"]
    }
    return RoutedReport(clock["achieved"], _path(longest, kinds, signals), uses)


def _path(
    steps: list[dict[str, Any]], kinds: Mapping[str, str], signals: Mapping[str, str]
) -> RoutedPath:
    found: list[PathStep] = []
    skew = 0.0  # clock skew between both registers, where known
    for step in steps:
        if step["type"] == "clk-skew":
            skew = step["delay"]
        elif step["type"] == "routing":
            last = found.pop()
            routing = last.routing_ns + step["delay"]
            found.append(PathStep(last.cell, last.name, step["net"], last.logic_ns, routing))
        else:
            name = step["from"]["cell"]
            delay = step["delay"] + (0.0 if found else skew)
            found.append(PathStep(_kind(name, kinds), name, "", delay, 0.0))
    start, end = (_register(step, signals) for step in (found[0], found[-1]))
    return RoutedPath(start, end, tuple(found))


def _kind(name: str, kinds: Mapping[str, str]) -> str:
    while name not in kinds and "$" in name:
        name = name.rpartition("$")[0]
    return kinds.get(name, "")


def _register(step: PathStep, signals: Mapping[str, str]) -> str:
    if step.name in signals:
        return signals[step.name]
    return step.name.partition(f"_{step.cell}")[0] if step.cell else step.name


DEFAULT_SEED = 1
TARGET_MHZ = 100.0  # what placement strives for; a block that is slower is placed all the same
NETLIST, REPORT = "netlist.json", "report.json"


@dataclass(frozen=True)
class Placement:
    """A block on one device.

    Counts are of the block alone; ``harness_registers`` are the registers around it. ``luts`` and
    ``carries`` are cells of the mapped netlist, ``report.uses`` sites of the device in use, with
    what packing added and the harness.
    """

    spec: str
    params: BlockParams
    rtlil: str
    device: Device
    speed_grade: str
    seed: int
    target_mhz: float
    cells: dict[str, int]  # mapped netlist with its harness, by kind
    harness_registers: int
    report: RoutedReport

    @property
    def mhz(self) -> float:
        """The highest clock of the routed design."""
        return self.report.mhz

    @property
    def luts(self) -> int:
        return self._count(self.device.family.lut)

    @property
    def carries(self) -> int:
        return self._count(self.device.family.carry)

    @property
    def registers(self) -> int:
        return self._count(self.device.family.register) - self.harness_registers

    @property
    def block_rams(self) -> int:
        return self._count(self.device.family.block_ram)

    @property
    def lut_rams(self) -> int:
        return self._count(self.device.family.lut_ram)

    @property
    def multipliers(self) -> int:
        return self._count(self.device.family.multiplier)

    @property
    def utilisation(self) -> float:
        """Share of the device's LUTs that are taken, packing included."""
        use = self.report.uses.get(self.device.family.slot)
        return 0.0 if use is None else use.used / use.available

    def _count(self, kinds: Iterable[str]) -> int:
        return sum(self.cells.get(kind, 0) for kind in kinds)


def place_and_route(
    spec: str,
    device: str = DEFAULT_DEVICE,
    *,
    speed_grade: str | None = None,
    seed: int = DEFAULT_SEED,
    target_mhz: float = TARGET_MHZ,
    watch: Callable[[str], None] = lambda doing: None,
) -> Placement:
    """Place and route the block ``spec``; by default in the device's slowest speed grade.

    ``watch`` is told of each step. Raises ``MissingNextpnrError`` where the tool's package is not
    installed, and ``SynthesisError`` where the block does not fit.
    """
    chosen = find_device(device)
    grade = chosen.slowest if speed_grade is None else speed_grade
    options = [*chosen.options, *chosen.speed_options(grade), "--seed", str(seed)]
    options += ["--freq", f"{target_mhz:g}"]
    params = resolve(spec)
    chosen.family.require()
    watch(f"{spec}: mapping")
    rtlil = to_rtlil(params)
    netlist = map_block(rtlil, params.slug, chosen)
    module = json.loads(netlist)["modules"][TOP]
    kinds = {name: cell["type"] for name, cell in module["cells"].items()}
    watch(f"{spec}: place and route")
    report = _route(netlist, chosen, options)
    return Placement(
        spec=spec,
        params=params,
        rtlil=rtlil,
        device=chosen,
        speed_grade=grade,
        seed=seed,
        target_mhz=target_mhz,
        cells=dict(sorted(Counter(k for k in kinds.values() if k != "$scopeinfo").items())),
        harness_registers=_harness_registers(module, chosen),
        report=read_report(report, kinds, _signals(module, chosen)),
    )


def map_block(rtlil: str, module: str, device: Device) -> str:
    """The block in its harness, mapped to the device's cells."""
    files = {"harness.v": harness_verilog(rtlil, module), "top.il": rtlil}
    return map_to_cells(files, TOP, device)


def map_to_cells(files: Mapping[str, str], top: str, device: Device, option: str = "") -> str:
    """The module ``top`` in the device's cells, as the JSON that nextpnr reads."""
    commands = [
        *(f"read_verilog {name}" for name in files if name.endswith(".v")),
        "read_rtlil top.il",
        f"{device.family.synthesis}{option} -top {top}",
        *device.family.finish,
        "attrmap -remove src",  # places in files of this machine
        f"write_json {NETLIST}",
    ]
    netlist = yosys_files(commands, files, (NETLIST,))[NETLIST]
    design = json.loads(netlist)
    return json.dumps(design) if device.family.adapt(design) else netlist


def _harness_registers(module: dict[str, Any], device: Device) -> int:
    names = (module["netnames"].get(name, {"bits": []}) for name in (GIVEN, TAKEN))
    bits = {bit for name in names for bit in name["bits"]}
    return sum(
        any(net in bits for net in cell["connections"]["Q"])
        for cell in module["cells"].values()
        if cell["type"] in device.family.register
    )


def _signals(module: dict[str, Any], device: Device) -> dict[str, str]:
    names: dict[Any, str] = {}
    for name, net in module["netnames"].items():
        if not net.get("hide_name"):
            for bit in net["bits"]:
                names.setdefault(bit, name)
    return {
        cell: names[bit]
        for cell, facts in module["cells"].items()
        if facts["type"] in device.family.register and cell.startswith("$")
        for bit in facts["connections"]["Q"]
        if bit in names
    }


def _route(netlist: str, device: Device, options: Sequence[str]) -> dict[str, Any]:
    def make() -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
            folder = Path(name)
            (folder / NETLIST).write_text(netlist)
            if device.pins is not None:
                (folder / PINS).write_text(device.pins)
            run_nextpnr(device, [*options, "--json", NETLIST, "--report", REPORT], folder)
            report: dict[str, Any] = json.loads((folder / REPORT).read_text())
            return report

    tool = f"{device.family.package} {device.family.nextpnr_version}"
    pins = () if device.pins is None else (device.pins,)
    found: dict[str, Any] = get_or_make((tool, netlist, *options, *pins), make)
    return found
