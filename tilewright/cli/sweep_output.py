"""What ``tilewright sweep`` prints: tables for people, JSON for programs."""

from collections.abc import Sequence

from tilewright.base.console import print_json, print_table, remark
from tilewright.studies.sweeps.frontiers import Frontier, FrontierPoint
from tilewright.studies.sweeps.results import Failure
from tilewright.studies.sweeps.sweep import Sweep

__all__ = ["print_frontier", "print_sweep"]


def print_sweep(found: Sweep, varied: Sequence[str], *, as_json: bool) -> None:
    """One row for each variant, with a column for each field that was varied."""
    for variant in found.left_out:
        remark(f"left out: {variant.spec}: {variant.reason}")
    if as_json:
        print_json(found)
        return
    with_clock = any("slack" in result.metrics for result in found.results)
    simulated = any(result.simulation for result in found.results)
    header = [*(name.upper() for name in varied), "TECHNOLOGY", "GOAL", "AREA UM2", "CELLS"]
    header += ["REGISTERS", "DELAY PS"]
    header += ["SLACK PS"] if with_clock else []
    header += ["CASES", "CYCLES"] if simulated else []
    rows = []
    for result in found.results:
        metrics = {name: metric.value for name, metric in result.metrics.items()}
        row = [result.parameters[name] for name in varied]
        row += [result.technology, result.goal, f"{metrics['area']:.2f}", metrics["cells"]]
        row += [metrics["register_bits"], f"{metrics['delay']:.1f}"]
        row += [f"{metrics['slack']:.1f}"] if with_clock else []
        row += [result.simulation.cases, result.simulation.cycles] if result.simulation else []
        rows.append(row)
    print_table(header, rows)
    _print_failures(found.failures, len(found.results) + len(found.failures))


def print_frontier(
    frontier: Frontier,
    points: Sequence[FrontierPoint],
    failures: Sequence[Failure],
    *,
    as_json: bool,
) -> None:
    """One row for each design, the best of each technology marked."""
    if as_json:
        print_json({"frontier": frontier.name, "designs": points, "failures": failures})
        return
    print(f"{frontier.title}; best marked *")
    unit = frontier.unit.upper()
    print_table(
        ["TECHNOLOGY", "DESIGN", "GOAL", "AREA UM2", "DELAY PS", unit, "", "PAPER"],
        [
            [
                *(point.technology, point.spec, point.goal, f"{point.area_um2:.2f}"),
                "" if point.delay_ps is None else f"{point.delay_ps:.1f}",
                f"{point.throughput:.3f}",
                "*" if point.pareto else "",
                point.paper or "",
            ]
            for point in points
        ],
    )
    technologies = {point.technology for point in points}
    _print_failures(failures, len(frontier.specs) * len(frontier.goals) * len(technologies))


def _print_failures(failures: Sequence[Failure], total: int) -> None:
    if failures:
        print(f"\n{len(failures)} of {total} failed:")
    for failure in failures:
        print(f"  {failure.spec} in {failure.technology}: {failure.reason}")
