"""``tilewright simulate deca.stream``: a stream of tiles with a memory and a core."""

import argparse
from fractions import Fraction
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table
from tilewright.base.errors import CommandError
from tilewright.cli.workloads import add_simulation, simulation_of

if TYPE_CHECKING:
    from tilewright.studies.runs.deca_rates import StreamRun

NAME = "deca.stream"
HELP = "a stream of tiles through core, DECA and memory, cycle by cycle"
EXAMPLE = "tilewright simulate deca.stream --block deca --scheme bf8 --density 0.2 --tiles 40"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scheme", default="bf8", help="weight format, as for tilewright pack [bf8]"
    )
    parser.add_argument("--density", type=float, metavar="D", help="share of nonzero weights [all]")
    parser.add_argument(
        "--tiles", type=int, default=200, metavar="N", help="length of the stream [200]"
    )
    parser.add_argument(
        "--degree", type=int, default=5, metavar="D", help="tiles prefetched ahead, 0..15 [5]"
    )
    parser.add_argument(
        "--l2-prefetch", action="store_true", help="the L2's own prefetcher instead, --degree 0"
    )
    parser.add_argument(
        "--near", type=int, default=14, metavar="CYCLES", help="latency of a line in the L2 [14]"
    )
    parser.add_argument(
        "--latency",
        type=int,
        default=261,
        metavar="CYCLES",
        help="extra latency of an L2 miss [261]",
    )
    parser.add_argument(
        "--bandwidth",
        type=str,
        metavar="BYTES",
        help="bytes per cycle of memory bandwidth for this core [no limit]",
    )
    parser.add_argument(
        "--matrix",
        type=int,
        default=16,
        metavar="CYCLES",
        help="cycles of the matrix unit per tile [16]",
    )
    add_simulation(parser, "deca_tepl")


def run(args: argparse.Namespace) -> int:
    from tilewright.golden.deca.core import CoreParams
    from tilewright.golden.deca.memory import MemoryParams
    from tilewright.studies.runs.deca_rates import measure_streams
    from tilewright.verify.deca.stream_case import StreamCase

    if args.l2_prefetch and args.degree:
        raise CommandError("--l2-prefetch takes --degree 0: one prefetcher at a time")
    if args.density is not None and not 0 <= args.density <= 1:
        raise CommandError(f"--density must be 0..1, not {args.density:g}")
    case = StreamCase(
        scheme=args.scheme,
        density=args.density,
        tiles=args.tiles,
        seed=args.seed,
        degree=args.degree,
        memory=MemoryParams(
            l2_latency=args.near,
            latency=args.latency,
            bytes_per_cycle=_share(args.bandwidth),
            l2_prefetch=args.l2_prefetch,
        ),
        core=CoreParams(matrix_cycles=args.matrix),
    )
    (done,) = measure_streams(args.block or "deca_tepl", [case], simulation=simulation_of(args))
    print_json(done.as_dict()) if args.json else _print(done)
    return 0 if done.equal else 1


def _share(text: str | None) -> Fraction | None:
    try:
        return None if text is None else Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise CommandError(f"--bandwidth is a number such as 5.74, not {text!r}") from None


def _print(done: "StreamRun") -> None:
    case = done.case
    print_table(
        ("", "VALUE"),
        [
            ("tiles", f"{case.tiles:,}"),
            ("cycles between two tiles", f"{done.interval:.2f}"),
            ("the same in the model", f"{done.model_interval:.2f}"),
            ("tiles whose every event is in the model's cycle", f"{done.equal_tiles:,}"),
            ("requests for lines in the model's cycles", "yes" if done.equal_requests else "no"),
            ("lines read", f"{done.lines_read:,}"),
            ("of these missed", f"{done.lines_missed:,}"),
            ("lines prefetched", f"{done.lines_prefetched:,}"),
            ("prefetches dropped", f"{done.prefetches_dropped:,}"),
        ],
    )
