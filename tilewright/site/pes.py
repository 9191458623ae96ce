"""The processing elements (PEs) that Anda and Harmonia are compared with."""

from collections.abc import Iterator
from functools import cache

from tilewright.base.table import Column, Table
from tilewright.site.html import Markup
from tilewright.site.plots import bars
from tilewright.studies.pe.compare import Comparison, Conclusion, PEComparison, Survival, compare
from tilewright.synth.technology import TECHNOLOGIES, load_technology

UNITS = {"area_efficiency": "TOPS/mm²", "energy_efficiency": "TOPS/W"}
FIGURES: dict[str, Column] = {
    "PE": "name",
    "MAC/cycle": "macs_per_cycle",
    "Area, µm²": "area_um2",
    "Delay, ps": "delay_ps",
    "fJ/MAC": "energy_fj_per_mac",
    "TOPS/mm²": "tops_per_mm2",
    "TOPS/W": "tops_per_watt",
}
COLUMNS = {
    **FIGURES,
    "Area, x": "area_x",
    "Power, x": "power_x",
    "TOPS/mm², x": "area_efficiency_x",
    "TOPS/W, x": "energy_efficiency_x",
    "Die, µm²": "die_um2",
    "Clock laid out, ps": "layout_ps",
    "fJ/MAC laid out": "layout_fj_per_mac",
}


@cache
def _compared() -> PEComparison:
    return compare([load_technology(name) for name in TECHNOLOGIES])


def _in(technology: str) -> Comparison:
    return next(c for c in _compared().comparisons if c.technology == technology)


def efficiencies() -> Iterator[Markup]:
    """Operations per area and per energy of every PE, relative to the first."""
    comparisons = _compared().comparisons
    names = [pe.name for pe in comparisons[0].pes]
    for quantity, unit in UNITS.items():
        groups = {c.technology: [getattr(pe, f"{quantity}_x") for pe in c.pes] for c in comparisons}
        label = f"{unit} divided by that of {names[0]}"
        yield bars(f"{unit} of each PE, relative to {names[0]}", names, groups, x_label=label)


def compared(technology: str) -> Table:
    """Every PE in one technology; columns in x are relative to the first."""
    return Table.of(_in(technology).pes, COLUMNS)


def decompression() -> Table:
    """Area of DECA with its queues, tables and loaders."""
    found = [c.decompression for c in _compared().comparisons if c.decompression is not None]
    columns: dict[str, Column] = {
        "Block": "spec",
        "Area, µm²": "area_um2",
        "Area of a lane, µm²": lambda d: d.area_um2 / d.lanes,
        "Area of a 4-bit weight a cycle, µm²": "area_um2_per_weight",
    }
    return Table.of(found, columns)


def statements() -> Table:
    """The papers' figures of PEs, and those of our records."""
    comparisons = _compared().comparisons
    head = ["Statement of a paper", "Paper"]
    for c in comparisons:
        head += [f"Ours, {c.technology}", f"Deviation, {c.technology}, %"]
    rows = [
        [
            claims[0].name,
            claims[0].shown,
            *(x for claim in claims for x in (claim.measured, round(claim.deviation_percent))),
        ]
        for claims in zip(*(c.claims for c in comparisons), strict=True)
    ]
    return Table(head, rows)


def survivals() -> dict[str, Table]:
    """Statements and rankings of two PEs by the change they survive: another node, or wires.

    Orders that are the same in every column are left out.
    """
    result = _compared()
    assert result.survival is not None  # there are several technologies
    found = {"the change of node": _outcomes(list(TECHNOLOGIES), result.survival)}
    for name, outcome in result.wires_by_technology.items():
        found[f"wires in {name}"] = _outcomes([name, f"{name} laid out"], outcome)
    return found


def _outcomes(names: list[str], survival: Survival) -> Table:
    rows = [("statement", *_verdicts(c, names)) for c in survival.claims]
    for quantity, unit in UNITS.items():
        orders: tuple[Conclusion, ...] = getattr(survival, quantity)
        rows += [
            (f"order by {unit}", *_verdicts(c, names)) for c in orders if c.outcome == "changes"
        ]
    return Table(("Kind", "Statement", *names, "Outcome"), rows)


def _verdicts(conclusion: Conclusion, names: list[str]) -> list[str]:
    holds = conclusion.holds_by_technology
    shown = ("holds" if holds[name] else "does not hold" for name in names)
    return [conclusion.statement, *shown, conclusion.outcome]
