"""``python -m tilewright.studies.mutations``: run a campaign, or go on with it.

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
from tilewright.golden.params.resolve import BLOCKS, resolve
from tilewright.studies.mutations.campaign import (
    RECORD,
    Campaign,
    OfBlock,
    load_campaign,
    run_block,
    scores,
)
from tilewright.studies.mutations.judging import Subject
from tilewright.synth.emit import to_rtlil, verilog_from_rtlil
from tilewright.verify import bench_of, cocotb_tests
from tilewright.verify.bench import StreamBench
from tilewright.verify.job import DEFAULT_STALLS, Job
from tilewright.verify.simulators import run_bench

FEW, ORDINARY = 30, 1000  # cases: of the first try, and as many as `tilewright simulate` runs
# Bytes of RTLIL up to which Icarus Verilog, which builds in no time, is done sooner.
SMALL = 150_000
# Their benches draw whole programs or tiles: this many show what hundreds do, in a minute.
OF_MACHINES = 40
PATIENCE = 20  # times the seconds of the block without an error


def default_blocks() -> list[str]:
    """Every block in the smallest of its presets, small ones first, whole accelerators last."""
    named = []
    for name, cls in BLOCKS.items():
        presets = list(cls.PRESETS)
        small = [preset for preset in ("small", "tiny") if preset in presets]
        named.append(f"{name}:{(small or presets)[0]}")
    units = {block: len(to_rtlil(resolve(block))) for block in named if not is_machine(block)}
    return [*sorted(units, key=lambda block: units[block]), *filter(is_machine, named)]


def is_machine(block: str) -> bool:
    """Whether its bench is more than streams: a whole accelerator."""
    return not isinstance(bench_of(resolve(block)), StreamBench)


def prepare(block: str, rtlil: str) -> Subject:
    """Measure the block without an error, on the simulator that is likely to be done sooner."""
    params, verilog = resolve(block), verilog_from_rtlil(rtlil)
    large = is_machine(block)
    cases = (OF_MACHINES,) if large else (FEW, ORDINARY)
    stalls = (0.0,) if large else DEFAULT_STALLS
    simulator = "icarus" if len(rtlil) <= SMALL else "verilator"
    start = time.perf_counter()
    job = Job(block, cases[0], stalls=stalls).as_dict()
    result = run_bench(verilog, params.slug, cocotb_tests(params), simulator=simulator, job=job)
    if not result.passed:
        raise SystemExit(f"{block} fails its bench without an error: {result.failure}")
    limit = max(60.0, PATIENCE * (time.perf_counter() - start))
    return Subject(block, rtlil, verilog, simulator, cases, limit, stalls)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tilewright.studies.mutations", description=__doc__
    )
    parser.add_argument("blocks", nargs="*", help="such as queue:tiny; by default every block")
    parser.add_argument("--count", type=int, default=8, help="mutants of a block (default 8)")
    parser.add_argument("--minutes", type=float, help="begin no block after this time")
    parser.add_argument("-o", type=Path, default=RECORD, metavar="FILE", help="another record")
    parser.add_argument("--show", action="store_true", help="run nothing, print the scores")
    args = parser.parse_args()
    started = time.monotonic()
    campaign = load_campaign(args.o)
    blocks = [] if args.show else args.blocks or default_blocks()

    def keep(block: str, found: OfBlock) -> None:
        kept = dict(sorted((campaign.blocks | {block: found}).items()))
        campaign.blocks.clear()
        campaign.blocks.update(kept)
        Campaign(kept).write(args.o)

    with tempfile.TemporaryDirectory() as cache:  # simulators of mutants are of no use to anybody
        os.environ["XDG_CACHE_HOME"] = cache
        for block in blocks:
            if args.minutes and time.monotonic() - started > 60 * args.minutes:
                break
            before = campaign.blocks.get(block)
            found = run_block(block, args.count, before, prepare, partial(keep, block))
            print(block, *(mutant.verdict for mutant in found.mutants), sep="; ", flush=True)
    header = ("BLOCK", "MUTANTS", "FOUND", "EQUIVALENT", "SURVIVED", "SHARE")
    rows = [
        (s.block, s.mutants, s.found, s.equivalent, s.survived, f"{s.share:.1%}")
        for s in scores(campaign)
    ]
    print_table(header, rows)


if __name__ == "__main__":
    main()
