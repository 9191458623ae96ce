"""``tilewright synth --compare``: what differs between records."""

import argparse
from collections.abc import Sequence

from tilewright.base.console import print_json, print_table
from tilewright.synth.compare import Change, compare_record_files

__all__ = ["compare"]


def compare(args: argparse.Namespace) -> int:
    """Compare two record files, or two folders of them."""
    changes = compare_record_files(*args.compare)
    if args.json:
        print_json([{"record": name, **vars(change)} for name, change in changes])
    else:
        _print_changes(changes)
    return 0


def _print_changes(changes: Sequence[tuple[str, Change]]) -> None:
    if not changes:
        print("no metric changed")
        return
    rows = []
    for name, c in changes:
        percent = "" if c.percent is None else f"{c.percent:+.1f}"
        rows.append((name, c.metric, c.old, c.new, c.unit, percent, c.verdict))
    print_table(("RECORD", "METRIC", "OLD", "NEW", "UNIT", "CHANGE %", "VERDICT"), rows)
