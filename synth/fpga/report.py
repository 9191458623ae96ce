"""What nextpnr reports of a routed design, as typed values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["PathStep", "RoutedPath", "RoutedReport", "Use", "read_report"]


@dataclass(frozen=True)
class Use:
    """How many places of one kind a design takes, of those that the device has."""

    used: int
    available: int

    @property
    def share(self) -> float:
        return self.used / self.available if self.available else 0.0


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
        path
        for path in report["critical_paths"]
        if path["from"].startswith(edges) and path["to"].startswith(edges)
    ]
    longest = max(within, key=lambda path: sum(step["delay"] for step in path["path"]))
    uses = {
        kind: Use(use["used"], use["available"])
        for kind, use in sorted(report["utilization"].items())
        if use["used"]
    }
    return RoutedReport(clock["achieved"], _path(longest["path"], kinds, signals), uses)


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
    start, end = (_register(step.name, kinds, signals) for step in (found[0], found[-1]))
    return RoutedPath(start, end, tuple(found))


def _kind(name: str, kinds: Mapping[str, str]) -> str:
    """Of the cell that the netlist has under ``name``, or under what packing made it of."""
    while name not in kinds and "$" in name:
        name = name.rpartition("$")[0]
    return kinds.get(name, "")


def _register(name: str, kinds: Mapping[str, str], signals: Mapping[str, str]) -> str:
    """The signal that a register holds: Yosys names most after it, with their kind behind."""
    if name in signals:
        return signals[name]
    cell = _kind(name, kinds)
    return name.partition(f"_{cell}")[0] if cell else name
