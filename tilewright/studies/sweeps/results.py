"""What a sweep finds out about one variant: typed here, plain JSON between processes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Failure", "LeftOut", "LongestPath", "Metric", "Result", "Simulation"]


@dataclass(frozen=True)
class Metric:
    """A number with its unit."""

    value: float
    unit: str


@dataclass(frozen=True)
class LongestPath:
    """The slowest way through a netlist: where it starts and ends, and its cells in order."""

    start: str
    end: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Simulation:
    """A bench that passed on the Verilog of a variant."""

    simulator: str
    cases: int | None
    cycles: int | None


@dataclass(frozen=True, kw_only=True)
class Result:
    """A variant that got through synthesis, and through simulation if that was asked for."""

    spec: str
    technology: str
    goal: str
    parameters: Mapping[str, Any]  # of the block: whole numbers, truth values and names
    metrics: Mapping[str, Metric]
    rtlil_sha256: str
    longest_path: LongestPath | None = None
    simulation: Simulation | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Result":
        """The result that ``dataclasses.asdict`` has turned into JSON data."""
        path, simulation = data["longest_path"], data["simulation"]
        return cls(
            **{
                **data,
                "metrics": {name: Metric(**metric) for name, metric in data["metrics"].items()},
                "longest_path": path and LongestPath(**path | {"cells": tuple(path["cells"])}),
                "simulation": simulation and Simulation(**simulation),
            }
        )


@dataclass(frozen=True)
class Failure:
    """A variant that did not get through; ``reason`` is one line."""

    spec: str
    technology: str
    goal: str
    reason: str


@dataclass(frozen=True)
class LeftOut:
    """A combination of values that the block's parameters refuse, and why."""

    spec: str
    reason: str
