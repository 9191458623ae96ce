"""``tilewright compare pe``: processing elements side by side, and beside the papers."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, progress
from tilewright.base.errors import CommandError
from tilewright.cli.pe_tables import print_comparison

if TYPE_CHECKING:
    from tilewright.studies.pe.own_pe import OwnPE

NAME = "pe"
HELP = "put processing elements on one workload: area, delay, energy, beside the paper"
EXAMPLE = "tilewright compare pe --tech asap7 --plot out/pe.svg"
OWN = ("top", "macs", "cycles", "format")  # what --with goes with


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
    parser.add_argument("--top", metavar="NAME", help="its module")
    parser.add_argument("--macs", metavar="N", type=int, help="its multiply-adds in --cycles")
    parser.add_argument("--cycles", metavar="N", type=int, help="that it takes for --macs")
    parser.add_argument(
        "--format", metavar="AxB", help="of its activations and weights, such as int8xint4"
    )
    parser.add_argument(
        "--plot", metavar="FILE", type=Path, help="draw the efficiencies as bars (SVG, PNG, PDF)"
    )
    parser.add_argument(
        "--update-records",
        action="store_true",
        help="synthesise and simulate again; writes synth/records",
    )
    stale = "of --update-records, only what has no up-to-date record"
    parser.add_argument("--stale", action="store_true", help=stale)


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.pe.compare import compare
    from tilewright.studies.pe.energy import record_jobs, update_records
    from tilewright.studies.pe.plot import plot_efficiencies
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
    if args.plot:
        plot_efficiencies(result.comparisons, args.plot)
    if args.json:
        print_json(result)
        return 0
    print_comparison(result)
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
