"""The baselines' frontier: every arrangement of each PE that papers compare with, and the best.

A *point* is a PE with a number of pipeline stages, a style of adders and a kind of accumulator;
none of these changes a bit or the throughput. The rule by which a comparison takes one of them was
fixed before the points were measured, except one of FIGNA seen in a trial: among those that meet
the papers' clock, mapped for area as all PEs are, the one with the least product of area and
energy of a multiply-add on real data. It is applied separately with operand registers inside the
PEs and outside.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from tilewright.base.records import write_record
from tilewright.golden.params.arith import AdderTreeStyle
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.energy import CLOCK_MHZ, made_with
from tilewright.studies.sweeps.sweep import Failure, Job, Result, failures_of, results_of, run_jobs
from tilewright.synth.record import RECORDS, table_path

TECHNOLOGY = "asap7"
POINTS = table_path("pe_points", TECHNOLOGY, RECORDS)
# Each baseline: its block with the parameters that select it, and its possible stages.
BASELINES = {
    "FP-FP": ("pe_fp_fp", range(1, 5)),
    "FP-INT": ("pe_fp_int", range(2, 7)),
    "iFPU": ("pe_ifpu", range(2, 7)),
    "FIGNA": ("pe_figna", range(2, 7)),
    "FIGNA-M11": ("pe_figna,mantissa_bits=11", range(2, 7)),
    "FIGNA-M8": ("pe_figna,mantissa_bits=8", range(2, 7)),
    "FIGNA-C": ("pe_figna_c", range(2, 7)),
}


@dataclass(frozen=True)
class Point:
    """One arrangement of a baseline, as the record has it."""

    pe: str
    registered: bool  # operands inside
    stages: int
    adder: str
    bounded: bool  # no logic for impossible sums
    spec: str
    area_um2: float
    delay_ps: float
    fj_per_mac: float  # on real data
    rtlil_sha256: str


def point_specs() -> Iterator[tuple[str, BlockParams, str]]:
    """Every point: the baseline's name, its parameters, and how to spell them."""
    for name, (block, known) in BASELINES.items():
        for registered in ("true", "false"):
            for stages in known:
                for style in AdderTreeStyle:
                    for bounded in ("false", "true") if block != "pe_fp_fp" else (None,):
                        spec = f"{block},registered={registered},stages={stages}"
                        spec += f",adder={style.value}" + (f",bounded={bounded}" if bounded else "")
                        yield name, resolve(spec), spec


def renew_points() -> tuple[Failure, ...]:
    """Measure every point and write the record; return those that failed."""
    wanted = [(name, Job(spec, TECHNOLOGY, energy=True)) for name, _, spec in point_specs()]
    jobs = [job for _, job in wanted]
    outcomes = run_jobs(jobs)
    failures = failures_of(jobs, outcomes)
    if not failures:
        points = [
            _point(name, result)
            for (name, _), result in zip(wanted, results_of(jobs, outcomes), strict=True)
        ]
        record = {
            "technology": TECHNOLOGY,
            "clock_mhz": CLOCK_MHZ,
            **made_with(TECHNOLOGY),
            "units": {"area_um2": "um2", "delay_ps": "ps", "fj_per_mac": "fJ"},
            "points": [asdict(point) for point in points],
        }
        write_record(POINTS, record)
    return failures


def _point(name: str, result: Result) -> Point:
    fields, metrics = result.parameters, result.metrics
    return Point(
        pe=name,
        registered=fields["registered"],
        stages=fields["stages"],
        adder=fields["adder"],
        bounded=fields.get("bounded", False),
        spec=result.spec,
        area_um2=metrics["area"]["value"],
        delay_ps=metrics["delay"]["value"],
        fj_per_mac=metrics["energy"]["value"],
        rtlil_sha256=result.rtlil_sha256,
    )


def load_points() -> list[Point]:
    """The points that are on record, which need not be all."""
    return [Point(**point) for point in json.loads(POINTS.read_text())["points"]]


def taken_point(points: Iterable[Point], pe: str, *, registered: bool) -> Point:
    """The point of a baseline that the rule takes among those that meet the papers' clock."""
    able = (p for p in points if p.pe == pe and p.registered is registered)
    on_time = [p for p in able if p.delay_ps <= 1e6 / CLOCK_MHZ]
    return min(on_time, key=lambda p: (p.area_um2 * p.fj_per_mac, p.stages))


if __name__ == "__main__":
    for failure in renew_points():
        print(f"{failure.spec}: {failure.reason}")
