"""``tilewright evidence``: which long tests have passed, when, and whether their code changed."""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tilewright
from tilewright.base.console import print_csv, print_json, print_table
from tilewright.base.errors import CommandError

NAME = "evidence"
HELP = "show which long tests passed on which commit, and which are older than their code"
EXAMPLE = "tilewright evidence --stale"
ROOT = Path(tilewright.__file__).parents[1]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--add",
        nargs="+",
        metavar="FILE",
        help="take over outcomes that `nox -s full -- --shard K/N` left in out/evidence",
    )
    parser.add_argument(
        "--commit",
        help="of outcomes of a copy that is no checkout: this one, checked out here, was run",
    )
    parser.add_argument(
        "--known",
        metavar="FILE",
        help="names of all long tests, one a line: outcomes of others are forgotten",
    )
    parser.add_argument("--stale", action="store_true", help="only what must be run again")
    parser.add_argument("--csv", action="store_true", help="comma-separated values, for programs")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies import evidence
    from tilewright.studies.evidence.summary import FILE

    if args.csv and args.json:
        raise CommandError("--csv and --json exclude each other")
    if not (ROOT / "tests").is_dir():
        raise CommandError("evidence is kept in a checkout of the project, beside its tests")
    for option, value in (("--commit", args.commit), ("--known", args.known)):
        if value and not args.add:
            raise CommandError(f"{option} is of outcomes that --add takes over")
    summary = evidence.read_summary(ROOT / FILE)
    if args.add:
        runs = [evidence.read_run(Path(name)) for name in args.add]
        if args.commit:
            runs = [evidence.of_commit(run, args.commit, ROOT) for run in runs]
        summary = evidence.merged(summary, runs)
        if args.known:
            summary = _without_gone(summary, Path(args.known))
        summary.write(ROOT / FILE)
    found = evidence.standings(summary, ROOT)
    if args.stale:
        found = [one for one in found if not one.current or one.failed]
    today = datetime.now(UTC).date()
    if args.json:
        print_json([one.as_dict() | {"days_ago": one.days_before(today)} for one in found])
    else:
        (print_csv if args.csv else print_table)(*evidence.table(found, today))
    return 0


def _without_gone(summary: Any, path: Path) -> Any:
    """The summary without tests that are no more; how many have no outcome is said."""
    try:
        names = path.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise CommandError(f"--known {path}: {error}") from None
    names = [name for name in names if name]
    kept = summary.only(names)
    if missing := len(set(names) - kept.tests.keys()):
        print(f"{missing} of {len(names)} long tests have no outcome", file=sys.stderr)
    return kept
