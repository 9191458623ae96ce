"""Processing elements side by side: from their records, beside the papers' statements.

Which of those, and which orders among elements, are the same in every technology is worked out
from the comparisons, not written down.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.golden.deca.cycles import expected_cycles
from tilewright.golden.params.deca import TileConfig
from tilewright.golden.params.resolve import resolve
from tilewright.sim.claims import Compare, claims_of_study
from tilewright.studies.pe.energy import CLOCK_MHZ, ELEMENTS, load_energy
from tilewright.synth.record import record_path
from tilewright.synth.technology import Technology

__all__ = [
    "Claim",
    "Comparison",
    "Decompression",
    "Element",
    "Survival",
    "compare",
    "surviving_claims",
    "surviving_orders",
]


@dataclass(frozen=True)
class Element:
    """One element at work on real data."""

    name: str
    spec: str
    macs_per_cycle: float
    area: float  # um2
    delay: float  # ps
    energy: float  # fJ per multiply-accumulate
    random: float | None  # the same on random bits, and on zeros
    zero: float | None

    @property
    def power(self) -> float:
        """uW while working."""
        return self.energy * self.macs_per_cycle * CLOCK_MHZ * 1e-3

    @property
    def tops_per_mm2(self) -> float:
        return 2 * self.macs_per_cycle * CLOCK_MHZ / self.area

    @property
    def tops_per_watt(self) -> float:
        return 2e3 / self.energy


@dataclass(frozen=True)
class Claim:
    """A statement of the paper and what the records say."""

    name: str
    paper: float
    here: float
    upper_bound: bool  # the paper says "less than"

    @property
    def shown(self) -> str:
        return f"< {self.paper:.2f}" if self.upper_bound else f"{self.paper:.2f}"

    @property
    def holds(self) -> bool:
        """Whether the records point the paper's way: below the bound, or on its side of 1."""
        if self.upper_bound:
            return self.here < self.paper
        return (self.here > 1) == (self.paper > 1)

    @property
    def deviation(self) -> float:
        """Per cent; 0 where a bound holds."""
        if self.upper_bound and self.here < self.paper:
            return 0.0
        return 100 * (self.here / self.paper - 1)


@dataclass(frozen=True)
class Comparison:
    technology: str
    clock_mhz: int
    elements: list[Element]
    claims: list[Claim]
    decompression: "Decompression | None" = None  # where DECA has a record

    def normalised(self, element: Element) -> tuple[float, float, float, float]:
        """Area, power, area efficiency and energy efficiency over the first element."""
        first = self.elements[0]
        return (
            element.area / first.area,
            element.power / first.power,
            element.tops_per_mm2 / first.tops_per_mm2,
            element.tops_per_watt / first.tops_per_watt,
        )

    def as_dict(self) -> dict[str, Any]:
        names = ("area_x", "power_x", "area_efficiency_x", "energy_efficiency_x")
        return {
            "clock_mhz": self.clock_mhz,
            "elements": [
                {
                    **asdict(e),
                    "power_uw": e.power,
                    "tops_per_mm2": e.tops_per_mm2,
                    "tops_per_watt": e.tops_per_watt,
                    **dict(zip(names, self.normalised(e), strict=True)),
                }
                for e in self.elements
            ],
            "claims": [
                {**asdict(c), "deviation_percent": c.deviation, "holds": c.holds}
                for c in self.claims
            ],
            "decompression": None if self.decompression is None else asdict(self.decompression),
        }


@dataclass(frozen=True)
class Decompression:
    """All of DECA, per lane: what its lanes in the comparison leave out is in it."""

    spec: str
    lanes: int
    area: float  # um2, memories and loaders in it
    weights_per_cycle: float  # dense codes of 4 bits

    @property
    def area_per_weight(self) -> float:
        """um2 per weight a cycle."""
        return self.area / self.weights_per_cycle


@dataclass(frozen=True)
class Survival:
    """One conclusion in every technology."""

    statement: str
    verdicts: dict[str, bool]  # technology -> whether it is so

    @property
    def outcome(self) -> str:
        """Whether the change of technology leaves the conclusion, or its failure, as it is."""
        if all(self.verdicts.values()):
            return "survives"
        return "changes" if any(self.verdicts.values()) else "holds in none"


def surviving_claims(comparisons: Sequence[Comparison]) -> list[Survival]:
    """Every statement of the papers: whether it holds in each technology."""
    return [
        Survival(
            claims[0].name,
            {c.technology: claim.holds for c, claim in zip(comparisons, claims, strict=True)},
        )
        for claims in zip(*(c.claims for c in comparisons), strict=True)
    ]


def surviving_orders(comparisons: Sequence[Comparison], quantity: str) -> list[Survival]:
    """Every pair of elements: whether the first is better, "area_efficiency" or "energy_..."."""
    names = [e.name for e in comparisons[0].elements]
    values = {
        c.technology: {e.name: _quantity(quantity, e) for e in c.elements} for c in comparisons
    }
    return [
        Survival(
            f"{a} better than {b}",
            {technology: of[a] > of[b] for technology, of in values.items()},
        )
        for a, b in combinations(names, 2)
    ]


def compare(technology: Technology) -> Comparison:
    """All elements in ``technology``; a missing record is an error that names its command."""
    elements = [e for name, spec in ELEMENTS.items() for e in _elements(name, spec, technology)]
    claims = list(_claims(elements))
    return Comparison(
        technology.name, CLOCK_MHZ, elements, claims, _decompression("deca:paper", technology)
    )


def _decompression(spec: str, technology: Technology) -> Decompression | None:
    params = resolve(spec)
    path = record_path(params, technology)
    if not path.exists():
        return None
    config = TileConfig(code_bits=4)
    cycles = expected_cycles(params, config, 1)
    area = json.loads(path.read_text())["metrics"]["area"]["value"]
    return Decompression(spec, params.lanes, area, float(config.elements / cycles))


def _elements(name: str, spec: str, technology: Technology) -> Iterator[Element]:
    record = load_energy(spec, technology)
    if record is None:
        raise CommandError(
            f"no energy record of {spec} in {technology.name}; make it with"
            f" `tilewright compare pe --update-records --element {spec} --tech {technology.name}`"
        )
    runs, metrics = record["runs"], record["metrics"]
    for run, real in runs.items():
        kind, _, variant = run.partition(" ")
        if kind != "real":
            continue
        tail = f" {variant}" if variant else ""
        yield Element(
            name=name + tail,
            spec=spec,
            macs_per_cycle=real["macs_per_cycle"],
            area=metrics["area"],
            delay=metrics["delay"],
            energy=real["total"],
            **{k: runs.get(f"{k}{tail}", {}).get("total") for k in ("random", "zero")},
        )


HARMONIA_BASELINES = (
    *("FP-FP", "FP-INT", "FIGNA", "FIGNA-C"),
    *("Anda m4", "Anda m6", "Anda m8"),
)


def _claims(elements: list[Element]) -> Iterator[Claim]:
    """Every claim of this study: one PE over another, or over the best or worst of its baselines.

    Anda's power is stated at one of its lengths, 8: any of the paper's range of 4..8 would do as
    well, the cycles change and the work per cycle hardly does.
    """
    by_name = {e.name: e for e in elements}
    for claim in claims_of_study("pe"):
        quantity, ours, over = (claim.arguments.get(key) for key in ("quantity", "pe", "over"))
        others = HARMONIA_BASELINES if over is None else (over,)
        gains = [
            _quantity(quantity, by_name[ours]) / _quantity(quantity, by_name[other])
            for other in others
        ]
        least = claim.arguments.get("end", "least") == "least"
        versus = over or f"the {'best' if least else 'worst'} of its baselines"
        yield Claim(
            name=f"{quantity.replace('_', ' ')} of {ours} over {versus}",
            paper=claim.number,
            here=min(gains) if least else max(gains),
            upper_bound=claim.compare is Compare.LESS_THAN,
        )


def _quantity(name: str, element: Element) -> float:
    match name:
        case "area":
            return element.area
        case "power":
            return element.power
        case "area_efficiency":
            return element.tops_per_mm2
        case "energy_efficiency":
            return element.tops_per_watt
    raise ValueError(f"claim about {name!r}: not a quantity that is compared")
