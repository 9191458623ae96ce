"""``tilewright compare pe``: processing elements side by side, and beside the papers."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.cores import available_cores
from tilewright.base.errors import CommandError

if TYPE_CHECKING:
    from tilewright.studies.pe.compare import Comparison

NAME = "pe"
HELP = "put processing elements on one workload: area, delay, energy, beside the paper"
EXAMPLE = "tilewright compare pe --tech asap7 --plot out/pe.svg"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tech", metavar="T", help="asap7 or sky130hd; by default both")
    parser.add_argument(
        "--plot", metavar="FILE", type=Path, help="draw the efficiencies as bars (SVG, PNG, PDF)"
    )
    parser.add_argument(
        "--update-records",
        action="store_true",
        help="synthesise and simulate again; writes synth/records and synth/records/energy",
    )
    parser.add_argument(
        "--element",
        metavar="BLOCK",
        action="append",
        help="of --update-records, only this one; again for each further one",
    )
    parser.add_argument(
        "--stale",
        action="store_true",
        help="of --update-records, only what has no up-to-date record",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.pe.compare import compare
    from tilewright.synth.technology import TECHNOLOGIES, load_technology

    names = [args.tech] if args.tech else TECHNOLOGIES
    technologies = [load_technology(name) for name in names]
    if (args.element or args.stale) and not args.update_records:
        option = "--element" if args.element else "--stale"
        raise CommandError(f"{option} goes with --update-records")
    if args.update_records:
        _update(args.element, technologies, args.stale)
    comparisons = [compare(technology) for technology in technologies]
    if args.plot:
        _plot(comparisons, args.plot)
    if args.json:
        data: dict[str, Any] = {c.technology: c.as_dict() for c in comparisons}
        if len(comparisons) > 1:
            data["survives"] = _survival(comparisons)
        print_json(data)
        return 0
    for k, comparison in enumerate(comparisons):
        if k:
            print()
        _print(comparison)
    if len(comparisons) > 1:
        _print_survival(comparisons)
    return 0


def _survival(comparisons: "list[Comparison]") -> dict[str, list[dict[str, Any]]]:
    from tilewright.studies.pe.compare import surviving_claims, surviving_orders

    found = {
        "claims": surviving_claims(comparisons),
        "area_efficiency": surviving_orders(comparisons, "area_efficiency"),
        "energy_efficiency": surviving_orders(comparisons, "energy_efficiency"),
    }
    return {
        kind: [{"statement": s.statement, **s.verdicts, "outcome": s.outcome} for s in several]
        for kind, several in found.items()
    }


def _print_survival(comparisons: "list[Comparison]") -> None:
    """What is said of the elements in one technology and not in the other."""
    found = _survival(comparisons)
    names = [c.technology for c in comparisons]
    print(f"\nwhat survives the change from {' to '.join(names)}")
    words = {True: "holds", False: "does not"}
    print_table(
        ["PAPER SAYS", *(name.upper() for name in names), "OUTCOME"],
        [
            [row["statement"], *(words[row[n]] for n in names), row["outcome"]]
            for row in found["claims"]
        ],
    )
    for kind in ("area_efficiency", "energy_efficiency"):
        rows = found[kind]
        changed = [row for row in rows if row["outcome"] == "changes"]
        kept = len(rows) - len(changed)
        print(f"\norder by {kind.replace('_', ' ')}: {kept} of {len(rows)} pairs the same")
        for row in changed:
            print(f"  {row['statement']}: only in {' '.join(n for n in names if row[n])}")


def _update(chosen: list[str] | None, technologies: list, stale: bool) -> None:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from tilewright.base.files import write_atomic
    from tilewright.golden.params.resolve import resolve
    from tilewright.studies.pe.energy import ELEMENTS, energy_path, is_fresh_energy, make_records
    from tilewright.synth.record import record_path, record_text

    unknown = [spec for spec in chosen or () if spec not in ELEMENTS.values()]
    if unknown:
        known = ", ".join(ELEMENTS.values())
        raise CommandError(f"{unknown[0]} is not compared; elements: {known}")
    jobs = [
        (spec, t)
        for spec in chosen or ELEMENTS.values()
        for t in technologies
        if not (stale and is_fresh_energy(spec, t))
    ]
    # Processes, as a netlist is simulated in Python; not forked, as there are threads.
    workers = ProcessPoolExecutor(available_cores(), get_context("spawn"))
    with progress("elements", len(jobs)) as tick, workers as pool:
        made = pool.map(make_records, *zip(*jobs, strict=True)) if jobs else ()
        for (spec, technology), (record, energy) in zip(jobs, made, strict=True):
            params = resolve(spec)
            path = energy_path(params, technology)
            path.parent.mkdir(exist_ok=True)
            write_atomic(path, record_text(energy))
            _renew(record_path(params, technology), record)
            tick(f"{spec} {technology.name}")


def _renew(path: Path, record: dict[str, Any]) -> None:
    """Write a synthesis record, unless one is there that differs only in the name asked for."""
    from tilewright.base.files import write_atomic
    from tilewright.synth.record import record_text

    present = json.loads(path.read_text()) if path.exists() else {}
    if present | {"spec": record["spec"]} != record:
        write_atomic(path, record_text(record))


def _print(comparison: "Comparison") -> None:
    print(f"{comparison.technology}, {comparison.clock_mhz} MHz, real data; x: over FP-FP")
    header = ["ELEMENT", "MAC/CYCLE", "AREA UM2", "DELAY PS", "FJ/MAC", "TOPS/MM2", "TOPS/W"]
    header += ["AREA X", "POWER X", "AREA EFF X", "ENERGY EFF X", "RANDOM FJ", "ZERO FJ"]
    rows = [
        [
            e.name,
            f"{e.macs_per_cycle:.2f}",
            f"{e.area:.0f}",
            f"{e.delay:.0f}",
            f"{e.energy:.1f}",
            f"{e.tops_per_mm2:.3f}",
            f"{e.tops_per_watt:.2f}",
            *(f"{value:.2f}" for value in comparison.normalised(e)),
            *("" if value is None else f"{value:.1f}" for value in (e.random, e.zero)),
        ]
        for e in comparison.elements
    ]
    print_table(header, rows)
    print()
    print_table(
        ["PAPER SAYS", "PAPER", "HERE", "DEVIATION %"],
        [[c.name, c.shown, f"{c.here:.2f}", f"{c.deviation:+.0f}"] for c in comparison.claims],
    )
    if comparison.decompression is not None:
        d = comparison.decompression
        print(
            f"\nall of {d.spec}, memories and loaders too: {d.area / d.lanes:.0f} um2 a lane,"
            f" {d.area_per_weight:.0f} um2 per 4-bit weight decompressed a cycle"
        )


def _plot(comparisons: "list[Comparison]", path: Path) -> None:
    """Area and energy efficiency over FP-FP, a panel each, a colour per technology."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = len(comparisons[0].elements)
    figure = Figure(figsize=(max(9, 0.3 * count), 6), layout="constrained")  # inches
    FigureCanvasAgg(figure)
    panels: Any = figure.subplots(2, 1, sharex=True)
    titles = ("area efficiency (TOPS/mm2)", "energy efficiency (TOPS/W)")
    width = 0.8 / len(comparisons)
    for k, comparison in enumerate(comparisons):
        names = [e.name for e in comparison.elements]
        places = [p + k * width for p in range(len(names))]
        for axes, title, index in zip(panels, titles, (2, 3), strict=True):
            heights = [comparison.normalised(e)[index] for e in comparison.elements]
            axes.bar(places, heights, width, label=comparison.technology)
            axes.set_ylabel(f"{title}\nover FP-FP")
            axes.axhline(1, color="grey", linewidth=0.6)
    panels[0].legend()
    panels[1].set_xticks(range(len(names)), names, rotation=45, ha="right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
