"""``tilewright report``: records and live checks as static pages."""

import argparse
from pathlib import Path

from tilewright.base.console import print_json, remark

NAME = "report"
HELP = "write the report: static pages that open with no network, and the JSON behind them"
EXAMPLE = "tilewright report -o out/report"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        default="out/report",
        help="folder to write or replace [%(default)s]",
    )
    parser.add_argument(
        "--cases",
        type=int,
        default=100_000,
        metavar="N",
        help="operand sets per live check of the golden models [%(default)s]",
    )
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        metavar="DESIGN",
        dest="own",
        help="a design of your own beside ours, on a page of its own: FILE.toml of an accelerator,"
        " FILE.py:CLASS of a format, or the FILE.json that compare pe printed; repeatable",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit with 1 if a page has a problem, such as a record that is out of date",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.report import build_report
    from tilewright.report.page import Context
    from tilewright.studies.own_designs import read_designs
    from tilewright.synth.record import RECORDS

    if args.cases < 1:
        raise ValueError(f"--cases must be at least 1, not {args.cases}")
    read_designs(args.own)  # what is wrong with one is said at once
    context = Context(records=RECORDS, cases=args.cases, own=tuple(args.own))
    pages = build_report(args.output, context)
    failures, problems = (
        [f"{name}: {line}" for name, page in pages.items() for line in getattr(page, kind)]
        for kind in ("failures", "problems")
    )
    index = Path(args.output) / "index.html"
    if args.json:
        print_json(
            {
                "index": str(index),
                "pages": list(pages),
                "failures": failures,
                "problems": problems,
            }
        )
    else:
        print(f"{index} and {len(pages)} pages")
        for line in (*failures, *problems):
            remark(f"tilewright: {line}")
    return 1 if failures or (args.strict and problems) else 0
