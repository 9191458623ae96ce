"""Processing elements compared by their records, with the papers' statements.

Which of those, and which rankings of PEs, hold in every technology, and which hold with wires, is
derived from the comparisons, not written down.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.claims import Compare, claims_of_study
from tilewright.golden.deca.cycles import expected_cycles
from tilewright.golden.params.deca import DecaParams, TileConfig
from tilewright.golden.params.resolve import resolve, resolve_as
from tilewright.studies.pe.energy import CLOCK_MHZ, PES, is_fresh_energy, load_energy, make_records
from tilewright.studies.pe.own_pe import OwnPE, measure_own
from tilewright.studies.pe.points import SPACES
from tilewright.studies.pe.workload import pe_bench
from tilewright.synth.layout.record import LAYOUT, period_of
from tilewright.synth.record import find_record, load_kind
from tilewright.synth.technology import Technology

HARMONIA_BASELINES = (*("FP-FP", "FP-INT", "FIGNA", "FIGNA-C"), *("Anda m4", "Anda m6", "Anda m8"))
DECOMPRESSOR = "deca:paper"


QUANTITIES = {  # that claims compare -> fields of Measured
    "area": "area_um2",
    "power": "power_uw",
    "area_efficiency": "tops_per_mm2",
    "energy_efficiency": "tops_per_watt",
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One PE at work on real data; the figures named ``_x`` are over the first PE compared."""

    name: str
    spec: str
    macs_per_cycle: float
    area_um2: float
    delay_ps: float
    energy_fj_per_mac: float
    random_fj_per_mac: float | None = None  # the same on random bits, and on zeros
    zero_fj_per_mac: float | None = None
    power_uw: float = field(init=False)  # while working
    tops_per_mm2: float = field(init=False)
    tops_per_watt: float = field(init=False)
    area_x: float = 1.0
    power_x: float = 1.0
    area_efficiency_x: float = 1.0
    energy_efficiency_x: float = 1.0
    # Laid out as far as global routing, with its clock tree, where that is on record:
    die_um2: float | None = None
    layout_um2: float | None = None  # cells with repair and clock tree
    layout_ps: float | None = None  # the shortest clock, skew included
    layout_fj_per_mac: float | None = None

    def __post_init__(self) -> None:
        derived = {
            "power_uw": self.energy_fj_per_mac * self.macs_per_cycle * CLOCK_MHZ * 1e-3,
            "tops_per_mm2": 2 * self.macs_per_cycle * CLOCK_MHZ / self.area_um2,
            "tops_per_watt": 2e3 / self.energy_fj_per_mac,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Claim:
    """A statement of a paper and the result from the records."""

    name: str
    stated: float
    measured: float
    upper_bound: bool  # the paper says "less than"
    holds: bool  # whether the records point the paper's way: below the bound, or its side of 1
    deviation_percent: float  # 0 where a bound holds

    @classmethod
    def of(cls, name: str, stated: float, measured: float, *, upper_bound: bool) -> "Claim":
        """Check ``measured`` against what a paper has ``stated``."""
        below = measured < stated
        holds = below if upper_bound else (measured > 1) == (stated > 1)
        deviation = 0.0 if upper_bound and below else 100 * (measured / stated - 1)
        return cls(name, stated, measured, upper_bound, holds, deviation)

    @property
    def shown(self) -> str:
        """The paper's value, as a table shows it."""
        return f"< {self.stated:.2f}" if self.upper_bound else f"{self.stated:.2f}"


@dataclass(frozen=True)
class Decompression:
    """All of DECA, per lane, with the parts that its lanes in the comparison omit."""

    spec: str
    lanes: int
    area_um2: float  # memories and loaders in it
    weights_per_cycle: float  # dense codes of 4 bits
    area_um2_per_weight: float  # for one weight a cycle


@dataclass(frozen=True)
class Comparison:
    """All PEs in one technology."""

    technology: str
    clock_mhz: int
    pes: tuple[Measured, ...]
    claims: tuple[Claim, ...]
    decompression: Decompression | None = None  # where DECA has a record


@dataclass(frozen=True)
class Conclusion:
    """One conclusion and the technologies in which it holds."""

    statement: str
    holds_by_technology: dict[str, bool]
    outcome: str = field(init=False)  # whether the technology changes it, or its failure

    def __post_init__(self) -> None:
        verdicts = set(self.holds_by_technology.values())
        outcomes = {(True,): "survives", (False,): "holds in none", (False, True): "changes"}
        object.__setattr__(self, "outcome", outcomes[tuple(sorted(verdicts))])


@dataclass(frozen=True)
class Survival:
    """Conclusions about the PEs in one technology, and whether they hold in the others."""

    claims: tuple[Conclusion, ...]
    area_efficiency: tuple[Conclusion, ...]  # of every pair of PEs
    energy_efficiency: tuple[Conclusion, ...]


@dataclass(frozen=True)
class PEComparison:
    """The result of ``tilewright compare pe``."""

    comparisons: tuple[Comparison, ...]  # one per technology
    survival: Survival | None  # None where there is one technology
    wires_by_technology: dict[str, Survival]  # with wires, where PEs are laid out


def compare(
    technologies: Sequence[Technology], further: Sequence[str] = (), own: Sequence[OwnPE] = ()
) -> PEComparison:
    """Compare all PEs, and ``further`` blocks and the user's ``own``, in every technology.

    A block of ``further`` that has no up-to-date record is measured now; nothing is written.
    """
    comparisons = tuple(compare_in(technology, further, own) for technology in technologies)
    wires = {
        c.technology: _survival(both) for c in comparisons if (both := with_wires(c)) is not None
    }
    survival = _survival(comparisons) if len(comparisons) > 1 else None
    return PEComparison(comparisons, survival, wires)


def compare_in(
    technology: Technology, further: Sequence[str] = (), own: Sequence[OwnPE] = ()
) -> Comparison:
    records = {name: _recorded(spec, technology) for name, spec in PES.items()}
    records |= {spec: _measured(spec, technology) for spec in further if spec not in PES.values()}
    records |= {pe.top: measure_own(pe, technology) for pe in own}
    rows = [row for name, record in records.items() for row in _rows(name, record)]
    users = {pe.top for pe in own}  # which no record is of
    rows = [row if row.name in users else _laid_out(row, technology.name) for row in rows]
    pes = tuple(_over(rows[0], row) for row in rows)
    decompression = _decompression(DECOMPRESSOR, technology)
    return Comparison(technology.name, CLOCK_MHZ, pes, tuple(_claims(pes)), decompression)


def with_wires(comparison: Comparison) -> tuple[Comparison, Comparison] | None:
    """Compare the PEs that are laid out before and after that; None where fewer than two are."""
    before = [pe for pe in comparison.pes if pe.die_um2 is not None]
    if len(before) < 2:
        return None

    def compared(name: str, pes: list[Measured]) -> Comparison:
        rows = tuple(_over(pes[0], pe) for pe in pes)
        return Comparison(name, CLOCK_MHZ, rows, tuple(_claims(rows, only_known=True)))

    name = comparison.technology
    return compared(name, before), compared(f"{name} laid out", [_wired(pe) for pe in before])


def _survival(comparisons: Sequence[Comparison]) -> Survival:
    return Survival(
        surviving_claims(comparisons),
        surviving_orders(comparisons, "area_efficiency"),
        surviving_orders(comparisons, "energy_efficiency"),
    )


def surviving_claims(comparisons: Sequence[Comparison]) -> tuple[Conclusion, ...]:
    """Say of every statement of the papers whether it holds in each technology."""
    return tuple(
        Conclusion(
            claims[0].name,
            {c.technology: claim.holds for c, claim in zip(comparisons, claims, strict=True)},
        )
        for claims in zip(*(c.claims for c in comparisons), strict=True)
    )


def surviving_orders(comparisons: Sequence[Comparison], quantity: str) -> tuple[Conclusion, ...]:
    """Say of every pair of PEs whether the first has more of ``quantity``, in each technology."""
    attribute = QUANTITIES[quantity]
    values = {c.technology: {p.name: getattr(p, attribute) for p in c.pes} for c in comparisons}
    return tuple(
        Conclusion(
            f"{a} better than {b}", {technology: of[a] > of[b] for technology, of in values.items()}
        )
        for a, b in combinations([pe.name for pe in comparisons[0].pes], 2)
    )


def _recorded(spec: str, technology: Technology) -> dict[str, Any]:
    record = load_energy(spec, technology)
    if record is None:
        raise CommandError(
            f"no energy record of {spec} in {technology.name}; make it with"
            f" `tilewright compare pe --update-records --block {spec} --tech {technology.name}`"
        )
    return record


def _laid_out(pe: Measured, technology: str) -> Measured:
    record = _layout_records().get((resolve(pe.spec).slug, technology))
    if record is None:
        return pe
    value = {name: metric["value"] for name, metric in record["metrics"].items()}
    # The change by wires on a PE's usual data is taken for all of its data.
    energy = pe.energy_fj_per_mac * (value["energy"] / value["energy_before"])
    return replace(
        pe,
        die_um2=value["die_area"],
        layout_um2=value["cell_area"],
        layout_ps=period_of(record),
        layout_fj_per_mac=energy,
    )


@cache
def _layout_records() -> dict[tuple[str, str], dict[str, Any]]:
    """PEs, which have an energy, as the comparison has them: mapped for area."""
    return {
        (resolve(record["spec"]).slug, record["technology"]): record
        for record in load_kind(LAYOUT).values()
        if record["goal"] == "area" and "energy" in record["metrics"]
    }


def _measured(spec: str, technology: Technology) -> dict[str, Any]:
    if is_fresh_energy(spec, technology):
        return _recorded(spec, technology)
    return make_records(spec, technology)[1]


def _rows(name: str, record: dict[str, Any]) -> Iterator[Measured]:
    """Make a row of every variant that has run on real data, compared with itself."""
    runs, metrics = record["runs"], record["metrics"]
    for run, real in runs.items():
        kind, _, variant = run.partition(" ")
        if kind != "real":
            continue
        tail = f" {variant}" if variant else ""
        yield Measured(
            name=name + tail,
            spec=record["spec"],
            macs_per_cycle=real["macs_per_cycle"],
            area_um2=metrics["area"],
            delay_ps=metrics["delay"],
            energy_fj_per_mac=real["total"],
            random_fj_per_mac=runs.get(f"random{tail}", {}).get("total"),
            zero_fj_per_mac=runs.get(f"zero{tail}", {}).get("total"),
        )


def _wired(pe: Measured) -> Measured:
    assert pe.die_um2 is not None and pe.layout_ps is not None and pe.layout_fj_per_mac is not None
    return replace(
        pe, area_um2=pe.die_um2, delay_ps=pe.layout_ps, energy_fj_per_mac=pe.layout_fj_per_mac
    )


def _over(first: Measured, pe: Measured) -> Measured:
    ratios: dict[str, Any] = {
        f"{quantity}_x": getattr(pe, name) / getattr(first, name)
        for quantity, name in QUANTITIES.items()
    }
    return replace(pe, **ratios)


def _decompression(spec: str, technology: Technology) -> Decompression | None:
    params = resolve_as(DecaParams, spec)
    record = find_record(params, technology.name)
    if record is None:
        return None
    config = TileConfig(code_bits=4)
    rate = float(config.elements / expected_cycles(params, config, 1))
    area = record["metrics"]["area"]["value"]
    return Decompression(spec, params.lanes, area, rate, area / rate)


def _claims(pes: Sequence[Measured], *, only_known: bool = False) -> Iterator[Claim]:
    """Check every claim of this study: one PE over another, or over its best or worst baseline.

    With ``only_known``, claims about a PE that is not among ``pes`` are left out.

    Anda's power is stated at one of its lengths, 8: any of the paper's range of 4..8 would do as
    well, the cycles change and the work per cycle hardly does.
    """
    by_name = {pe.name: pe for pe in pes}
    for claim in claims_of_study("pe"):
        quantity, ours = claim.arguments["quantity"], claim.arguments["pe"]
        over = claim.arguments.get("over")
        others = HARMONIA_BASELINES if over is None else (over,)
        if only_known and not {ours, *others} <= by_name.keys():
            continue
        if quantity not in QUANTITIES:
            raise ValueError(f"claim about {quantity!r}: not a quantity that is compared")
        values = {name: getattr(pe, QUANTITIES[quantity]) for name, pe in by_name.items()}
        gains = [values[ours] / values[other] for other in others]
        least = claim.arguments.get("end", "least") == "least"
        versus = over or f"the {'best' if least else 'worst'} of its baselines"
        yield Claim.of(
            f"{quantity.replace('_', ' ')} of {ours} over {versus}",
            claim.number,
            min(gains) if least else max(gains),
            upper_bound=claim.compare is Compare.LESS_THAN,
        )


_RANKED = {  # after synthesis and after layout
    "area": ("area_um2", "layout_um2"),
    "clock": ("delay_ps", "layout_ps"),
    "energy": ("energy_fj_per_mac", "layout_fj_per_mac"),
}


def orders_table(technologies: Sequence[Technology]) -> str:
    """Ranks of the laid-out PEs, in their first mode, as the table of docs/physical.md."""
    columns: dict[str, dict[str, str]] = {}
    for technology in technologies:
        pes = {p.spec: p for p in reversed(compare_in(technology).pes) if p.die_um2 is not None}
        names = {next(n for n, s in PES.items() if s == spec): pe for spec, pe in pes.items()}
        for quantity, attributes in _RANKED.items():
            columns[f"{technology.name}, {quantity}"] = _moved(
                *({name: getattr(pe, x) for name, pe in names.items()} for x in attributes)
            )
    return _ranks_table(PES, columns)


def search_orders_table(technologies: Sequence[Technology]) -> str:
    """Ranks by default and as the search takes PEs, as the table of docs/pe-comparison.md."""
    both = {n: s.spec(False, {}) for n, s in SPACES.items()}, {n: PES[n] for n in SPACES}
    columns: dict[str, dict[str, str]] = {}
    for technology in technologies:
        figures = [{n: _figures(s, technology) for n, s in specs.items()} for specs in both]
        for quantity in ("area", "laid out", "energy", "energy laid out"):
            old, new = ({n: of[n][quantity] for n in SPACES if quantity in of[n]} for of in figures)
            if len(old) == len(new) == len(SPACES):  # a rank needs all
                columns[f"{technology.name}, {quantity}"] = _moved(old, new)
    return _ranks_table(SPACES, columns)


def _figures(spec: str, technology: Technology) -> dict[str, float]:
    """Area and energy in the mode on which PEs are compared, and after layout if on record."""
    record, params = _recorded(spec, technology), resolve(spec)
    run = f"real {pe_bench(params).usual_variant}".strip()
    figures = {"area": record["metrics"]["area"], "energy": record["runs"][run]["total"]}
    if laid_out := _layout_records().get((params.slug, technology.name)):
        metrics = laid_out["metrics"]
        figures["laid out"] = metrics["cell_area"]["value"]
        figures["energy laid out"] = metrics["energy"]["value"]
    return figures


def _moved(before: dict[str, float], after: dict[str, float]) -> dict[str, str]:
    """The rank of each, and the later one where it is another."""
    old, new = (
        {n: k for k, n in enumerate(sorted(x, key=x.__getitem__), 1)} for x in (before, after)
    )
    return {n: str(k) if k == new[n] else f"**{k} → {new[n]}**" for n, k in old.items()}


def _ranks_table(names: Iterable[str], columns: dict[str, dict[str, str]]) -> str:
    lines = ["| PE | " + " | ".join(columns) + " |", "|" + "---|" * (1 + len(columns))]
    for name in names:
        lines.append(
            "| " + " | ".join([name, *(of.get(name, "") for of in columns.values())]) + " |"
        )
    return "\n".join(lines) + "\n"
