"""``tilewright gemm``: time and bounds of a GEMM."""

import argparse

from tilewright.base.console import print_json, print_table
from tilewright.base.errors import CommandError
from tilewright.cli.targets import add_target_arguments, target_of

NAME = "gemm"
HELP = "time, rate and bounds of a matrix product on a system"
EXAMPLE = "tilewright gemm 16 8192 28672 --on spr-hbm --scheme bf8_30%"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shape", nargs="*", type=int, metavar="SIZE", help="ROWS INNER OUTER of the product"
    )
    add_target_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from tilewright.sim.gemm import gemm_result
    from tilewright.sim.workload import Gemm

    if len(args.shape) != 3:
        raise CommandError("give ROWS INNER OUTER")
    rows, inner, outer = args.shape
    product = Gemm(name="product", module="other", rows=rows, inner=inner, outer=outer)
    found = [gemm_result(product, target_of(args), args.scheme)]
    if args.json:
        print_json(found)
        return 0
    print_table(
        ("NAME", "ROWS", "INNER", "OUTER", "COUNT", "MS", "TFMA/S", "USE", "BOUND"),
        [
            (
                row.name,
                row.rows,
                row.inner,
                row.outer,
                row.count,
                f"{row.milliseconds:.4f}",
                f"{row.tera_fma_per_second:.3f}",
                " ".join(f"{name} {100 * use:.0f}%" for name, use in row.utilisation.items()),
                row.bound,
            )
            for row in found
        ],
    )
    return 0
