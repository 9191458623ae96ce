"""``tilewright report``: the site, documentation and results, from records and runs."""

import argparse
from pathlib import Path

from tilewright.base.console import print_json, remark
from tilewright.cli.options import adder

NAME = "report"
HELP = "build the site: documentation and results in static pages that open with no network"
EXAMPLE = "tilewright report -o out/report"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("-o --output DIR", "folder to write or replace", "out/report")
    add(
        "--with DESIGN...",
        "your own design, compared with ours on a page: FILE.toml of an accelerator,"
        " FILE.py:CLASS of a format, or the FILE.json that compare pe printed",
        dest="own",
    )
    add("--strict", "exit with 1 if a record is out of date; a warning of Sphinx is an error")


def run(args: argparse.Namespace) -> int:
    from tilewright.site.build import build_site
    from tilewright.site.problems import find_failures, find_problems
    from tilewright.studies.own_designs import read_designs

    read_designs(args.own)  # an error in one is said at once
    build_site(args.output, args.own, strict=args.strict)
    failures, problems = find_failures(), find_problems()
    index = Path(args.output) / "index.html"
    pages = sorted(str(path.relative_to(args.output)) for path in index.parent.rglob("*.html"))
    if args.json:
        found = {"failures": failures, "problems": problems}
        print_json({"index": str(index), "pages": pages, **found})
    else:
        print(f"{index} and {len(pages) - 1} pages")
        for line in (*failures, *problems):
            remark(f"tilewright: {line}")
    return 1 if failures or (args.strict and problems) else 0
