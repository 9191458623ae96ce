"""The processing elements (PEs) that Anda and Harmonia are compared with."""

from collections.abc import Iterator
from functools import cache

from tilewright.base.table import Column, Table, code
from tilewright.golden.params.harmonia import ACTIVATION_BITS
from tilewright.golden.params.resolve import resolve
from tilewright.site.html import Markup
from tilewright.site.plots import bars, scatter
from tilewright.studies.pe.arrays import compare_arrays
from tilewright.studies.pe.compare import Comparison, Conclusion, PEComparison, Survival, compare
from tilewright.studies.pe.energy import PES
from tilewright.studies.pe.points import AXES, SPACES, load_points, taken_points
from tilewright.studies.pe.precision import load_precisions, perplexity_loss
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
ARRAY_COLUMNS: dict[str, Column] = {
    **{"Array": "name", "Tile": "tile", "Size": "size", "MAC/cycle": "macs_per_cycle"},
    "PE alone, µm²": "pe_um2",
    **{"PE in the array, µm²": "element_um2", "Array by its PEs, µm²": "share_um2"},
    **{"µm² for a MAC/cycle": "um2_per_mac", "x": "um2_per_mac_x"},
    **{"fJ/MAC": "energy_fj_per_mac", "fJ/MAC, x": "energy_x"},
}
DRAWN_LENGTHS = (4, 6, 8, 11, 13, 16)  # of Anda's array
LOSSES = {"no loss": 0.5, "loss below 2%": 2.0, "below 10%": 10.0, "more": float("inf")}
UNKNOWN = "not on record"


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


def search() -> Table:
    """The arrangement that the search takes for every PE, and the default one."""
    points, rows = {p.spec: p for p in load_points()}, []
    for (pe, inside), best in sorted(taken_points().items()):
        default = points[SPACES[pe].spec(inside, SPACES[pe].defaults(inside))]
        taken = [s for s in best.spec.split(",") if s.partition("=")[0] in AXES]
        figures = (default.area_um2, best.area_um2, default.fj_per_mac, best.fj_per_mac)
        gain = round(100 * (best.rank[1] / default.rank[1] - 1), 1)
        place = "inside" if inside else "outside"
        rows.append((pe, place, code(", ".join(taken) or "default"), *figures, gain))
    head = ("PE", "Operands", "Taken", "µm², default", "µm²", "fJ/MAC, default", "fJ/MAC")
    return Table((*head, "Area x energy, %"), rows)


def arrays(technology: str) -> Table:
    """Arrays of the published sizes, extended from tiles."""
    (found,) = compare_arrays([load_technology(technology)])
    return Table.of(found.arrays, ARRAY_COLUMNS)


def drawn_arrays() -> Markup:
    """Area and energy of arrays at equal throughput, relative to the first."""
    (found,) = compare_arrays([load_technology("asap7")])
    lengths = [f"Anda m{m}" for m in DRAWN_LENGTHS]
    shown = [a for a in found.arrays if not a.name.startswith("Anda") or a.name in lengths]
    groups = {"area": [a.um2_per_mac_x for a in shown], "energy": [a.energy_x for a in shown]}
    title = f"Arrays at equal throughput, relative to {shown[0].name}"
    return bars(title, [a.name for a in shown], groups, x_label="area and energy, x")


def accuracy_frontier() -> Markup:
    """Area and energy of every PE; colours are its loss of perplexity."""
    points: dict[str, list[tuple[str, float, float]]] = {name: [] for name in (*LOSSES, UNKNOWN)}
    lengths = {name: getattr(resolve(spec), "mantissa_bits", 0) for name, spec in PES.items()}
    lengths |= {"Harmonia m8w4": ACTIVATION_BITS} | {f"Anda m{m}": m for m in range(4, 17)}
    del lengths["Anda buffered"]  # the same bits as Anda
    for pe in (pe for pe in _in("asap7").pes if pe.name in lengths):
        label, bits = UNKNOWN, lengths[pe.name] if pe.name != "DECA lane" else None  # bf16
        if bits is not None:
            loss = perplexity_loss(bits, 32 if pe.name.startswith("Harmonia") else 64)
            label = next(name for name, most in LOSSES.items() if loss < most)
        points[label].append((pe.name, pe.area_um2 / pe.macs_per_cycle, pe.energy_fj_per_mac))
    title = "PEs by area, energy and loss of perplexity of SmolLM2, ASAP7"
    x_label, y_label = "µm² for a multiply-add a cycle", "fJ a multiply-add"
    return scatter(title, points, x_label=x_label, y_label=y_label)


def precisions() -> Table:
    """Area and energy by length of mantissas and weights and by size of groups."""
    columns: dict[str, Column] = {
        **{"PE": "pe", "Mantissa, bits": lambda p: p.place[0]},
        **{"Weight, bits": lambda p: p.place[1], "Group": lambda p: p.place[2]},
        **{"µm² for a MAC/cycle": "area_um2", "fJ/MAC": "fj_per_mac"},
    }
    return Table.of(load_precisions(), columns)


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
