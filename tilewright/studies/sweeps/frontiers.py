"""Area against throughput: families of designs, their records and the best of each.

A record per frontier and technology in ``synth/records`` holds every design with its area, its
throughput and the hash of its RTLIL; which of them are best is worked out from these.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.base.records import load_table
from tilewright.claims import Claim, claims_of_study
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.deca import DecaParams
from tilewright.golden.params.harmonia import Mode
from tilewright.golden.params.names import unknown
from tilewright.golden.params.resolve import resolve
from tilewright.studies.sweeps.sweep import (
    Failure,
    Job,
    Result,
    expand,
    failures_of,
    parse_axis,
    results_of,
    run_jobs,
)
from tilewright.synth.liberty import to_liberty
from tilewright.synth.record import (
    RECORDS,
    flow_sha256,
    sha256,
    store_record,
    table_path,
    tool_versions,
)
from tilewright.synth.technology import load_technology


@dataclass(frozen=True)
class Frontier:
    """A family of designs with one measure of what they do."""

    name: str
    title: str
    specs: tuple[str, ...]
    throughput: Callable[[Any, dict[str, float]], float]  # of the block's parameters and metrics
    unit: str  # of throughput
    goals: tuple[str, ...] = ("area",)
    technologies: tuple[str, ...] = ("asap7", "sky130hd")
    by_modules: bool = False  # too large to flatten and to time

    @property
    def papers(self) -> dict[str, Claim]:
        """Designs that papers name, by spec."""
        own = [c for c in claims_of_study("frontier") if c.arguments["frontier"] == self.name]
        block = self.specs[0].partition(",")[0]
        return {",".join([block, *(f"{n}={v}" for n, v in c.numbers.items())]): c for c in own}


@dataclass(frozen=True)
class Design:
    """One design of a frontier, as the record has it."""

    spec: str
    goal: str
    area: float  # um2
    delay: float | None  # ps
    throughput: float
    rtlil_sha256: str


def _weights_per_cycle(params: DecaParams, metrics: dict[str, float]) -> float:
    """Weights a cycle once data has arrived: the geometric mean over the paper's twelve schemes."""
    from tilewright.golden.deca.cycles import expected_cycles
    from tilewright.sim.scheme import PAPER_SCHEMES, resolve_weight_scheme

    product = 1.0
    for name in PAPER_SCHEMES:
        scheme = resolve_weight_scheme(name)
        cycles = expected_cycles(params, scheme.config, scheme.density)
        product *= scheme.tile_weights / float(cycles)
    return float(product ** (1 / len(PAPER_SCHEMES)))


def _results_per_ns(params: BlockParams, metrics: dict[str, float]) -> float:
    """A result per clock period, or per longest path where there is no register."""
    return 1000 / metrics["delay"]


def _all(block: str, *axes: str) -> tuple[str, ...]:
    return expand(block, [parse_axis(text) for text in axes])[0]


FRONTIER = "frontier"  # the kind of record
_ALL_GOALS = ("area", "balanced", "fastest")

FRONTIERS = {
    frontier.name: frontier
    for frontier in (
        Frontier(
            name="deca",
            title="DECA: lanes W and tables L",
            # More tables than lanes are refused; fewer cost cycles.
            specs=_all("deca", "lanes=8,16,32,64", "luts=1,2,4,8,16,32,64"),
            throughput=_weights_per_cycle,
            unit="weights/cycle",
            technologies=("asap7",),
            by_modules=True,
        ),
        Frontier(
            name="harmonia",
            title="Harmonia's PE: fold and sub-PEs per accumulator",
            specs=_all("harmonia_pe", "group=16,32", "sub_elements=1,2,4", "fold=1,2,4"),
            throughput=lambda params, _: float(params.macs_per_cycle(Mode.M8W4)),
            unit="MAC/cycle",
        ),
        Frontier(
            name="prefix_sum",
            title="Prefix sum of a 32-bit mask: network, registers, goal",
            specs=_all("prefix_sum", "style=ripple,sklansky,kogge_stone", "latency=0,1"),
            throughput=_results_per_ns,
            unit="results/ns",
            goals=_ALL_GOALS,
        ),
        Frontier(
            name="adder_tree",
            title="Sum of 64 numbers of 5 bits: style, registers, goal",
            specs=_all("adder_tree", "style=balanced,chain,carry_save", "latency=0,1"),
            throughput=_results_per_ns,
            unit="results/ns",
            goals=_ALL_GOALS,
        ),
    )
}


def find_frontier(name: str) -> Frontier:
    """The frontier called ``name``; an unknown name is refused with those that are near."""
    if name not in FRONTIERS:
        raise CommandError(unknown("frontier", name, FRONTIERS))
    return FRONTIERS[name]


def jobs_of(frontier: Frontier) -> list[Job]:
    """Jobs for every design of a frontier in every technology."""
    return [
        Job(spec, technology, goal=goal, by_modules=frontier.by_modules)
        for technology in frontier.technologies
        for spec in frontier.specs
        for goal in frontier.goals
    ]


def frontier_record(
    frontier: Frontier, technology: str, results: Sequence[Result]
) -> dict[str, Any]:
    """The record that ``tilewright sweep --frontier NAME --update-records`` writes."""
    designs = []
    for result in results:
        metrics = {name: metric["value"] for name, metric in result.metrics.items()}
        rate = round(frontier.throughput(resolve(result.spec), metrics), 4)
        area, delay = round(metrics["area"], 3), metrics.get("delay")
        design = Design(result.spec, result.goal, area, delay, rate, result.rtlil_sha256)
        designs.append(asdict(design))
    return {
        "frontier": frontier.name,
        "technology": technology,
        "mapping": "module by module" if frontier.by_modules else "flattened",
        "liberty_sha256": sha256(to_liberty(load_technology(technology))),
        "flow_sha256": flow_sha256(technology),
        "tools": tool_versions(),
        "units": {"area": "um2", "delay": "ps", "throughput": frontier.unit},
        "designs": designs,
    }


def update_frontier(
    frontier: Frontier,
    technologies: Sequence[str],
    *,
    workers: int | None = None,
    cluster: str | None = None,
    out: Path | None = None,
) -> tuple[Failure, ...]:
    """Work out all designs again and write complete records; return designs that failed."""
    jobs = [job for job in jobs_of(frontier) if job.technology in technologies]
    outcomes = run_jobs(jobs, workers=workers, cluster=cluster, out=out)
    for technology in technologies:
        own = [job for job in jobs if job.technology == technology]
        results = results_of(own, outcomes)
        if len(results) == len(own):
            record = frontier_record(frontier, technology, results)
            store_record(FRONTIER, technology, frontier.name, record)
    return failures_of(jobs, outcomes)


def load_frontier_record(
    name: str, technology: str, folder: Path = RECORDS
) -> dict[str, Any] | None:
    """Return the committed record of a frontier, or None."""
    return load_table(table_path(FRONTIER, technology, folder)).get(name)


def load_frontier(name: str, technology: str, folder: Path = RECORDS) -> list[Design] | None:
    """Load the designs of a committed record; None if there is no record."""
    record = load_frontier_record(name, technology, folder)
    return None if record is None else [Design(**design) for design in record["designs"]]


def frontier_points(frontier: Frontier, technologies: Sequence[str]) -> list[dict[str, Any]]:
    """A row for every design of the committed records, by technology and area."""
    papers = {resolve(spec): claim for spec, claim in frontier.papers.items()}
    points: list[dict[str, Any]] = []
    for technology in technologies:
        designs = load_frontier(frontier.name, technology)
        if designs is None:
            raise CommandError(
                f"no record of frontier {frontier.name} in {technology}; make it with"
                f" `tilewright sweep --frontier {frontier.name} --update-records`"
            )
        best = pareto(designs)
        for design in sorted(designs, key=lambda d: d.area):
            claim = papers.get(resolve(design.spec))
            points.append(
                {
                    "technology": technology,
                    "spec": design.spec,
                    "goal": design.goal,
                    "area_um2": design.area,
                    "delay_ps": design.delay,
                    "throughput": design.throughput,
                    "throughput_unit": frontier.unit,
                    "pareto": design in best,  # no other is both smaller and faster
                    "paper": f"{claim.paper}, {claim.where}" if claim else None,
                }
            )
    return points


def pareto(designs: Sequence[Design]) -> list[Design]:
    """The designs that no other beats in both area and throughput, smallest first."""
    best: list[Design] = []
    for design in sorted(designs, key=lambda d: (d.area, -d.throughput)):
        if not best or design.throughput > best[-1].throughput:
            best.append(design)
    return best
