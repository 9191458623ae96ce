"""``tilewright roofsurface``: which resource bounds which kernel, and how large a DECA must be."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table
from tilewright.base.errors import CommandError
from tilewright.cli.targets import settings_of

if TYPE_CHECKING:
    from tilewright.golden.params.deca import DecaParams
    from tilewright.sim.accelerator import Accelerator
    from tilewright.sim.roofsurface import Diagram, Exploration

NAME = "roofsurface"
HELP = "bounds of compressed products by memory, vector and matrix units; sizes of a DECA"
EXAMPLE = "tilewright roofsurface --on spr-hbm --rows 16"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on",
        "--system",
        dest="system",
        default="spr-hbm",
        metavar="S",
        help="a server's name or TOML file [spr-hbm]",
    )
    parser.add_argument(
        "--set",
        metavar="FIELD=VALUE,...",
        dest="settings",
        help="override its fields, such as cores=86",
    )
    parser.add_argument(
        "--block",
        metavar="BLOCK",
        help="decompress with a DECA, such as deca,lanes=16,luts=4 [the cores decompress]",
    )
    parser.add_argument("--rows", type=int, metavar="N", help="batch size [16]")
    parser.add_argument(
        "--vectors", type=float, metavar="X", help="scale the vector units by X [1]"
    )
    parser.add_argument(
        "--scheme",
        action="append",
        metavar="X",
        help="weight format, or FILE.py:CLASS for your own; repeatable [the paper's twelve]",
    )
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        metavar="S",
        dest="beside",
        help="compare with an accelerator, by name or as a TOML file; repeatable",
    )
    parser.add_argument(
        "--plot", metavar="FILE", type=Path, help="plot the regions (SVG, PNG, PDF)"
    )
    parser.add_argument(
        "--explore",
        action="store_true",
        help="sweep DECA sizes; report the smallest sufficient one",
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.sim.roofsurface import diagram, explore
    from tilewright.sim.scheme import PAPER_SCHEMES, resolve_weight_scheme
    from tilewright.sim.target import resolve_target

    machine = resolve_target(args.system, settings=settings_of(args)).server
    if machine is None or not machine.matrix_cycles:
        raise CommandError(f"{args.system} is no server with a matrix unit")
    schemes = [resolve_weight_scheme(name) for name in args.scheme or PAPER_SCHEMES]
    if args.explore:
        for name in ("block", "rows", "vectors", "plot"):
            if getattr(args, name) is not None:
                raise CommandError(f"--{name} does not go with --explore, which takes every size")
        if args.beside:
            raise CommandError("--with does not go with --explore, which is about sizes of a DECA")
        designs = explore(machine, schemes)
        (print_json if args.json else _print_designs)(designs)
        return 0
    found = diagram(
        machine,
        schemes,
        rows=16 if args.rows is None else args.rows,
        vectors=1.0 if args.vectors is None else args.vectors,
        params=_deca(args.block),
        beside=[_accelerator(name) for name in args.beside],
    )
    if args.plot is not None:
        from tilewright.site.surfaces import plot_regions

        plot_regions(found, args.plot)
    (print_json if args.json else _print_kernels)(found)
    return 0


def _deca(block: str | None) -> "DecaParams | None":
    from tilewright.golden.params.deca import DecaParams
    from tilewright.golden.params.resolve import resolve_as

    return None if block is None else resolve_as(DecaParams, block)


def _accelerator(name: str) -> "Accelerator":
    from tilewright.sim.target import resolve_target

    target = resolve_target(name)
    if target.server is not None:
        raise CommandError(f"{name} is a server; name it with --on")
    return target.accelerator(None)


def _print_kernels(found: "Diagram") -> None:
    """Print what bounds each kernel, and accelerators where there are some."""
    print_table(
        ("SCHEME", "OPS/BYTE", "OPS/VECTOR OP", "TFMA/S", "ROOFLINE", "BOUND"),
        [
            (
                row.scheme,
                f"{row.matrix_ops_per_byte:.5f}",
                "inf"
                if row.matrix_ops_per_vector_op is None
                else f"{row.matrix_ops_per_vector_op:.5f}",
                f"{row.tera_fma_per_second:.2f}",
                f"{row.roofline_tera_fma_per_second:.2f}",
                row.bound,
            )
            for row in found.kernels
        ],
    )
    if found.accelerators:
        print()
        print_table(
            ("ACCELERATOR", "MACS/BYTE", "TFMA/S", "ROOFLINE", "BOUND"),
            [
                (
                    row.system,
                    f"{row.macs_per_byte:.2f}",
                    f"{row.tera_fma_per_second:.2f}",
                    f"{row.roofline_tera_fma_per_second:.2f}",
                    row.bound,
                )
                for row in found.accelerators
            ],
        )


def _print_designs(found: "Exploration") -> None:
    """Print every size of a DECA with the kernels that it leaves vector-bound."""
    print_table(
        ("W", "L", "VECTOR-BOUND", "KERNELS"),
        [(d.lanes, d.luts, len(d.vector_bound), " ".join(d.vector_bound)) for d in found.designs],
    )
    best = found.smallest
    print(f"\nsmallest without a vector-bound kernel: W = {best.lanes}, L = {best.luts}")
