"""Which technologies ``tilewright synth`` maps to, and how far one is from its full library."""

import argparse
from typing import Any

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError
from tilewright.studies.synthesis import store_deviation
from tilewright.synth.deviation import technology_deviation
from tilewright.synth.liberty_reader import read_liberty
from tilewright.synth.reference import REFERENCE_DESIGNS
from tilewright.synth.technology import TECHNOLOGIES, Technology, load_technology

__all__ = ["check_technology", "technologies_of"]


def technologies_of(args: argparse.Namespace) -> list[Technology]:
    """Return the user's own library, the technology that was named, or all of the project's."""
    if args.liberty:
        if args.tech:
            raise CommandError("--tech and --liberty exclude each other")
        return [read_liberty(args.liberty, dont_use=args.dont_use)]
    if args.dont_use:
        raise CommandError("--dont-use goes with --liberty or --check-technology")
    return [load_technology(name) for name in ([args.tech] if args.tech else TECHNOLOGIES)]


def check_technology(args: argparse.Namespace) -> int:
    """Measure a technology's compact table against the full Liberty files it came from."""
    if not args.tech:
        raise CommandError("--check-technology needs --tech")
    with progress(args.tech, len(REFERENCE_DESIGNS)) as tick:
        result = technology_deviation(args.tech, args.check_technology, args.dont_use, tick)
    if args.update_records:
        store_deviation(args.tech, result)
    print_json(result) if args.json else _print_deviation(result)
    return 0


def _print_deviation(result: dict[str, Any]) -> None:
    header = ("DESIGN", "AREA UM2", "FULL", "RATIO", "DELAY PS", "FULL", "RATIO", "SAME NETLIST")
    rows = []
    for name, design in result["designs"].items():
        compact, full = design["compact"], design["full"]
        area = compact["area_um2"], full["area_um2"], design["area_ratio"]
        delay = compact["delay_ps"], full["delay_ps"], design["delay_ratio"]
        rows.append((name, *area, *delay, design["delay_ratio_same_netlist"]))
    print_table(header, rows)
