"""Functional coverage of the simulated element: every combination of what a tile can be and meet.

A combination that was not reached is a hole, and fails the command.
"""

import argparse

from tilewright.base.console import print_json, print_table
from tilewright.studies.runs.deca_presets import run_presets, write_record
from tilewright.verify.coverage import Coverage

__all__ = ["RECORD", "add_arguments", "run"]

BENCH = "tilewright.verify.deca.combinations"
RECORD = "deca_coverage"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own: ``--update-record`` is that of ``deca.cycles``."""


def run(args: argparse.Namespace) -> int:
    found = run_presets(args, BENCH, exhaustive=True)
    if found is None:
        return 1
    record = {
        "command": "tilewright simulate deca.coverage --update-record",
        "seed": args.seed,
        "blocks": {
            spec: numbers["coverage"] | {name: numbers[name] for name in ("cases", "cycles")}
            for spec, numbers in found.items()
        },
    }
    if args.update_record:
        write_record(RECORD, record)
    print_json(record) if args.json else _print(record["blocks"])
    return 0


def _print(blocks: dict[str, dict]) -> None:
    rows = []
    for spec, entry in blocks.items():
        coverage = Coverage.from_dict(entry)
        squashed = sum(
            hits
            for found, hits in zip(coverage.bins(), coverage.hits, strict=True)
            if found["squash"] != "undisturbed"
        )
        seen = len(coverage.hits) - len(coverage.holes)
        rows.append(
            (spec, f"{seen:,}", f"{len(coverage.hits):,}", f"{entry['cases']:,}", f"{squashed:,}")
        )
    print_table(("BLOCK", "COMBINATIONS SEEN", "OF", "TILES", "SQUASHED"), rows)
