"""Arrays of PEs compared by their records: elements, dispatchers, operand registers and drain.

The rule, fixed before the measurements, except the part about nets, without which three arrays had
been measured:

- Each array is synthesised whole, as tiles of 2 x 2 and 4 x 4 PEs, for the goal and with the data
  of the comparison of PEs. The largest on record is taken, and compared with the first PE's of that
  size. Their netlists must give golden's results, and those of 2 x 2 are proved.
- The smaller tile, extended to the larger one, checks the rule; so does one of 8 x 8 small PEs.
- The tile is extended to the published size by its area by part: parts of PEs times the PEs, of
  rows times the rows, of columns times the columns, the rest once. A PE is the mean of those that
  are in neither the first row nor the first column. Synthesis counts logic that a row or a column
  of PEs share in the first of them: what these have above a PE is a part of the row or column.
  Energy is extended likewise, except nets that PEs share: they have a pin at each PE, so their
  switching counts per PE. Wires are those of the tile, whose average grows with its size.
- Arrays are compared at equal throughput, by area per multiply-add a cycle. Published sizes do
  16 * 16 * 64 / (M + 1) in Anda's array of 64 one-bit lanes, 16 * 16 * 4 in one of baselines, and
  8 * 16 * 32 in Harmonia's, where M8M8 halves it.

The boundary: operands arrive as the PEs take them, as bit planes, aligned mantissas or dequantised
weights, and results leave in fp16. Conversions and buffers are outside; the memories in which
Harmonia's columns hold operands are counted apart. Its queue of results has 1.5 times the places
for a PE in a tile of 4 x 4, 2.5 times in one of 2 x 2.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.energy import CLOCK_MHZ, PES, load_energy
from tilewright.studies.pe.workload import pe_bench
from tilewright.synth.technology import Technology

BOUNDARY = "operands as PEs take them to fp16 results; conversions, buffers and memories apart"
WHOLE = {"anda_apu:bare": "anda_mxu", "harmonia_pe:single": "harmonia_array"}
BASELINES = ("FP-FP", "FP-INT", "iFPU", "FIGNA", "FIGNA-M11", "FIGNA-M8", "FIGNA-C")
FIRST = BASELINES[0]  # over which the others are


def tile(pe: str, size: int) -> str:
    """The specification of a square tile of a PE."""
    block, *settings = pe.split(",")
    places = f"rows={size},columns={size}"
    if block in WHOLE:
        return ",".join([WHOLE[block], places, *settings])
    return ",".join(["pe_array", places, f"pe={block}", *(f"pe.{s}" for s in settings)])


# Tiles by the names of their PEs in ``PES``; the first preset of a block has the published size.
ARRAYS = {n: (tile(PES[n], 2), tile(PES[n], 4)) for n in (*BASELINES, "Anda", "Harmonia")}
# Larger ones that check the rule, in one technology.
CHECKED, CHECKS = (
    "asap7",
    {"pe_figna:small": (tile("pe_figna:small", 4), tile("pe_figna:small", 8))},
)


@dataclass(frozen=True, kw_only=True)
class MeasuredArray:
    """An array of the published size on real data; figures named ``_x`` are over the first."""

    name: str
    spec: str  # of the tile
    tile: str
    size: str
    macs_per_cycle: float
    pe_um2: float  # of the PE alone, as the comparison of PEs has it
    element_um2: float  # a PE in the array
    share_um2: float  # the array by its PEs
    array_um2: float
    um2_per_mac: float  # for one multiply-add a cycle
    pe_fj_per_mac: float
    element_fj_per_mac: float
    energy_fj_per_mac: float
    memory_um2: float  # not in the array's
    memory_fj_per_mac: float
    parts_um2: Mapping[str, float]
    area_x: float = 1.0
    um2_per_mac_x: float = 1.0
    energy_x: float = 1.0


@dataclass(frozen=True)
class RuleCheck:
    """A tile as the rule extends the smaller one to it, over itself."""

    name: str
    smaller: str
    size: str
    area_x: float
    energy_x: float  # of a multiply-add in the usual mode


@dataclass(frozen=True)
class ArrayComparison:
    """The arrays of one technology that are on record."""

    technology: str
    clock_mhz: int
    boundary: str
    arrays: tuple[MeasuredArray, ...]
    missing: tuple[str, ...]  # the largest tiles of other arrays
    checks: tuple[RuleCheck, ...]


def compare_arrays(technologies: Sequence[Technology]) -> tuple[ArrayComparison, ...]:
    """Compare all arrays in every technology."""
    return tuple(map(_compared, technologies))


def _compared(technology: Technology) -> ArrayComparison:
    known = {
        name: [record for spec in specs if (record := load_energy(spec, technology)) is not None]
        for name, specs in (ARRAYS | CHECKS).items()
    }
    firsts = {row.tile: row for record in known[FIRST] for row in _rows(FIRST, record, technology)}
    rows = [r for n in ARRAYS if known[n] for r in _rows(n, known[n][-1], technology)]
    missing = tuple(ARRAYS[name][-1] for name in ARRAYS if not firsts or not known[name])
    arrays = tuple(
        replace(
            row,
            area_x=row.array_um2 / first.array_um2,
            um2_per_mac_x=row.um2_per_mac / first.um2_per_mac,
            energy_x=row.energy_fj_per_mac / first.energy_fj_per_mac,
        )
        for row in rows
        if (first := firsts.get(row.tile)) is not None
    )
    checks = tuple(_check(name, *both) for name, both in known.items() if len(both) == 2)
    return ArrayComparison(technology.name, CLOCK_MHZ, BOUNDARY, arrays, missing, checks)


def _check(name: str, small: dict[str, Any], large: dict[str, Any]) -> RuleCheck:
    params: list[Any] = [resolve(record["spec"]) for record in (small, large)]
    sizes = [(p.rows, p.columns) for p in params]
    run = f"real {pe_bench(params[0]).usual_variant}".strip()
    area, energy = (
        _without_memory(extended(of["parts"], *sizes)) / _without_memory(by["parts"])
        for of, by in ((small, large), (small["runs"][run], large["runs"][run]))
    )
    # A run's energy is that of one multiply-add, of which the larger tile does more.
    more = prod(sizes[1]) / prod(sizes[0])
    before, after = (f"{rows} x {columns}" for rows, columns in sizes)
    return RuleCheck(name, before, after, area, energy / more)


def _without_memory(parts: Mapping[str, float]) -> float:
    return sum(value for part, value in parts.items() if part != "memory")


def extended(
    split: Mapping[str, float], tile: tuple[int, int], size: tuple[int, int]
) -> dict[str, float]:
    """The parts of an array of ``size`` rows and columns, by those of a tile."""
    rows, columns = (new / old for new, old in zip(size, tile, strict=True))
    times = {"row": rows, "column": columns, "memory": columns, "once": 1.0}
    return {name: value * times.get(name, rows * columns) for name, value in split.items()}


def _rows(name: str, record: dict[str, Any], technology: Technology) -> Iterator[MeasuredArray]:
    alone = load_energy(PES[name], technology)
    if alone is None:
        return
    params: Any = resolve(record["spec"])
    published = type(params).preset()
    tile, size = (params.rows, params.columns), (published.rows, published.columns)
    pes, larger = size[0] * size[1], size[0] * size[1] / (tile[0] * tile[1])
    area = extended(record["parts"], tile, size)
    memory = area.pop("memory")
    whole = sum(area.values())
    for run, real in record["runs"].items():
        energy = {n: x / larger for n, x in extended(real["parts"], tile, size).items()}
        memory_energy, rate = energy.pop("memory"), real["macs_per_cycle"] * larger
        yield MeasuredArray(
            name=f"{name} {run.removeprefix('real').strip()}".strip(),
            spec=record["spec"],
            tile=f"{tile[0]} x {tile[1]}",
            size=f"{size[0]} x {size[1]}",
            macs_per_cycle=rate,
            pe_um2=alone["metrics"]["area"],
            element_um2=area["pe"] / pes,
            share_um2=whole / pes,
            array_um2=whole,
            um2_per_mac=whole / rate,
            pe_fj_per_mac=alone["runs"][run]["total"],
            element_fj_per_mac=energy["pe"],
            energy_fj_per_mac=sum(energy.values()),
            memory_um2=memory,
            memory_fj_per_mac=memory_energy,
            parts_um2=area,
        )
