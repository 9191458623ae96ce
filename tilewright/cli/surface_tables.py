"""Tables of the Roof-Surface: kernels, accelerators beside them, and sizes of a DECA."""

from typing import TYPE_CHECKING

from tilewright.base.console import print_table

if TYPE_CHECKING:
    from tilewright.sim.roofsurface import Diagram, Exploration

__all__ = ["print_designs", "print_kernels"]


def print_kernels(found: "Diagram") -> None:
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


def print_designs(found: "Exploration") -> None:
    """Print every size of a DECA with the kernels that it leaves vector-bound."""
    print_table(
        ("W", "L", "VECTOR-BOUND", "KERNELS"),
        [(d.lanes, d.luts, len(d.vector_bound), " ".join(d.vector_bound)) for d in found.designs],
    )
    best = found.smallest
    print(f"\nsmallest without a vector-bound kernel: W = {best.lanes}, L = {best.luts}")
