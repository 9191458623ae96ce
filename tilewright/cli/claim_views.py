"""What ``tilewright claims`` shows for each of its options."""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from tilewright.base.console import print_csv, print_json, print_table
from tilewright.base.files import write_atomic
from tilewright.cli import claim_tables as tables
from tilewright.cli import model_tables
from tilewright.cli.contradiction_table import contradiction_table
from tilewright.cli.miss_view import show_misses
from tilewright.cli.program_view import show_programs
from tilewright.golden.params.names import unknown
from tilewright.sim import scoreboard
from tilewright.sim.claims import papers
from tilewright.sim.classes import Summary, class_counts, headline, summary
from tilewright.sim.contradictions import contradictions
from tilewright.sim.coverage import coverage, reasons
from tilewright.sim.what_if import moved_by, parse, what_if

__all__ = ["VIEWS"]


def _claims(args: argparse.Namespace) -> None:
    for verdict in args.verdict or ():
        if verdict not in scoreboard.VERDICTS:
            raise ValueError(unknown("verdict", verdict, scoreboard.VERDICTS))
    results = scoreboard.evaluate(args.paper)
    shown = {
        name: [r for r in rows if not args.verdict or r.verdict in args.verdict]
        for name, rows in results.items()
    }
    counts = summary(results)
    if args.json:
        print_json(
            [
                {"name": name, **asdict(count), "claims": [r.as_dict() for r in shown[name]]}
                for name, count in counts.items()
            ]
        )
    elif args.csv:
        print_csv(*tables.claim_table(r for rows in shown.values() for r in rows))
    else:
        for rows in shown.values():
            print_table(*tables.claim_table(rows))
            print()
        print_table(*tables.summary_table(counts))


def _classes(args: argparse.Namespace) -> None:
    results = [r for rows in scoreboard.evaluate(args.paper).values() for r in rows]
    counts = class_counts(results)
    _show([count.as_dict() for count in counts], tables.class_table(counts), args)
    if not (args.json or args.csv):
        print(f"\n{headline(Summary.of(results))}.")


def _coverage(args: argparse.Namespace) -> None:
    results = scoreboard.evaluate()
    found = coverage(results)
    _show([count.as_dict() for count in found], tables.coverage_table(found), args)
    if not (args.json or args.csv):
        print("\nNot evaluated:")
        why = reasons(r for rows in results.values() for r in rows)
        print_table(("CLAIMS", "REASON"), [(count, text) for text, count in why.items()])


def _what_if(args: argparse.Namespace) -> None:
    found = what_if(dict(parse(text) for text in args.what_if), args.paper)
    _show(found, tables.what_if_table(found), args)


def _moved_by(args: argparse.Namespace) -> None:
    claims = [c for p in args.paper or papers() for c in scoreboard.scoreboard_claims(p)]
    found = list(moved_by(claims))
    _show(found, tables.moved_table(found), args)


def _contradictions(args: argparse.Namespace) -> None:
    found = contradictions(args.paper)
    _show([one.as_dict() for one in found], contradiction_table(found), args)


def _residuals(args: argparse.Namespace) -> None:
    found = scoreboard.residuals(scoreboard.evaluate())
    _show(found, model_tables.residual_table(found), args)


def _sensitivity(args: argparse.Namespace) -> None:
    found = scoreboard.sensitivities()
    _show(found, model_tables.sensitivity_table(found), args)


def _update_record(args: argparse.Namespace) -> None:
    found = scoreboard.record(scoreboard.evaluate())
    write_atomic(scoreboard.RECORD, json.dumps(found, indent=2) + "\n")
    print_json({"record": str(scoreboard.RECORD)}) if args.json else print(scoreboard.RECORD)


def _show(results: Sequence[object], table: tables.Table, args: argparse.Namespace) -> None:
    print_json(results) if args.json else (print_csv if args.csv else print_table)(*table)


VIEWS: dict[str, Callable[[argparse.Namespace], None]] = {
    "claims": _claims,
    "classes": _classes,
    "off": show_misses,
    "coverage": _coverage,
    "what-if": _what_if,
    "moved-by": _moved_by,
    "contradictions": _contradictions,
    "residuals": _residuals,
    "sensitivity": _sensitivity,
    "programs": show_programs,
    "update-record": _update_record,
}
