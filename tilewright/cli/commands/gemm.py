"""``tilewright gemm``: time and bounds of a GEMM."""

import argparse

from tilewright.base.console import print_json, remark
from tilewright.base.errors import CommandError
from tilewright.cli.options import adder
from tilewright.cli.tables import Columns, print_records
from tilewright.cli.targets import add_target_arguments, target_of

NAME = "gemm"
HELP = "time, rate and bounds of a matrix product on a system"
EXAMPLE = "tilewright gemm 16 8192 28672 --on spr-hbm --scheme bf8_30%"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    adder(parser)("shape SIZE", "ROWS INNER OUTER of the product", nargs="*", type=int)
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
    columns: Columns = {
        **{name.upper(): name for name in ("name", "rows", "inner", "outer", "count")},
        "MS": "milliseconds:.4f",
        "TFMA/S": "tera_fma_per_second:.3f",
        "USE": lambda r: " ".join(f"{unit} {100 * u:.0f}%" for unit, u in r.utilisation.items()),
        "BOUND": "bound",
        "KIND": "kind",
    }
    print_records(found, columns)
    if found[0].remark:
        remark(f"formula only: {found[0].remark}")
    return 0
