"""``python -m tilewright.cli.mutation_campaign``: plant errors in RTL, or go on with that.

Mutants that the record has are not run again while the RTL of their block is the same; every
verdict is written at once, so a campaign can be stopped at any time. Parts of a campaign that ran
on other machines, each with a record of its own (``-o``), are put together by ``--merge``.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from tilewright.base.console import print_table
from tilewright.studies.mutations import load_campaign, scores
from tilewright.studies.mutations.campaign import (
    RECORD,
    Campaign,
    OfBlock,
    judge_survivors,
    merged,
    prove_survivors,
    run_block,
)
from tilewright.studies.mutations.in_time import InTime, OutOfTime
from tilewright.studies.mutations.subjects import default_blocks, prepare

HEADER = ("BLOCK", "MUTANTS", "FOUND", "EQUIVALENT", "SURVIVED", "OPEN", "SHARE")


def main() -> int:
    args = _parser().parse_args()
    campaign = merged(load_campaign(args.o), [load_campaign(path) for path in args.merge])
    if args.merge:
        campaign.write(args.o)
    is_run = not (args.show or args.prove or args.again or args.merge)
    blocks = (args.blocks or default_blocks()) if is_run else []
    kept = [block for block in campaign.blocks if block in (args.blocks or campaign.blocks)]
    failed, writing = [], Lock()

    def keep(block: str, found: OfBlock) -> None:
        with writing:
            campaign.blocks[block] = found
            Campaign(dict(sorted(campaign.blocks.items()))).write(args.o)

    def attempt(block: str, work: Callable[[str], OfBlock]) -> None:
        try:
            found = work(block)
            keep(block, found)
            print(block, *(mutant.verdict for mutant in found.mutants), sep="; ", flush=True)
        except OutOfTime:
            pass
        except Exception as error:  # the other blocks are not to blame
            failed.append(block)
            print(f"{block}: {error}", file=sys.stderr, flush=True)

    def run(block: str) -> OfBlock:
        before, keeping = campaign.blocks.get(block), partial(keep, block)
        return run_block(block, args.count, before, prepare, keeping, pool, prove=not args.unproved)

    def look_again(judging: Callable[..., OfBlock], *more: Any) -> Callable[[str], OfBlock]:
        return lambda block: judging(
            block, campaign.blocks[block], *more, partial(keep, block), pool
        )

    # Simulators of mutants are of no use to anybody.
    with tempfile.TemporaryDirectory() as cache, InTime(args.jobs, args.minutes) as pool:
        os.environ["XDG_CACHE_HOME"] = cache
        # As many as there are blocks: they wait for the pool, which does the work.
        with ThreadPoolExecutor(max(len(blocks), len(kept), 1)) as all_blocks:
            for wanted, work, named in (
                (args.prove, look_again(prove_survivors), kept),
                (args.again, look_again(judge_survivors, prepare), kept),
                (is_run, run, blocks),
            ):
                list(all_blocks.map(partial(attempt, work=work), named if wanted else ()))
    rows = [
        (s.block, s.mutants, s.found, s.equivalent, s.survived, s.open, s.percent)
        for s in scores(campaign)
    ]
    print_table(HEADER, rows)
    return min(len(failed), 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tilewright.cli.mutation_campaign", description=__doc__
    )
    parser.add_argument("blocks", nargs="*", help="such as queue:tiny; by default every block")
    parser.add_argument("--count", type=int, default=8, help="mutants of a block (default 8)")
    parser.add_argument("--minutes", type=float, help="begin nothing after this time")
    parser.add_argument("--jobs", "-j", type=int, default=1, help="at a time (default 1)")
    parser.add_argument("-o", type=Path, default=RECORD, metavar="FILE", help="another record")
    merge = "take over records of campaigns that ran elsewhere"
    parser.add_argument("--merge", type=Path, nargs="+", default=[], metavar="FILE", help=merge)
    later = "look for no proofs: what passes its bench stays open, for --prove"
    parser.add_argument("--unproved", action="store_true", help=later)
    parser.add_argument("--prove", action="store_true", help="look for proofs of survivors again")
    parser.add_argument("--again", action="store_true", help="run the benches of survivors again")
    parser.add_argument("--show", action="store_true", help="run nothing, print the scores")
    return parser


if __name__ == "__main__":
    sys.exit(main())
