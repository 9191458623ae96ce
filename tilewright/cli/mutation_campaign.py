"""``python -m tilewright.cli.mutation_campaign``: plant errors in RTL, or go on with that.

Mutants that the record has are not run again while the RTL of their block is the same; every
verdict is written at once, so a campaign can be stopped at any time.
"""

import argparse
import os
import tempfile
import time
from functools import partial
from pathlib import Path

from tilewright.base.console import print_table
from tilewright.studies.mutations import load_campaign, scores
from tilewright.studies.mutations.campaign import (
    RECORD,
    Campaign,
    OfBlock,
    judge_survivors,
    prove_survivors,
    run_block,
)
from tilewright.studies.mutations.subjects import default_blocks, prepare

HEADER = ("BLOCK", "MUTANTS", "FOUND", "EQUIVALENT", "SURVIVED", "SHARE")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tilewright.cli.mutation_campaign", description=__doc__
    )
    parser.add_argument("blocks", nargs="*", help="such as queue:tiny; by default every block")
    parser.add_argument("--count", type=int, default=8, help="mutants of a block (default 8)")
    parser.add_argument("--minutes", type=float, help="begin no block after this time")
    parser.add_argument("-o", type=Path, default=RECORD, metavar="FILE", help="another record")
    parser.add_argument("--prove", action="store_true", help="look for proofs of survivors again")
    parser.add_argument("--again", action="store_true", help="run the benches of survivors again")
    parser.add_argument("--show", action="store_true", help="run nothing, print the scores")
    args = parser.parse_args()
    started = time.monotonic()
    campaign = load_campaign(args.o)
    is_run = not (args.show or args.prove or args.again)
    blocks = (args.blocks or default_blocks()) if is_run else []

    def keep(block: str, found: OfBlock) -> None:
        kept = dict(sorted((campaign.blocks | {block: found}).items()))
        campaign.blocks.clear()
        campaign.blocks.update(kept)
        Campaign(kept).write(args.o)

    kept = [(b, f) for b, f in campaign.blocks.items() if b in (args.blocks or campaign.blocks)]
    for block, found in kept if args.prove else ():
        keep(block, prove_survivors(block, found))
    with tempfile.TemporaryDirectory() as cache:  # simulators of mutants are of no use to anybody
        os.environ["XDG_CACHE_HOME"] = cache
        for block, found in kept if args.again else ():
            keep(block, judge_survivors(block, found, prepare))
        for block in blocks:
            if args.minutes and time.monotonic() - started > 60 * args.minutes:
                break
            before = campaign.blocks.get(block)
            found = run_block(block, args.count, before, prepare, partial(keep, block))
            print(block, *(mutant.verdict for mutant in found.mutants), sep="; ", flush=True)
    rows = [
        (s.block, s.mutants, s.found, s.equivalent, s.survived, f"{s.share:.1%}")
        for s in scores(campaign)
    ]
    print_table(HEADER, rows)


if __name__ == "__main__":
    main()
