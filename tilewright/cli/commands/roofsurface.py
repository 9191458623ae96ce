"""``tilewright roofsurface``: which resource bounds which kernel, and how large a DECA must be."""

import argparse
from math import inf
from typing import TYPE_CHECKING

from tilewright.base.console import print_json
from tilewright.base.errors import CommandError
from tilewright.cli.options import adder, refuse
from tilewright.cli.tables import Columns, print_records
from tilewright.cli.targets import settings_of

if TYPE_CHECKING:
    from tilewright.golden.params.deca import DecaParams
    from tilewright.sim.accelerator import Accelerator
    from tilewright.sim.roofsurface import Diagram, Exploration

NAME = "roofsurface"
HELP = "bounds of compressed products by memory, vector and matrix units; sizes of a DECA"
EXAMPLE = "tilewright roofsurface --on spr-hbm --rows 16"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = adder(parser)
    add("--on --system S", "a server's name or TOML file", "spr-hbm", dest="system")
    add("--set FIELD=VALUE,...", "override its fields, such as cores=86")
    add("--block BLOCK", "a DECA that decompresses, such as deca,lanes=16,luts=4 [the cores do]")
    add("--rows N", "batch size [16]")
    add("--vectors X", "scale the vector units by X [1]", type=float)
    add("--scheme X...", "weight format, or FILE.py:CLASS for your own [the paper's twelve]")
    add("--with S...", "compare with an accelerator, by name or as a TOML file", dest="beside")
    add("--plot FILE", "draw the regions as SVG")
    add("--explore", "sweep DECA sizes; report the smallest sufficient one")


def run(args: argparse.Namespace) -> int:
    from tilewright.sim.roofsurface import diagram, explore
    from tilewright.sim.scheme import PAPER_SCHEMES, resolve_weight_scheme
    from tilewright.sim.target import resolve_target

    machine = resolve_target(args.system, settings=settings_of(args)).server
    if machine is None or not machine.matrix_cycles:
        raise CommandError(f"{args.system} is no server with a matrix unit")
    schemes = [resolve_weight_scheme(name) for name in args.scheme or PAPER_SCHEMES]
    if args.explore:
        why = "does not go with --explore, which takes every size"
        refuse(args, ("block", "rows", "vectors", "plot"), why)
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
    rates = {
        "TFMA/S": "tera_fma_per_second:.2f",
        "ROOFLINE": "roofline_tera_fma_per_second:.2f",
        "BOUND": "bound",
    }
    columns: Columns = {
        "SCHEME": "scheme",
        "OPS/BYTE": "matrix_ops_per_byte:.5f",
        "OPS/VECTOR OP": lambda row: f"{row.matrix_ops_per_vector_op or inf:.5f}",
    }
    print_records(found.kernels, {**columns, **rates})
    if found.accelerators:
        print()
        of_system = {"ACCELERATOR": "system", "MACS/BYTE": "macs_per_byte:.2f"}
        print_records(found.accelerators, of_system | rates)


def _print_designs(found: "Exploration") -> None:
    """Print every size of a DECA with the kernels that it leaves vector-bound."""
    columns: Columns = {
        **{"W": "lanes", "L": "luts"},
        "VECTOR-BOUND": lambda design: len(design.vector_bound),
        "KERNELS": lambda design: " ".join(design.vector_bound),
    }
    print_records(found.designs, columns)
    best = found.smallest
    print(f"\nsmallest without a vector-bound kernel: W = {best.lanes}, L = {best.luts}")
