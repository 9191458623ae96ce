"""The baselines' frontier: every arrangement of each PE that papers compare with, and the best.

A *point* is a PE with a number of pipeline stages, a style of adders and a kind of accumulator;
none of these changes a bit or the throughput. The rule by which a comparison takes one of them was
fixed before the points were measured, but for one of FIGNA that a trial had shown: of those that
meet the papers' clock, mapped for area as all PEs are, the one with the least product of area and
energy of a multiply-add on real data. It is applied with operand registers inside the PEs and with
those outside, each for itself.
"""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tilewright.base.cores import available_cores
from tilewright.base.errors import CommandError
from tilewright.base.records import write_record
from tilewright.golden.params.arith import AdderTreeStyle
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.energy import CLOCK_MHZ, made_with, measure_run
from tilewright.synth.emit import to_rtlil
from tilewright.synth.flow import synthesise
from tilewright.synth.record import RECORDS, sha256, table_path
from tilewright.synth.technology import load_technology

__all__ = [
    *("BASELINES", "Point", "load_points", "measure_points", "point_specs", "points_path"),
    *("points_record", "taken_point"),
]

TECHNOLOGY = "asap7"
# Of each baseline: its block with what makes it this one, and the stages that it can have.
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
    bounded: bool  # an accumulator without what sums cannot be
    spec: str
    area_um2: float
    delay_ps: float
    fj_per_mac: float  # on real data
    rtlil_sha256: str

    @property
    def meets_the_clock(self) -> bool:
        """Whether the longest path fits the papers' clock."""
        return self.delay_ps <= 1e6 / CLOCK_MHZ

    @property
    def cost(self) -> float:
        """What the rule makes small: square micrometres times femtojoules."""
        return self.area_um2 * self.fj_per_mac


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


def _measure(name: str, spec: str) -> Point:
    """Synthesise and simulate one point; a wrong result on its netlist is an error."""
    params, technology = resolve(spec), load_technology(TECHNOLOGY)
    rtlil = to_rtlil(params, memory_macros=True)
    result = synthesise(rtlil, params.slug, technology)
    run = measure_run(params, result, "real", "")
    of = params.as_dict()
    return Point(
        name,
        of["registered"],
        of["stages"],
        of["adder"],
        of.get("bounded", False),
        spec,
        round(result.netlist.area, 5),
        round(result.delay, 1),
        run["total"],
        sha256(rtlil),
    )


def measure_points(specs: Sequence[tuple[str, str]]) -> Iterator[Point]:
    """Measure points, given by their baseline's name and their spelling; each as it is ready."""
    with ProcessPoolExecutor(available_cores(), get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_measure, *item) for item in specs]):
            yield done.result()


def points_record(points: Sequence[Point]) -> dict[str, Any]:
    """The record of these points."""
    return {
        "technology": TECHNOLOGY,
        "clock_mhz": CLOCK_MHZ,
        **made_with(TECHNOLOGY),
        "units": {"area_um2": "um2", "delay_ps": "ps", "fj_per_mac": "fJ"},
        "points": [asdict(point) for point in points],
    }


def points_path(folder: Path = RECORDS) -> Path:
    """Where the record of all points lies."""
    return table_path("pe_points", TECHNOLOGY, folder)


def load_points(folder: Path = RECORDS) -> list[Point]:
    """The points that are on record, which need not be all."""
    path = points_path(folder)
    if not path.exists():
        raise CommandError(
            "no record of the baselines' points; make it with"
            " `python -m tilewright.studies.pe.points`"
        )
    return [Point(**point) for point in json.loads(path.read_text())["points"]]


def taken_point(points: Sequence[Point], pe: str, *, registered: bool) -> Point:
    """The point of a baseline that the rule takes."""
    able = [p for p in points if p.pe == pe and p.registered is registered and p.meets_the_clock]
    if not able:
        raise CommandError(f"no point of {pe} meets {CLOCK_MHZ} MHz in {TECHNOLOGY}")
    return min(able, key=lambda p: (p.cost, p.stages))


def main() -> None:
    """Measure what is not on record and write the record anew, after every point."""
    path = points_path()
    known = {point.spec: point for point in load_points()} if path.exists() else {}
    if path.exists() and not _is_current(json.loads(path.read_text())):
        known = {}
    wanted = [(name, spec) for name, _, spec in point_specs()]
    missing = [item for item in wanted if item[1] not in known]
    for point in measure_points(missing) if missing else ():
        known[point.spec] = point
        kept = [known[spec] for _, spec in wanted if spec in known]
        write_record(path, points_record(kept))
        print(f"{point.spec}: {point.area_um2:.1f} um2, {point.fj_per_mac:.1f} fJ", flush=True)


def _is_current(record: dict[str, Any]) -> bool:
    return all(record.get(key) == value for key, value in made_with(TECHNOLOGY).items())


if __name__ == "__main__":
    main()
