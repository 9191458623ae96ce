"""Tables of the cost of generated text on an accelerator."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.base.console import print_table

if TYPE_CHECKING:
    from tilewright.compiler.generate import Cost, Generation
    from tilewright.compiler.timing import LayerTime

__all__ = ["print_generations", "print_layers"]


def print_generations(all_done: "Sequence[Generation]") -> None:
    """Print phases with their cycles, bytes and energy, and where cycles and energy go."""
    done = all_done[0]
    print(f"\n{done.model} on {done.block} at {done.clock_mhz:g} MHz\n")
    phases = [("prefill", done.prefill)]
    if len(all_done) > 1:
        phases = [(f"prefill {k + 1}", own.prefill) for k, own in enumerate(all_done)]
    phases.append(("decode", done.decode))
    costs = [(name, cost) for name, cost in phases if cost is not None]
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


def print_layers(layers: "list[LayerTime]") -> None:
    """Print the cycles of every layer of a step, by operation."""
    print()
    names = tuple(layers[0].by_part)
    print_table(
        ("LAYER", "CYCLES", *(name.upper() for name in names)),
        [
            (str(t.layer), f"{t.cycles:,}", *(f"{t.by_part[name]:,}" for name in names))
            for t in layers
        ],
    )
