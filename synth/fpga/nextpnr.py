"""nextpnr and the tools that come with it, each in a process of its own, and what they report."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.synth.fpga.devices import Device
from tilewright.synth.yosys import SynthesisError

__all__ = ["RoutedPath", "RoutedReport", "Use", "read_report", "run_nextpnr", "run_tool"]

# A tool's entry point ends the process that calls it, and prints as it goes.
_CHILD = "import sys, {module} as tool; sys.exit(tool.run_{run}(sys.argv[1:]))"


@dataclass(frozen=True)
class Use:
    """How many places of one kind a design takes, of those that the device has."""

    used: int
    available: int


@dataclass(frozen=True)
class PathStep:
    """A cell on a path, and the wires from it to the next one."""

    cell: str  # its kind; empty where nextpnr made it while packing
    name: str
    signal: str  # the net behind it
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
    """A routed design: its highest clock, its longest path, and what it uses by kind of place."""

    mhz: float
    path: RoutedPath
    uses: dict[str, Use]  # kinds that are used, by the name nextpnr gives them


def run_nextpnr(device: Device, options: Sequence[str], folder: Path) -> None:
    """Place and route in ``folder``; a clock that is missed is no error."""
    options = ["--timing-allow-fail", "--quiet", *options]
    run_tool(device, device.family.module.removeprefix("yowasp_"), options, folder)


def run_tool(device: Device, tool: str, options: Sequence[str], folder: Path) -> None:
    """Run a tool of the package that the device's family needs; an error is said in one line."""
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

    ``kinds`` are the cells of the netlist, by name; ``signals`` what registers hold whose names do
    not say it.
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
    """Join each step through a cell with the step along the wires behind it."""
    found: list[PathStep] = []
    skew = 0.0  # of the clock between both registers, where the tool knows it
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
    """Of the cell that the netlist has under ``name``, or under what packing made it of."""
    while name not in kinds and "$" in name:
        name = name.rpartition("$")[0]
    return kinds.get(name, "")


def _register(step: PathStep, signals: Mapping[str, str]) -> str:
    """The signal that a register holds: Yosys names most after it, with their kind behind."""
    if step.name in signals:
        return signals[step.name]
    return step.name.partition(f"_{step.cell}")[0] if step.cell else step.name
