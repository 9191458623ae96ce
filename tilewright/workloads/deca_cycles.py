"""Cycles per tile of the simulated element beside the model, the formula and the record."""

import argparse
import json
from pathlib import Path
from typing import Any

from tilewright.console import print_json, print_table, progress
from tilewright.errors import CommandError

__all__ = ["RECORD", "add_arguments", "load_record", "run"]

BENCH = "tilewright.bench.deca_pe.cycles"
RECORD = Path(__file__).parents[1] / "bench" / "records" / "deca_cycles.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("deca.cycles", "cycles per tile with data there")
    group.add_argument(
        "--update-record", action="store_true", help="write the table of every preset down"
    )


def run(args: argparse.Namespace) -> int:
    from golden.params.deca import DecaParams

    if args.update_record and args.on:
        raise CommandError("--update-record measures every preset: leave out --block")
    specs = [args.on] if args.on else [f"deca:{preset}" for preset in DecaParams.PRESETS]
    tables = {}
    with progress("deca.cycles", len(specs)) as tick:
        for spec in specs:
            tick(spec, steps=0)
            result = _measure(spec, args)
            if not result.passed:
                print(f"{spec}: {result.failure}")
                return 1
            tables[spec] = result.numbers["cycle_table"]
            tick()
    record = {
        "command": f"tilewright simulate deca.cycles --cases {args.cases} --update-record",
        "seed": args.seed,
        "blocks": tables,
    }
    if args.update_record:
        from tilewright.files import write_atomic

        write_atomic(RECORD, json.dumps(record, indent=1) + "\n")
    print_json(record) if args.json else _print(tables)
    return 0


def load_record() -> dict[str, Any]:
    return json.loads(RECORD.read_text())


def _measure(spec: str, args: argparse.Namespace) -> Any:
    from golden.params.resolve import resolve
    from tilewright.bench.job import Job
    from tilewright.simulators import default_simulator, run_bench
    from tilewright.simulators.verilog import block_verilog

    return run_bench(
        block_verilog(spec),
        resolve(spec).slug,
        BENCH,
        simulator=args.simulator or default_simulator(),
        job=Job(spec, args.cases, args.seed).as_dict(),
        waves=args.waves,
        optimize="-O1" if args.cases > 5000 else "-O0",  # a long run repays the compiler's time
    )


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
