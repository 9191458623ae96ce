"""Comparisons of processing elements, printed for people."""

from typing import TYPE_CHECKING

from tilewright.base.console import print_table

if TYPE_CHECKING:
    from tilewright.studies.pe.compare import Comparison, PEComparison, Survival

__all__ = ["print_comparison"]

HEADER = (
    *("PE", "MAC/CYCLE", "AREA UM2", "DELAY PS", "FJ/MAC", "TOPS/MM2", "TOPS/W"),
    *("AREA X", "POWER X", "AREA EFF X", "ENERGY EFF X", "RANDOM FJ", "ZERO FJ"),
    *("DIE UM2", "PLACED PS", "PLACED FJ"),
)
FIGURES = (  # of a row, and how each is written
    *(("name", "{}"), ("macs_per_cycle", "{:.2f}"), ("area_um2", "{:.0f}")),
    *(("delay_ps", "{:.0f}"), ("energy_fj_per_mac", "{:.1f}"), ("tops_per_mm2", "{:.3f}")),
    *(("tops_per_watt", "{:.2f}"), ("area_x", "{:.2f}"), ("power_x", "{:.2f}")),
    *(("area_efficiency_x", "{:.2f}"), ("energy_efficiency_x", "{:.2f}")),
    *(("random_fj_per_mac", "{:.1f}"), ("zero_fj_per_mac", "{:.1f}")),
    *(("die_um2", "{:.0f}"), ("placed_delay_ps", "{:.0f}"), ("placed_fj_per_mac", "{:.1f}")),
)


def print_comparison(found: "PEComparison") -> None:
    """Print every technology, and what survives the change between them."""
    for k, comparison in enumerate(found.comparisons):
        print(end="\n" if k else "")
        _print(comparison)
    for technology, survival in found.wires_by_technology.items():
        print(f"\nwhat survives wires in {technology}: PEs that are placed, by die and energy then")
        _print_survival([technology, f"{technology} placed"], survival)
    if found.survival is not None:
        names = [c.technology for c in found.comparisons]
        print(f"\nwhat survives the change from {' to '.join(names)}")
        _print_survival(names, found.survival)


def _print_survival(names: list[str], survival: "Survival") -> None:
    words = {True: "holds", False: "does not"}
    if survival.claims:
        print_table(
            ["PAPER SAYS", *(name.upper() for name in names), "OUTCOME"],
            [
                [c.statement, *(words[c.holds_by_technology[n]] for n in names), c.outcome]
                for c in survival.claims
            ],
        )
    for kind in ("area_efficiency", "energy_efficiency"):
        orders = getattr(survival, kind)
        changed = [c for c in orders if c.outcome == "changes"]
        same = len(orders) - len(changed)
        print(f"\norder by {kind.replace('_', ' ')}: {same} of {len(orders)} pairs the same")
        for c in changed:
            print(
                f"  {c.statement}: only in {' '.join(n for n in names if c.holds_by_technology[n])}"
            )


def _print(comparison: "Comparison") -> None:
    print(f"{comparison.technology}, {comparison.clock_mhz} MHz, real data; x: over FP-FP")
    rows = [
        ["" if (value := getattr(pe, key)) is None else form.format(value) for key, form in FIGURES]
        for pe in comparison.pes
    ]
    print_table(HEADER, rows)
    print()
    print_table(
        ["PAPER SAYS", "PAPER", "HERE", "DEVIATION %"],
        [
            [c.name, c.shown, f"{c.measured:.2f}", f"{c.deviation_percent:+.0f}"]
            for c in comparison.claims
        ],
    )
    if comparison.decompression is not None:
        d = comparison.decompression
        print(
            f"\nall of {d.spec}, memories and loaders too: {d.area_um2 / d.lanes:.0f} um2 a lane,"
            f" {d.area_um2_per_weight:.0f} um2 per 4-bit weight decompressed a cycle"
        )
