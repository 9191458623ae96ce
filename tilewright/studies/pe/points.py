"""One search space for every PE that papers compare, and the rule that takes a point of it.

A *point* is a PE with a value on each of its axes; none of these changes a bit or the throughput.
The rule was fixed before the points were measured, and is the same for all: among those that meet
the papers' clock in ASAP7, mapped for area as all PEs are, the one with the least product of area
and energy of a multiply-add on real data, of Anda with mantissas of 8 bits, of Harmonia in M8W4.
It is applied separately with operand registers inside the PEs and outside.

Not all combinations are measured. From the defaults, the axes are taken in the order of ``AXES``
and each is set to its best value; ``stages`` grow or shrink by one for as long as that is better.
The axes are taken again until none changes. The rule takes the best of all points on record, which
has every combination of the baselines' ``stages``, ``adder`` and ``bounded`` of an earlier search.

    tilewright sweep --frontier pes --update-records

does it in as many processes as there are cores, or on a Dask cluster. Points on record whose RTLIL
is unchanged are not measured again, and each new one is written at once, so that a stopped search
continues.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tilewright.base.records import write_record
from tilewright.golden.params.arith import AdderTreeStyle
from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.energy import CLOCK_MHZ, made_with
from tilewright.studies.sweeps.sweep import Job, Outcome, Result, failures_of, run_jobs
from tilewright.synth.record import RECORDS, rtlil_sha256, table_path

TECHNOLOGY = "asap7"
POINTS = table_path("pe_points", TECHNOLOGY, RECORDS)
AXES = ("sub_elements", "bounded", "adder", "stages", "merged", "isolated", "weight_buffers")
Axes = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Space:
    """The points of a PE: its block, with the parameters that select it, and its axes."""

    block: str
    axes: Axes
    inside: str = "registered=true"  # operands
    outside: str = "registered=false"
    only_inside: Axes = field(default_factory=dict)

    def axes_with(self, inside: bool) -> Axes:
        """The axes with operands inside, or outside."""
        return {**self.axes, **(self.only_inside if inside else {})}

    def spec(self, inside: bool, values: Mapping[str, str]) -> str:
        """Spell a point."""
        known = self.defaults(inside)
        differ = (a for a in AXES if a in values and values[a] != known[a])
        used = (a for a in differ if a != "adder" or values.get("merged") != "true")
        changed = [f"{a}={values[a]}" for a in used]
        # Harmonia's sums stay one a cycle: as many beats a step as it has sub-PEs.
        changed += [f"fold={values['sub_elements']}"] if "sub_elements" in values else []
        return ",".join([self.block, self.inside if inside else self.outside, *changed])

    def defaults(self, inside: bool) -> dict[str, str]:
        """The values with which a search begins."""
        params = resolve(f"{self.block},{self.inside if inside else self.outside}").as_dict()
        return {axis: str(params[axis]).lower() for axis in self.axes_with(inside)}


SWITCH = ("false", "true")
ISOLATED = {"isolated": SWITCH}
SUMS = {"adder": tuple(style.value for style in AdderTreeStyle), **ISOLATED}
SCALED = {"stages": tuple("23456"), "bounded": SWITCH, **SUMS}
PRODUCTS = {"merged": SWITCH, **SCALED}
SPACES = {
    "FP-FP": Space("pe_fp_fp", {"stages": tuple("1234"), **SUMS}),
    "FP-FP discrete": Space("pe_fp_fp:discrete", ISOLATED),
    "FP-INT": Space("pe_fp_int", SCALED),
    "iFPU": Space("pe_ifpu", SCALED),
    "FIGNA": Space("pe_figna", PRODUCTS),
    "FIGNA-M11": Space("pe_figna,mantissa_bits=11", PRODUCTS),
    "FIGNA-M8": Space("pe_figna,mantissa_bits=8", PRODUCTS),
    "FIGNA-C": Space("pe_figna_c", PRODUCTS),
    "DECA lane": Space("pe_deca", ISOLATED),
    "Anda": Space(
        "anda_apu", ISOLATED, outside="buffered=false", only_inside={"weight_buffers": tuple("12")}
    ),
    "Harmonia": Space(
        "harmonia_pe",
        {
            "sub_elements": tuple("14"),
            "stages": tuple("2345"),
            **dict.fromkeys(("bounded", "merged", "isolated"), SWITCH),
        },
    ),
}


@dataclass(frozen=True)
class Point:
    """A measured point, as a row of the record has it."""

    pe: str
    inside: bool  # operands
    spec: str
    area_um2: float
    delay_ps: float
    fj_per_mac: float  # on real data
    rtlil_sha256: str

    @property
    def rank(self) -> tuple[bool, float]:
        """Less is better: whether it misses the clock, and the product of the rule."""
        return self.delay_ps > 1e6 / CLOCK_MHZ, self.area_um2 * self.fj_per_mac


Found = dict[tuple[str, bool], dict[str, str]]  # PE, operands inside -> value by axis
Wanted = tuple[str, bool, str]  # PE, operands inside, spec


def search(measured: Callable[[Sequence[Wanted]], Mapping[str, Point]]) -> Found:
    """Where the search ends for each PE; ``measured`` gives the points of specs."""
    found = {(pe, i): s.defaults(i) for pe, s in SPACES.items() for i in (True, False)}
    # Stages move by one at a time, as far as they gain.
    turns = [axis for axis in AXES for _ in range(4 if axis == "stages" else 1)]
    before: Found = {}
    while before != found:
        before = dict(found)
        for axis in turns:
            tried = {
                (pe, inside): {
                    value: SPACES[pe].spec(inside, {**values, axis: value})
                    for value in SPACES[pe].axes_with(inside).get(axis, ())
                    if axis != "stages" or abs(int(value) - int(values[axis])) <= 1
                }
                for (pe, inside), values in found.items()
            }
            points = measured([(*key, s) for key, specs in tried.items() for s in specs.values()])
            for key, specs in tried.items():
                if specs:
                    found[key] = {**found[key], axis: _best(specs, points, found[key][axis])}
    return found


def _best(specs: Mapping[str, str], points: Mapping[str, Point], now: str) -> str:
    """The value whose point the rule prefers; the present one where none is better."""
    return min(specs, key=lambda value: (*points[specs[value]].rank, value != now))


def renew_points(workers: int | None = None, cluster: str | None = None) -> Found:
    """Search, and write every point that is measured for it into the record."""
    measured = measuring(POINTS, workers, cluster)
    return search(lambda wanted: {w[2]: point for w, point in measured(wanted).items()})


def measuring(
    path: Path, workers: int | None = None, cluster: str | None = None
) -> Callable[[Sequence[Wanted]], Mapping[Wanted, Point]]:
    """A function that gives points of a record and writes each that it has to measure into it.

    ``workers`` and ``cluster`` are as of :func:`tilewright.studies.sweeps.sweep.run_jobs`.
    """
    made = made_with(TECHNOLOGY)
    record = json.loads(path.read_text()) if path.exists() else {}
    same = all(record.get(key) == value for key, value in made.items())
    known = {(p.pe, p.inside, p.spec): p for p in load_points(path)} if same else {}

    def measured(wanted: Sequence[Wanted]) -> Mapping[Wanted, Point]:
        same = {(p.rtlil_sha256, _variant(p.pe)): p for p in known.values()}  # however spelled
        for w in wanted:
            point = same.get((rtlil_sha256(w[2]), _variant(w[0])))
            known.pop(w, None)
            if point is not None:
                known[w] = replace(point, pe=w[0], inside=w[1], spec=w[2])
        missing = [w for w in wanted if w not in known]
        jobs = {Job(w[2], TECHNOLOGY, energy=True, variant=_variant(w[0])): w for w in missing}

        def keep(job: Job, outcome: Outcome) -> None:
            if isinstance(outcome, Result):
                area, delay, energy = (
                    outcome.metrics[n]["value"] for n in ("area", "delay", "energy")
                )
                known[jobs[job]] = Point(*jobs[job], area, delay, energy, outcome.rtlil_sha256)
                _write(path, known.values(), made)

        ran = run_jobs(list(jobs), workers=workers, cluster=cluster, watch=keep)
        for failure in failures_of(list(jobs), ran):
            raise RuntimeError(f"{failure.spec}: {failure.reason}")
        return known

    return measured


def _variant(pe: str) -> str:
    """The mode in which a PE is measured if its name says so: Anda m6."""
    return pe.partition(" ")[2] if pe.startswith("Anda ") else ""


def _write(path: Path, points: Iterable[Point], made: dict[str, Any]) -> None:
    order = list(SPACES)
    rows = sorted(
        points, key=lambda p: (order.index(p.pe.partition(" m")[0]), not p.inside, p.spec)
    )
    record = {
        "technology": TECHNOLOGY,
        "clock_mhz": CLOCK_MHZ,
        **made,
        "columns": [f.name for f in fields(Point)],
        "points": [astuple(point) for point in rows],
    }
    write_record(path, record)


def load_points(path: Path = POINTS) -> Iterator[Point]:
    """The points that are on record, which need not be all."""
    return (Point(*row) for row in json.loads(path.read_text())["points"])


def taken_points() -> dict[tuple[str, bool], Point]:
    """The points on record that the rule takes, for each PE with operands inside and outside."""
    best: dict[tuple[str, bool], Point] = {}
    for point in sorted(load_points(), key=lambda p: (p.rank, p.spec)):
        best.setdefault((point.pe, point.inside), point)
    return best
