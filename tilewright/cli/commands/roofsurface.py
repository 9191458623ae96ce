"""``tilewright roofsurface``: which resource bounds which kernel, and how large a DECA must be."""

import argparse
from typing import Any

from tilewright.base.console import print_json, print_table

NAME = "roofsurface"
HELP = "bounds of compressed products by memory, vector and matrix units; sizes of a DECA"
EXAMPLE = "tilewright roofsurface --system spr-hbm --rows 16"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", default="spr-hbm", metavar="S", help="[spr-hbm]")
    parser.add_argument(
        "--deca",
        metavar="W,L",
        help="decompression by a DECA with W lanes and L tables; without, by the cores",
    )
    parser.add_argument("--rows", type=int, default=16, metavar="N", help="batch [16]")
    parser.add_argument("--vectors", type=float, default=1.0, metavar="X", help="vector units, x")
    parser.add_argument(
        "--scheme", action="append", metavar="X", help="repeatable [the paper's twelve]"
    )
    parser.add_argument(
        "--explore", action="store_true", help="every size of a DECA, and the smallest that does"
    )


def run(args: argparse.Namespace) -> int:
    from tilewright.golden.params.names import unknown
    from tilewright.sim.scheme import PAPER_SCHEMES, resolve_weight_scheme
    from tilewright.sim.xeon import SYSTEMS

    if args.system not in SYSTEMS:
        raise ValueError(unknown("system", args.system, SYSTEMS))
    machine = SYSTEMS[args.system]
    schemes = [resolve_weight_scheme(name) for name in args.scheme or PAPER_SCHEMES]
    if args.explore:
        return _explore(machine, schemes, args.json)
    return _diagram(machine, schemes, args)


def _diagram(machine: Any, schemes: list[Any], args: argparse.Namespace) -> int:
    from tilewright.sim.roofsurface import Surface, kernel

    if not 1 <= args.rows <= 1 << 20:
        raise ValueError(f"--rows must be 1..{1 << 20}, not {args.rows}")
    if not args.vectors > 0:
        raise ValueError(f"--vectors must be above 0, not {args.vectors}")
    params = _size(args.deca)
    surface = Surface.of_cores(machine) if params is None else Surface.of_deca(machine)
    surface = surface.scaled(vector=args.vectors)
    points = [kernel(scheme, args.rows, params) for scheme in schemes]
    found = [
        {
            "scheme": point.name,
            "matrix_ops_per_byte": point.memory,
            "matrix_ops_per_vector_op": point.vector,
            "tera_fma_per_second": float(surface.fma(point.memory, point.vector, args.rows)) / 1e12,
            "roofline": float(surface.roofline(point.memory, args.rows)) / 1e12,
            "bound": surface.bound(point),
        }
        for point in points
    ]
    if args.json:
        print_json({"borders": surface.borders, "kernels": found})
        return 0
    print_table(
        ("SCHEME", "OPS/BYTE", "OPS/VECTOR OP", "TFMA/S", "ROOFLINE", "BOUND"),
        [
            (
                row["scheme"],
                f"{row['matrix_ops_per_byte']:.5f}",
                f"{row['matrix_ops_per_vector_op']:.5f}",
                f"{row['tera_fma_per_second']:.2f}",
                f"{row['roofline']:.2f}",
                row["bound"],
            )
            for row in found
        ],
    )
    return 0


def _size(text: str | None) -> Any:
    """``W,L`` as parameters of a DECA."""
    from tilewright.golden.params.deca import DecaParams

    if text is None:
        return None
    words = text.split(",")
    if len(words) != 2 or not all(word.strip().isdigit() for word in words):
        raise ValueError(f"--deca must be W,L like 32,8, not {text!r}")
    return DecaParams(lanes=int(words[0]), luts=int(words[1]))


def _explore(machine: Any, schemes: list[Any], as_json: bool) -> int:
    from tilewright.sim.roofsurface import explore, smallest

    designs = explore(machine, schemes)
    best = smallest(designs)
    if as_json:
        print_json(
            {
                "smallest": {"lanes": best.lanes, "luts": best.luts},
                "designs": [vars(design) for design in designs],
            }
        )
        return 0
    print_table(
        ("W", "L", "VECTOR-BOUND", "KERNELS"),
        [(d.lanes, d.luts, len(d.vector_bound), " ".join(d.vector_bound)) for d in designs],
    )
    print(f"\nsmallest without a vector-bound kernel: W = {best.lanes}, L = {best.luts}")
    return 0
