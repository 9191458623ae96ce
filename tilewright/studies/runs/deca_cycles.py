"""Cycles per tile of the simulated element beside the model, the formula and the record."""

import argparse
from typing import Any

from tilewright.base.console import print_json, print_table
from tilewright.studies.runs.deca_presets import run_presets, write_record

__all__ = ["RECORD", "add_arguments", "run"]

BENCH = "tilewright.verify.deca.cycles"
RECORD = "deca_cycles"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "deca.cycles, deca.coverage, anda.block, deca.block, harmonia.block",
        "cycles per tile with data there; combinations of properties; one decoder layer",
    )
    group.add_argument(
        "--update-record",
        action="store_true",
        help="write the outcome down, which the report shows",
    )


def run(args: argparse.Namespace) -> int:
    found = run_presets(args, BENCH, cases=args.cases)
    if found is None:
        return 1
    tables = {spec: numbers["cycle_table"] for spec, numbers in found.items()}
    record = {
        "command": f"tilewright simulate deca.cycles --cases {args.cases} --update-record",
        "seed": args.seed,
        "blocks": tables,
    }
    if args.update_record:
        write_record(RECORD, record)
    print_json(record) if args.json else _print(tables)
    return 0


def _print(tables: dict[str, list[dict[str, Any]]]) -> None:
    print_table(
        ("BLOCK", "CODE BITS", "SCALE", "TILE", "DENSITY", "TILES", "MEASURED", "MODEL", "FORMULA"),
        [
            (
                spec,
                row["code_bits"],
                row["scale"],
                "int8" if row["int8"] else "bf16",
                f"{row['density']:g}",
                row["tiles"],
                *(f"{row[name]:.4f}" for name in ("measured", "model", "formula")),
            )
            for spec, rows in tables.items()
            for row in rows
        ],
    )
