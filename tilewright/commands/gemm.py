"""``tilewright gemm``: time and bounds of single matrix products."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.commands.llm import DEFAULT_SYSTEM, add_system_arguments
from tilewright.console import print_json, print_table
from tilewright.errors import CommandError

if TYPE_CHECKING:
    from sim.workload import Gemm

NAME = "gemm"
HELP = "time, rate and bounds of matrix products on a system"
EXAMPLE = "tilewright gemm 16 8192 28672 --system spr-hbm --scheme bf8_30%"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shape", nargs="*", type=int, metavar="SIZE", help="ROWS INNER OUTER of one product"
    )
    parser.add_argument(
        "--csv", type=Path, metavar="FILE", help="a table: name, rows, inner, outer[, count]"
    )
    add_system_arguments(parser)
    parser.add_argument(
        "--block",
        metavar="BLOCK",
        help="anda or harmonia as built, such as harmonia,line_bytes=256,dma_lines=64: the cycles"
        " of its own programs, memory port and all, instead of a formula",
    )
    parser.add_argument(
        "--latency", type=int, metavar="N", help="of that block's memory, in cycles [30]"
    )


def run(args: argparse.Namespace) -> int:
    from sim.llm import product_times
    from sim.workload import Gemm, read_csv

    if args.csv is not None and not args.shape:
        products = read_csv(args.csv)
    elif args.csv is None and len(args.shape) == 3:
        rows, inner, outer = args.shape
        products = [Gemm(name="product", module="other", rows=rows, inner=inner, outer=outer)]
    else:
        raise CommandError("give ROWS INNER OUTER, or --csv FILE")
    if args.block is not None:
        found = _program_times(args, products)
    elif args.latency is not None:
        raise CommandError("--latency goes with --block")
    else:
        system = args.system or DEFAULT_SYSTEM
        found = product_times(products, system, scheme=args.scheme, engine=args.engine)
    if args.json:
        print_json(found)
        return 0
    print_table(
        ("NAME", "ROWS", "INNER", "OUTER", "COUNT", "MS", "TFMA/S", "USE", "BOUND"),
        [
            (
                row["name"],
                row["rows"],
                row["inner"],
                row["outer"],
                row["count"],
                f"{row['milliseconds']:.4f}",
                f"{row['tera_fma_per_second']:.3f}",
                " ".join(f"{name} {100 * use:.0f}%" for name, use in row["utilisation"].items()),
                row["bound"],
            )
            for row in found
        ],
    )
    return 0


def _program_times(args: argparse.Namespace, products: list["Gemm"]) -> list[dict[str, Any]]:
    """Of the programs that the block itself would run."""
    from golden.params.resolve import resolve
    from sim.programs import LATENCY, table_rows

    params: Any = resolve(args.block)
    if params.block not in ("anda", "harmonia"):
        raise CommandError(f"programs run on a block anda or harmonia, not {params.block}")
    if args.system not in (None, params.block) or args.engine is not None:
        raise CommandError(f"--block {args.block} is the system; leave --system and --engine out")
    latency = LATENCY if args.latency is None else args.latency
    if latency < 1:
        raise CommandError(f"latency must be at least 1, not {latency}")
    length = _mantissa(args.scheme) if params.block == "anda" else 8
    return table_rows(params, products, length, latency)


def _mantissa(scheme: str | None) -> int:
    """One length for all products of Anda."""
    if scheme is not None and not (scheme.isdigit() and 1 <= int(scheme) <= 16):
        raise CommandError(f"scheme of anda's programs must be a mantissa length, not {scheme!r}")
    return int(scheme or 8)
