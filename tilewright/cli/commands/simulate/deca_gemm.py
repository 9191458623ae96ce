"""``tilewright simulate deca.gemm``: a compressed matrix times activations on DECA."""

import argparse
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table
from tilewright.cli.workloads import DECA_LATENCY, add_latency, add_simulation, simulation_of

if TYPE_CHECKING:
    from tilewright.studies.runs.deca_gemm import GemmRun

NAME = "deca.gemm"
HELP = "a compressed matrix multiplication on DECA"
EXAMPLE = "tilewright simulate deca.gemm --block deca:small --m 40 --k 200 --n 5"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--m", type=int, default=256, metavar="M", help="rows of weights [256]")
    parser.add_argument(
        "--k", type=int, default=1024, metavar="K", help="columns of weights [1024]"
    )
    parser.add_argument("--n", type=int, default=16, metavar="N", help="activation vectors [16]")
    parser.add_argument(
        "--scheme", default="bf8", help="weight format, as for tilewright pack [bf8]"
    )
    parser.add_argument("--density", type=float, metavar="D", help="share of nonzero weights [all]")
    parser.add_argument(
        "--weights",
        metavar="MODEL",
        help="take the weights from the only matrix of a model, as for tilewright pack",
    )
    parser.add_argument(
        "--tensor", metavar="NAME", help="name of the matrix, where --weights has several"
    )
    parser.add_argument(
        "--prefetch", type=int, default=8, metavar="DEGREE", help="tiles ahead, 0..15 [8]"
    )
    parser.add_argument(
        "--near", type=int, default=14, metavar="CYCLES", help="latency of a prefetched line [14]"
    )
    add_latency(parser, DECA_LATENCY)
    add_simulation(parser, "deca")


def run(args: argparse.Namespace) -> int:
    from tilewright.studies.runs.deca_gemm import DecaMemory, gemm_on_deca, read_weights

    done = gemm_on_deca(
        args.block or "deca",
        m=args.m,
        k=args.k,
        n=args.n,
        scheme=args.scheme,
        density=args.density,
        weights=read_weights(args.weights, args.tensor) if args.weights else None,
        memory=DecaMemory(args.latency, args.prefetch, args.near),
        simulation=simulation_of(args),
    )
    print_json(done) if args.json else _print(done)
    return 0 if done.equal else 1


def _print(done: "GemmRun") -> None:
    m, k, n = done.shape
    verdict = "equals golden's" if done.equal else f"differs in {done.wrong} values"
    density = "" if done.density is None else f" at density {done.density:g}"
    print(f"{m}x{k} {done.scheme}{density} times {k}x{n} on {done.block}: {verdict}\n")
    print_table(
        ("", "VALUE"),
        [
            ("tiles", f"{done.tiles:,}"),
            ("bytes", f"{done.bytes:,}"),
            ("cycles", f"{done.cycles:,}"),
            ("cycles/tile", f"{done.cycles_per_tile:.2f}"),
            ("vector operations/tile", f"{done.vector_operations_per_tile:.2f}"),
            ("bubbles/tile", f"{done.bubbles_per_tile:.2f}"),
            ("lines read", f"{done.lines_read:,}"),
            ("lines prefetched", f"{done.lines_prefetched:,}"),
            ("of these read later", _percent(done.prefetch_accuracy)),
            ("reads that found a prefetched line", _percent(done.read_after_prefetch)),
        ],
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
