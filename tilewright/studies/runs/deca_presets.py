"""Benches that every preset of the DECA element runs, and the records of what they found."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from tilewright.base.console import progress
from tilewright.base.errors import CommandError

__all__ = ["RECORDS", "load_record", "run_presets", "write_record"]

RECORDS = Path(__file__).parents[1] / "records"


def run_presets(args: argparse.Namespace, bench: str, **job: Any) -> dict[str, Any] | None:
    """What the tests of module ``bench`` report, by block: every preset, or ``--block`` alone.

    ``job`` are the fields of the job beside block and seed. None where a test failed, which is
    printed.
    """
    from tilewright.golden.params.deca import DecaParams
    from tilewright.golden.params.resolve import resolve
    from tilewright.verify.job import Job
    from tilewright.verify.simulators import default_simulator, run_bench
    from tilewright.verify.simulators.verilog import block_verilog

    if args.update_record and args.on:
        raise CommandError("--update-record measures every preset: leave out --block")
    specs = [args.on] if args.on else [f"deca:{preset}" for preset in DecaParams.PRESETS]
    found = {}
    with progress(args.block, len(specs)) as tick:
        for spec in specs:
            tick(spec, steps=0)
            asked = Job(spec, seed=args.seed, **job)
            long = asked.exhaustive or asked.cases > 5000  # repays the compiler's time
            result = run_bench(
                block_verilog(spec),
                resolve(spec).slug,
                bench,
                simulator=args.simulator or default_simulator(),
                job=asked.as_dict(),
                waves=args.waves,
                optimize="-O1" if long else "-O0",
            )
            if not result.passed:
                print(f"{spec}: {result.failure}")
                return None
            found[spec] = result.numbers
            tick()
    return found


def write_record(name: str, record: dict[str, Any]) -> None:
    from tilewright.base.files import write_atomic

    text = json.dumps(record, indent=1)
    # Numbers side by side: a list of thousands has no place in as many lines.
    text = re.sub(r"\[[\d,\s]+\]", lambda found: " ".join(found[0].split()), text)
    write_atomic(RECORDS / f"{name}.json", text + "\n")


def load_record(name: str) -> dict[str, Any]:
    return json.loads((RECORDS / f"{name}.json").read_text())
