"""Tables of what generated text cost on an accelerator."""

from typing import TYPE_CHECKING

from tilewright.base.console import print_table

if TYPE_CHECKING:
    from tilewright.studies.compiled import Generation
    from tilewright.studies.compiled.generating import Cost

__all__ = ["print_generation"]


def print_generation(done: "Generation") -> None:
    """Print phases with their cycles, bytes and energy, and where cycles and energy go."""
    print(f"\n{done.model} on {done.block} at {done.clock_mhz:g} MHz\n")
    both = (("prefill", done.prefill), ("decode", done.decode))
    costs = [(name, cost) for name, cost in both if cost is not None]
    print_table(
        ("PHASE", "TOKENS", "CYCLES", "MS", "TOKENS/S", "MB READ", "MB WRITTEN", "MJ", "BOUND BY"),
        [_row(name, cost) for name, cost in costs],
    )
    print()
    print_table(
        ("PHASE", *(name.upper() for name in costs[0][1].shares)),
        [(name, *(f"{share:.1%}" for share in cost.shares.values())) for name, cost in costs],
    )


def _row(name: str, cost: "Cost") -> tuple[str, ...]:
    return (
        name,
        f"{cost.tokens}",
        f"{cost.cycles:,}",
        f"{cost.milliseconds:.3f}",
        f"{cost.tokens_per_second:.1f}",
        f"{cost.bytes_read / 1e6:.3f}",
        f"{cost.bytes_written / 1e6:.3f}",
        f"{sum(cost.millijoules.values()):.4f}",
        cost.bound,
    )
