"""Blocks of hardware: Verilog, simulation and synthesis of any block and preset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base.table import Reported, Table
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.describe import family, field_rows, timing_text
from tilewright.golden.params.resolve import BLOCKS, resolve

if TYPE_CHECKING:
    from tilewright.synth.block_files import BlockFiles
    from tilewright.synth.jobs import JobResult
    from tilewright.verify.simulators import BenchResult


def block(name: str, **fields: Any) -> Block:
    """Return a block by its name, with fields changed.

    Parameters
    ----------
    name
        ``NAME[:PRESET][,FIELD=VALUE]...``, such as ``deca:paper``.
    fields
        Fields of the block and their new values, such as ``lanes=16``.

    Examples
    --------
    >>> import tilewright as tw
    >>> multiplier = tw.block("float_mul:fp16", latency=2)
    >>> multiplier.name
    'float_mul__latency_2__a_fp16__b_fp16__out_fp16'
    >>> multiplier.timing
    'latency 2, interval 1 (cycles)'
    """
    spec = ",".join([name, *(f"{field}={_text(value)}" for field, value in fields.items())])
    return Block(spec, resolve(spec))


def blocks() -> Table:
    """Return a table of all blocks: family, name, what each does, its presets."""
    known = sorted(BLOCKS.values(), key=lambda cls: (family(cls), cls.block))
    rows = [(family(cls), cls.block, cls.summary, " ".join(cls.PRESETS)) for cls in known]
    return Table(("FAMILY", "BLOCK", "SUMMARY", "PRESETS (FIRST IS THE DEFAULT)"), rows)


@dataclass(frozen=True)
class Block(Reported):
    """One block of hardware: ``spec`` names it, ``params`` is its parameter object."""

    spec: str
    params: BlockParams

    @property
    def name(self) -> str:
        """The name of its Verilog module and of its records."""
        return self.params.slug

    @property
    def fields(self) -> dict[str, Any]:
        """The value of every field."""
        return self.params.as_dict()

    @property
    def timing(self) -> str:
        """Cycles from input to output, and from one input to the next."""
        return timing_text(self.params)

    @property
    def report(self) -> Table:
        """The fields of the block."""
        title = f"{self.params.block}: {self.params.summary}; {self.timing}"
        return Table(("FIELD", "VALUE", "DEFAULT", "TYPE"), field_rows(self.params), title)

    def verilog(self) -> str:
        """Return the Verilog of the block, the same bytes on every run and machine."""
        from tilewright.synth.emit import to_verilog

        return to_verilog(self.params)

    def write(self, folder: str | Path) -> BlockFiles:
        """Write Verilog, its interface as JSON, a FuseSoC core file and lint waivers."""
        from tilewright.synth.block_files import write_block

        return write_block(self.params, Path(folder))

    def simulate(
        self,
        cases: int = 1000,
        *,
        seed: int = 1,
        stalls: Sequence[float] = (0.0, 0.3, 0.8),
        simulator: str | None = None,
        exhaustive: bool = False,
        waves: str | Path | None = None,
    ) -> Simulated:
        """Simulate the emitted Verilog and compare every result with the golden model.

        Parameters
        ----------
        cases
            Random cases, corner cases included; ``exhaustive`` runs every case instead.
        stalls
            Probabilities that a side waits, per cycle; one pass for each.
        simulator
            ``verilator`` or ``icarus``; by default the first that is installed.
        waves
            A ``.vcd`` file for all signals.
        """
        from tilewright.studies.runs.simulation import bench_block

        return Simulated(
            self.name,
            bench_block(
                self.spec,
                simulator=simulator,
                cases=cases,
                seed=seed,
                stalls=stalls,
                exhaustive=exhaustive,
                waves=None if waves is None else Path(waves),
            ),
        )

    def synthesize(
        self,
        technology: str = "asap7",
        *,
        goal: str | None = None,
        clock_ps: float | None = None,
        prove: bool = False,
    ) -> Synthesized:
        """Map the block to standard cells.

        Parameters
        ----------
        technology
            ``asap7`` or ``sky130hd``.
        goal
            ``area`` (default), ``balanced`` or ``fastest``.
        clock_ps
            A clock period to meet with the least area, instead of a goal.
        prove
            Prove that the netlist equals the RTL.
        """
        from tilewright.studies.synthesis import prove_or_bench
        from tilewright.synth.flow import DEFAULT_GOAL, Goal
        from tilewright.synth.jobs import Request, plan, run_jobs
        from tilewright.synth.technology import load_technology

        if goal is not None and clock_ps is not None:
            raise ValueError("give a goal or clock_ps, not both")
        request = Request(self.spec, DEFAULT_GOAL if goal is None else Goal(goal))
        jobs = plan([request], [load_technology(technology)], clock=clock_ps)
        (done,) = run_jobs(jobs, prove_or_bench if prove else None)
        return Synthesized(done)


@dataclass(frozen=True)
class Simulated(Reported):
    """The bench of a block on a simulator."""

    name: str  # of the block's Verilog module
    result: BenchResult

    @property
    def passed(self) -> bool:
        """Whether every test passed."""
        return self.result.passed

    @property
    def failure(self) -> str | None:
        """The first failure, None where everything passed."""
        return self.result.failure

    @property
    def report(self) -> Table:
        """The simulator, the verdict, and how much was simulated."""
        numbers, title = self.result.numbers, self.result.simulator.title
        verdict = "passed" if self.passed else "failed"
        row = (title, verdict, numbers.get("cases", ""), numbers.get("cycles", ""))
        return Table(("SIMULATOR", "RESULT", "CASES", "CYCLES"), [row], self.name)


@dataclass(frozen=True)
class Synthesized(Reported):
    """A block in standard cells: figures from the netlist, before placement."""

    result: JobResult

    @property
    def area(self) -> float:
        """Cell area in square micrometres."""
        return float(self._metric("area"))

    @property
    def delay(self) -> float:
        """The longest path in picoseconds: the least clock period where there are registers."""
        return float(self._metric("delay"))

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self._metric("cells"))

    @property
    def netlist(self) -> str:
        """The netlist as Verilog."""
        return self.result.synthesis.verilog

    @property
    def proof(self) -> str | None:
        """The verdict on the netlist against the RTL, None where no proof was asked for."""
        return None if self.result.proof is None else self.result.proof.verdict.value

    @property
    def metrics(self) -> dict[str, float]:
        """Figures to compare with those of another block."""
        return {
            "area (um2)": self.area,
            "delay (ps)": self.delay,
            "cells": self.cells,
            "register bits": self._metric("register_bits"),
        }

    @property
    def title(self) -> str:
        """Block, technology and goal."""
        job = self.result.job
        goal = job.goal.value if job.clock is None else f"{job.clock:g} ps"
        return f"{job.spec}, {job.technology.name}, {goal}"

    @property
    def report(self) -> Table:
        """The figures, and between which registers or ports the longest path runs."""
        rows: list[tuple[str, Any]] = [(name, f"{v:,.10g}") for name, v in self.metrics.items()]
        path = self.result.record["longest_path"]
        if path:
            rows.append(("longest path", f"{path['start']} -> {path['end']}"))
        if self.proof is not None:
            rows.append(("netlist against RTL", self.proof))
        return Table(("FIGURE", "VALUE"), rows, self.title)

    def _metric(self, name: str) -> Any:
        return self.result.record["metrics"][name]["value"]


def _text(value: Any) -> str:
    """A value as ``FIELD=VALUE`` has it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value.value if isinstance(value, Enum) else value)
