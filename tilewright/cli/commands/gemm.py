"""``tilewright gemm``: time and bounds of single matrix products."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, print_table
from tilewright.base.errors import CommandError
from tilewright.cli.commands.llm import DEFAULT_SYSTEM, add_system_arguments, built_block

if TYPE_CHECKING:
    from tilewright.sim.programs import Built
    from tilewright.sim.workload import Gemm

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


def run(args: argparse.Namespace) -> int:
    from tilewright.sim.llm import product_times
    from tilewright.sim.workload import Gemm, read_csv

    if args.csv is not None and not args.shape:
        products = read_csv(args.csv)
    elif args.csv is None and len(args.shape) == 3:
        rows, inner, outer = args.shape
        products = [Gemm(name="product", module="other", rows=rows, inner=inner, outer=outer)]
    else:
        raise CommandError("give ROWS INNER OUTER, or --csv FILE")
    built = built_block(args)
    if built is not None:
        found = _program_times(args.scheme, built, products)
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


def _program_times(
    scheme: str | None, built: "Built", products: list["Gemm"]
) -> list[dict[str, Any]]:
    """Of the programs that the block itself would run."""
    from tilewright.sim.programs import table_rows

    length = _mantissa(scheme) if built.params.block == "anda" else 8
    return table_rows(built.params, products, length, built.latency)


def _mantissa(scheme: str | None) -> int:
    """One length for all products of Anda."""
    if scheme is not None and not (scheme.isdigit() and 1 <= int(scheme) <= 16):
        raise CommandError(f"scheme of anda's programs must be a mantissa length, not {scheme!r}")
    return int(scheme or 8)
