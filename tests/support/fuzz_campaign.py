"""``python -m tests.support.fuzz_campaign``: damaged inputs for minutes, counted in a record.

Every target gets ``--inputs`` inputs or ``--minutes`` minutes, whichever comes first, with a seed
that no run before had. An input that takes longer than :data:`PATIENCE` seconds, or more than
:data:`MEMORY` bytes beyond what the program has, is a finding too. What is found is printed, and
the exit code is 1. Parts that ran on other machines, from copies of the record, are put together by
``--merge``.
"""

import argparse
import json
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import tilewright.studies
from tests.support.fuzz import Tally, fuzz
from tests.support.fuzz_targets import NAMES, target
from tilewright.base.files import write_atomic

RECORD = Path(tilewright.studies.__file__).parent / "records" / "fuzzing.json"
COMMAND = "python -m tests.support.fuzz_campaign"
PATIENCE = 60
MEMORY = 4 << 30


class TooSlow(Exception):  # noqa: N818 - the parser's error, not ours
    """An input that a parser did not end with."""


def _stop(*_: object) -> None:
    raise TooSlow(f"no end after {PATIENCE} seconds")


def run(name: str, seed: int, inputs: int, minutes: float) -> tuple[Tally, float]:
    """Try ``inputs`` inputs, or as many as ``minutes`` allow."""
    subject = target(name)
    start = time.monotonic()

    def goes_on(tally: Tally) -> bool:
        signal.alarm(PATIENCE)  # for the next one
        return tally.inputs < inputs and time.monotonic() - start < 60 * minutes

    tally = fuzz(subject, seed, goes_on)
    signal.alarm(0)
    return tally, time.monotonic() - start


def merge_into(record: dict[str, Any], part: dict[str, Any]) -> None:
    """Put into ``record`` what a copy of it has more runs of."""
    targets = record["targets"]
    for name, entry in part["targets"].items():
        if entry["runs"] > targets.get(name, {"runs": 0})["runs"]:
            targets[name] = entry


def main() -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(NAMES))
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("-o", type=Path, default=RECORD, metavar="FILE", help="another record")
    merge = "run nothing; take over runs that went on from this record elsewhere"
    parser.add_argument("--merge", type=Path, nargs="+", default=[], metavar="FILE", help=merge)
    args = parser.parse_args()
    record: dict[str, Any] = {"command": COMMAND, "targets": {}}
    if args.o.exists():
        record = json.loads(args.o.read_text())
    if args.merge:
        for part in args.merge:
            merge_into(record, json.loads(part.read_text()))
        write_atomic(args.o, json.dumps(record, indent=1) + "\n")
        return 0
    signal.signal(signal.SIGALRM, _stop)
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + MEMORY, resource.RLIM_INFINITY))
    found = 0
    for name in args.targets or NAMES:
        before = record["targets"].get(name, {"runs": 0, "inputs": 0, "read": 0, "minutes": 0.0})
        tally, seconds = run(name, before["runs"] + 1, args.inputs, args.minutes)
        for finding in tally.findings:
            print(f"{name}: {finding}", flush=True)
        found += len(tally.findings)
        record["targets"][name] = {
            "runs": before["runs"] + 1,
            "inputs": before["inputs"] + tally.inputs,
            "read": before["read"] + tally.read,
            "kinds_of_refusals": max(before.get("kinds_of_refusals", 0), len(tally.refusals)),
            "minutes": round(before["minutes"] + seconds / 60, 1),
            "findings": len(tally.findings),  # of the last run: what it found is to be mended
        }
        write_atomic(args.o, json.dumps(record, indent=1) + "\n")
        print(f"{name}: {tally.inputs} inputs, {len(tally.findings)} findings", flush=True)
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
