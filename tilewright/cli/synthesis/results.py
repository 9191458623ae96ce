"""What ``tilewright synth`` prints of the blocks that it mapped."""

from collections.abc import Sequence

from tilewright.base.console import print_table
from tilewright.synth.flow import Synthesis
from tilewright.synth.jobs import JobResult

__all__ = ["print_results"]


def print_results(
    results: Sequence[JobResult], clock: float | None, *, path: bool, parts: bool
) -> None:
    """Print the metrics, the proofs that there are and, if asked for, longest paths and parts."""
    _print_metrics(results, clock)
    proved = [
        (*_of(r), r.proof.verdict.value, r.proof.outputs, r.proof.registers, r.proof.detail)
        for r in results
        if r.proof is not None
    ]
    if proved:
        print("\nNetlist against RTL")
        header = ("BLOCK", "TECHNOLOGY", "GOAL", "VERDICT", "BITS", "REGISTERS", "DETAIL")
        print_table(header, proved)
    for result in results:
        if path:
            _print_path(result.synthesis)
        if parts:
            _print_parts(result.synthesis)


def _print_metrics(results: Sequence[JobResult], clock: float | None) -> None:
    slack = ["SLACK PS"] if clock is not None else []
    header = ["BLOCK", "TECHNOLOGY", "GOAL", "CELLS", "AREA UM2", "REGISTERS", "DELAY PS", *slack]
    rows = []
    for result in results:
        value = {name: metric["value"] for name, metric in result.record["metrics"].items()}
        path = result.record["longest_path"]
        row = [*_of(result), value["cells"], f"{value['area']:.2f}", value["register_bits"]]
        row += _tenths(value["delay"])
        row += _tenths(clock - value["delay"]) if clock is not None else []
        row += _tenths(result.seconds)
        rows.append([*row, f"{path['start']} -> {path['end']}" if path else ""])
    print_table([*header, "RUN S", "LONGEST PATH"], rows)


def _of(result: JobResult) -> tuple[str, str, str]:
    return result.record["spec"], result.record["technology"], result.record["goal"]


def _print_path(result: Synthesis) -> None:
    path = result.longest
    if path is None:
        return
    print(f"\n{result.technology.name}: {path.start} -> {path.end}, {path.delay:.1f} ps")
    rows = [
        (step.cell or "input", step.net, step.edge, *_tenths(step.arrival, step.slew, step.load))
        for step in path.steps
    ]
    if path.setup:
        rows.append(("setup", path.end, "", *_tenths(path.delay), "", ""))
    print_table(("CELL", "SIGNAL", "EDGE", "ARRIVAL PS", "SLEW PS", "LOAD FF"), rows)


def _print_parts(result: Synthesis) -> None:
    total = result.netlist.area
    areas = result.area_by_part or {"": total}
    largest_first = sorted(areas.items(), key=lambda entry: -entry[1])
    print(f"\n{result.technology.name}: area by part")
    print_table(
        ("PART", "AREA UM2", "SHARE %"),
        [(p or "(top)", f"{area:.2f}", f"{100 * area / total:.1f}") for p, area in largest_first],
    )


def _tenths(*values: float) -> list[str]:
    return [f"{value:.1f}" for value in values]
