"""Speed of the kernels on this machine, as a record.

    python -m benchmarks.kernels layers|model [-o FILE] [--quick]

``layers`` measures kernels alone, ``model`` tokens of whole models, stock and packed. The record is
written after every part.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.race import now, rounded
from tilewright.base.records import write_record
from tilewright.kernels.machine import describe_machine


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.kernels", description=__doc__)
    parser.add_argument("what", choices=("layers", "model"))
    parser.add_argument("-o", "--output", type=Path, help="the record [out/kernels-WHAT.json]")
    parser.add_argument("--quick", action="store_true", help="toys; says nothing about speed")
    args = parser.parse_args(words)
    output = args.output or Path(f"out/kernels-{args.what}.json")
    plan: Any
    if args.what == "layers":
        from benchmarks.kernels import layers

        plan = layers.quick_plan() if args.quick else layers.full_plan()
        parts = layers.run(plan)
    else:
        from benchmarks.kernels import models

        plan = models.QUICK if args.quick else models.ModelPlan()
        parts = models.run(plan)
    record = {
        "command": f"python -m benchmarks.kernels {args.what}",
        "began": now(),
        "machine": describe_machine(),
        "plan": asdict(plan),
    }
    for name, part in parts:
        record |= part
        print(name, flush=True)
        write_record(output, rounded(record))
    print(f"record: {output}")


if __name__ == "__main__":
    main()
