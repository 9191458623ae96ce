"""Speed of the kernels on this machine, as a record.

    python -m benchmarks.kernels layers|model|sharing [-o FILE] [--quick] [--only SECTION]...

``layers`` measures kernels alone, ``model`` tokens of whole models, stock and packed, and
``sharing`` the same where processors are few or shared. The record is written after every part.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.race import now, rounded, write
from tilewright.kernels.machine import describe_machine

Record = dict[str, Any]


def main(words: list[str] | None = None) -> None:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(prog="benchmarks.kernels", description=__doc__)
    parser.add_argument("what", choices=("layers", "model", "sharing"))
    parser.add_argument("-o", "--output", type=Path, help="the record [out/kernels-WHAT.json]")
    parser.add_argument("--quick", action="store_true", help="toys; says nothing about speed")
    parser.add_argument(
        "--only", action="append", default=[], metavar="SECTION",
        help="layers: measure these sections again, and take the others from the record",
    )  # fmt: skip
    args = parser.parse_args(words)
    output = args.output or Path(f"out/kernels-{args.what}.json")
    command = f"python -m benchmarks.kernels {args.what}"
    record: Record = {"command": command, "began": now(), "machine": asdict(describe_machine())}
    if args.what == "layers":
        from benchmarks.kernels.layers import full_plan, quick_plan, sections

        plan = quick_plan() if args.quick else full_plan()
        record["plan"] = asdict(plan)
        if args.only and output.exists():
            before = json.loads(output.read_text())
            same = [before[key] == rounded(record[key]) for key in ("machine", "plan")]
            if not all(same):
                parser.error(f"{output} is a record of another machine or another plan")
            record = before
        known = sections(plan)
        if unknown := sorted(set(args.only) - set(known)):
            parser.error(f"no section {unknown[0]!r}: there are {', '.join(known)}")
        parts = layer_parts(known, args.only, record, command)
    else:
        from benchmarks.kernels import models, sharing

        shape = models.QUICK if args.quick else models.ModelPlan()
        if args.what == "model":
            parts = models.run(shape)
        else:
            if not args.quick:
                shape = replace(shape, num_hidden_layers=8, vocab_size=32000, rounds=9)
            parts = sharing.run(asdict(shape))
        record["plan"] = asdict(shape)
    for name, part in parts:
        record |= part
        print(name, flush=True)
        write(output, record)
    print(f"record: {output}")


def layer_parts(
    sections: dict[str, Any], only: list[str], record: Record, command: str
) -> Iterator[tuple[str, Record]]:
    """Sections, with when each was measured and by which command."""
    for name, measure in sections.items():
        if only and name not in only and (name != "roofs" or "roofs" in record):
            continue
        start, began = perf_counter(), now()
        part = measure(record)
        said = " ".join([command, *(f"--only {name}" for name in only)])
        about = {"command": said, "began": began, "seconds": perf_counter() - start}
        yield name, part | {"sections": record.get("sections", {}) | {name: about}}


if __name__ == "__main__":
    main()
