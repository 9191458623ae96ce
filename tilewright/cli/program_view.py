"""``tilewright claims --programs``: Anda and Harmonia as programs, beside the formulas."""

import argparse

from tilewright.base.console import print_csv, print_json, print_table
from tilewright.cli.model_tables import layer_table, program_table
from tilewright.sim.program_residuals import layer_residuals, product_residuals

__all__ = ["show_programs"]


def show_programs(args: argparse.Namespace) -> None:
    """Whole layers, then projections alone behind several memory ports."""
    layers, products = layer_residuals(), product_residuals()
    if args.json:
        print_json({"layers": layers, "projections": products})
        return
    show = print_csv if args.csv else print_table
    show(*layer_table(layers))
    print()
    show(*program_table(products))
