"""Tables of what generated text cost on a CPU with a DECA."""

from typing import TYPE_CHECKING

from tilewright.base.console import print_table

if TYPE_CHECKING:
    from tilewright.studies.on_cpu import CpuGeneration
    from tilewright.studies.on_cpu.session import CpuCost

__all__ = ["print_cpu_generation"]


def print_cpu_generation(done: "CpuGeneration") -> None:
    """Print phases with time, bytes and energy, kinds of matrices, and tiles of the RTL."""
    print(
        f"\n{done.model} on {done.system} at {done.clock_ghz:g} GHz with {done.block}:"
        f" {done.scheme}, the head {done.head}; times and energy are predicted\n"
    )
    costs = [("prefill", done.prefill), ("decode", done.decode)]
    print_table(
        ("PHASE", "TOKENS", "MS", "MS OF PRODUCTS", "TOKENS/S", "MB READ", "J", "BOUND BY"),
        [_row(name, cost) for name, cost in costs if cost is not None],
    )
    print()
    print_table(
        ("MATRIX", "COUNT", "TILES", "BYTES/TILE", "CYCLES/TILE"),
        [
            (
                m.name,
                f"{m.matrices}",
                f"{m.tiles:,}",
                f"{m.bytes_per_tile:.1f}",
                f"{m.cycles_per_tile:.2f}",
            )
            for m in done.matrices
        ],
    )
    for run in done.rtl or ():
        print(
            f"RTL: {run.tiles} tiles of {run.matrix} equal golden's, {run.cycles_per_tile:.2f}"
            " cycles a tile"
        )


def _row(name: str, cost: "CpuCost") -> tuple[str, ...]:
    return (
        name,
        f"{cost.tokens}",
        f"{cost.milliseconds:.3f}",
        f"{cost.milliseconds_of_products:.3f}",
        f"{cost.tokens_per_second:.1f}",
        f"{cost.bytes_read / 1e6:.3f}",
        f"{sum(cost.joules.values()):.4f}",
        cost.bound,
    )
