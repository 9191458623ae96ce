"""``tilewright compare pe``: processing elements compared with each other and with the papers."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError

if TYPE_CHECKING:
    from tilewright.studies.pe.compare import Comparison, PEComparison, Survival
    from tilewright.studies.pe.own_pe import OwnPE

NAME = "pe"
HELP = "put processing elements on one workload: area, delay, energy, with the paper's figures"
EXAMPLE = "tilewright compare pe --tech asap7"
OWN = ("top", "macs", "cycles", "format")  # what --with goes with
HEADER = (
    *("PE", "MAC/CYCLE", "AREA UM2", "DELAY PS", "FJ/MAC", "TOPS/MM2", "TOPS/W"),
    *("AREA X", "POWER X", "AREA EFF X", "ENERGY EFF X", "RANDOM FJ", "ZERO FJ"),
    *("DIE UM2", "LAYOUT PS", "LAYOUT FJ"),
)
FIGURES = (  # of a row, and how each is written
    *(("name", "{}"), ("macs_per_cycle", "{:.2f}"), ("area_um2", "{:.0f}")),
    *(("delay_ps", "{:.0f}"), ("energy_fj_per_mac", "{:.1f}"), ("tops_per_mm2", "{:.3f}")),
    *(("tops_per_watt", "{:.2f}"), ("area_x", "{:.2f}"), ("power_x", "{:.2f}")),
    *(("area_efficiency_x", "{:.2f}"), ("energy_efficiency_x", "{:.2f}")),
    *(("random_fj_per_mac", "{:.1f}"), ("zero_fj_per_mac", "{:.1f}")),
    *(("die_um2", "{:.0f}"), ("layout_ps", "{:.0f}"), ("layout_fj_per_mac", "{:.1f}")),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tech", metavar="T", help="asap7 or sky130hd; by default both")
    parser.add_argument(
        "--block",
        metavar="BLOCK",
        action="append",
        default=[],
        help="compare this PE too, measured now where it has no up-to-date record;"
        " of --update-records, only this one; again for each further one",
    )
    parser.add_argument(
        "--with", metavar="FILE.v", type=Path, dest="own", help="compare a PE of your own too"
    )
    parser.add_argument("--top", metavar="NAME", help="module name of the PE in FILE.v")
    parser.add_argument(
        "--macs", metavar="N", type=int, help="multiply-adds that it does in --cycles"
    )
    parser.add_argument("--cycles", metavar="N", type=int, help="cycles that it takes for --macs")
    parser.add_argument(
        "--format", metavar="AxB", help="formats of its activations and weights, such as int8xint4"
    )
    parser.add_argument(
        "--update-records",
        action="store_true",
        help="synthesise and simulate again; writes synth/records",
    )
    stale = "with --update-records, only PEs without an up-to-date record"
    parser.add_argument("--stale", action="store_true", help=stale)


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.pe.compare import compare
    from tilewright.studies.pe.energy import record_jobs, update_records
    from tilewright.synth.technology import TECHNOLOGIES, load_technology

    technologies = [load_technology(name) for name in ([args.tech] if args.tech else TECHNOLOGIES)]
    if args.stale and not args.update_records:
        raise CommandError("--stale goes with --update-records")
    own = _own(args)
    if args.update_records:
        jobs = record_jobs(args.block, technologies, only_stale=args.stale)
        with progress("PEs", len(jobs)) as tick:
            for done in update_records(jobs):
                tick(done)
    result = compare(technologies, args.block, own)
    print_json(result) if args.json else _print(result)
    return 0


def _own(args: argparse.Namespace) -> "list[OwnPE]":
    from tilewright.studies.pe.own_pe import OwnPE

    given = [name for name in OWN if getattr(args, name) is not None]
    if args.own is None:
        if given:
            raise CommandError(f"--{given[0]} goes with --with")
        return []
    missing = [f"--{name}" for name in OWN if name not in given]
    if missing:
        raise CommandError(f"--with needs {', '.join(missing)} too")
    pe = OwnPE(path=args.own, top=args.top, macs=args.macs, cycles=args.cycles, formats=args.format)
    return [pe]


def _print(found: "PEComparison") -> None:
    """Print every technology, and what survives the change between them."""
    for k, comparison in enumerate(found.comparisons):
        print(end="\n" if k else "")
        _print_one(comparison)
    for technology, survival in found.wires_by_technology.items():
        print(
            f"\nwhat survives wires in {technology}: PEs that are laid out, by die and energy then"
        )
        _print_survival([technology, f"{technology} laid out"], survival)
    if found.survival is not None:
        names = [c.technology for c in found.comparisons]
        print(f"\nwhat survives the change from {' to '.join(names)}")
        _print_survival(names, found.survival)


def _print_survival(names: list[str], survival: "Survival") -> None:
    words = {True: "holds", False: "does not"}
    if survival.claims:
        print_table(
            ["PAPER SAYS", *(name.upper() for name in names), "OUTCOME"],
            [
                [c.statement, *(words[c.holds_by_technology[n]] for n in names), c.outcome]
                for c in survival.claims
            ],
        )
    for kind in ("area_efficiency", "energy_efficiency"):
        orders = getattr(survival, kind)
        changed = [c for c in orders if c.outcome == "changes"]
        same = len(orders) - len(changed)
        print(f"\norder by {kind.replace('_', ' ')}: {same} of {len(orders)} pairs the same")
        for c in changed:
            print(
                f"  {c.statement}: only in {' '.join(n for n in names if c.holds_by_technology[n])}"
            )


def _print_one(comparison: "Comparison") -> None:
    print(f"{comparison.technology}, {comparison.clock_mhz} MHz, real data; x: over FP-FP")
    rows = [
        ["" if (value := getattr(pe, key)) is None else form.format(value) for key, form in FIGURES]
        for pe in comparison.pes
    ]
    print_table(HEADER, rows)
    print()
    print_table(
        ["PAPER SAYS", "PAPER", "HERE", "DEVIATION %"],
        [
            [c.name, c.shown, f"{c.measured:.2f}", f"{c.deviation_percent:+.0f}"]
            for c in comparison.claims
        ],
    )
    if comparison.decompression is not None:
        d = comparison.decompression
        print(
            f"\nall of {d.spec}, memories and loaders too: {d.area_um2 / d.lanes:.0f} um2 a lane,"
            f" {d.area_um2_per_weight:.0f} um2 per 4-bit weight decompressed a cycle"
        )
