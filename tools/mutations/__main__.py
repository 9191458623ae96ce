"""Plant errors in the RTL of blocks and run the blocks' benches on each.

Outcomes are written one by one. Those that the file already holds are not made again while the
RTL of their block is the same, so that a campaign can be stopped at any time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

from tilewright.base.console import print_table
from tilewright.base.records import write_record
from tools.mutations.campaign import VERDICTS, Subject, smallest_presets

SCORES, OUTPUT = Path(__file__).with_name("scores.json"), Path("out/mutations.jsonl")
COLUMNS = ("places", "planted", *VERDICTS)
PLACES = 10  # drawn for a block that has no score yet


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutations", description=__doc__)
    parser.add_argument("blocks", nargs="*", help="such as queue:tiny; default: all, smallest size")
    places = f"places drawn per block (default: as recorded, else {PLACES})"
    parser.add_argument("--places", type=int, help=places)
    parser.add_argument("--jobs", "-j", type=int, default=1, help="errors at a time (default: 1)")
    parser.add_argument("--output", "-o", type=Path, default=OUTPUT, help=f"default: {OUTPUT}")
    parser.add_argument("--record", action="store_true", help=f"update {SCORES.name}")
    args = parser.parse_args()
    recorded = json.loads(SCORES.read_text())["blocks"]
    scores, failed = {}, 0
    # Simulators of mutants are of no further use.
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        for block in args.blocks or smallest_presets():
            places = args.places or recorded.get(block, {}).get("places", PLACES)
            try:
                verdicts = [o["verdict"] for o in outcomes(block, places, args.jobs, args.output)]
            except Exception as error:  # the other blocks are not to blame
                print(f"{block}: {error}", file=sys.stderr, flush=True)
                failed = 1
                continue
            counts = {verdict: verdicts.count(verdict) for verdict in VERDICTS}
            scores[block] = {"places": places, "planted": sum(counts.values()), **counts}
    print_table(
        ("BLOCK", *(word.upper() for word in COLUMNS)),
        [(block, *(row[column] for column in COLUMNS)) for block, row in scores.items()],
    )
    if args.record:
        commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
        blocks = dict(sorted((recorded | scores).items()))
        write_record(SCORES, {"date": str(date.today()), "commit": commit, "blocks": blocks})
    return failed


def outcomes(block: str, places: int, jobs: int, path: Path) -> Iterator[dict[str, Any]]:
    """Yield what became of each error, from the file or from a run that is added to the file.

    An error that leaves the Verilog as it is has the verdict ``unchanged``.
    """
    subject = Subject(block)
    rtlil = sha256(subject.rtlil.encode()).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {}
    if path.exists():
        found = [json.loads(line) for line in path.read_text().splitlines()]
        known = {o["place"]: o for o in found if (o["block"], o["rtlil"]) == (block, rtlil)}
    drawn = subject.drawn(places)
    yield from (known[place] for place in range(len(drawn)) if place in known)
    with path.open("a") as file, ThreadPoolExecutor(jobs) as pool:
        new = {pool.submit(subject.judge, drawn[k]): k for k in range(len(drawn)) if k not in known}
        for done in as_completed(new):
            mutation, (verdict, finding) = drawn[new[done]], done.result()
            outcome = {"block": block, "rtlil": rtlil, "place": new[done], "verdict": verdict}
            outcome |= {"kind": mutation.kind, "where": f"{mutation.module}, {mutation.place}"}
            outcome |= {"change": mutation.change, "finding": finding}
            print(json.dumps(outcome), file=file, flush=True)
            print(block, verdict, mutation.kind, mutation.place, mutation.change, sep="; ")
            yield outcome


if __name__ == "__main__":
    sys.exit(main())
