"""Arrays of PEs compared by their records: elements, dispatchers, operand registers and drain.

The rule, fixed before the measurements, except the part about nets, without which three arrays had
been measured:

- Each array is synthesised whole, as a tile of 2 x 2 PEs, for the goal and with the data of the
  comparison of PEs. A tile of 2 x 4 checks the rule: that of FIGNA is within 0.2%.
- The tile is extended to the published size by its area by part: parts of PEs times the PEs, of
  rows times the rows, of columns times the columns, the rest once. A PE is the mean of those that
  are in neither the first row nor the first column. Synthesis counts logic that a row or a column
  of PEs share in the first of them: what these have above a PE is a part of the row or column.
  Energy is extended likewise, except nets that PEs share: they have a pin at each PE, so their
  switching counts per PE. Wires are those of the tile.
- Arrays are compared at equal throughput, by area per multiply-add a cycle. Published sizes do
  16 * 16 * 64 / (M + 1) in Anda's array of 64 one-bit lanes, 16 * 16 * 4 in one of baselines, and
  8 * 16 * 32 in Harmonia's, where M8M8 halves it.

The boundary: operands arrive as the PEs take them, as bit planes, aligned mantissas or dequantised
weights, and results leave in fp16. Conversions and buffers are outside; the memories in which
Harmonia's columns hold operands are counted apart. Its queue of results has 2.5 times the places
for a PE in a tile, which makes its array 2% too large.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.golden.params.resolve import resolve
from tilewright.studies.pe.energy import CLOCK_MHZ, PES, load_energy
from tilewright.synth.technology import Technology

BOUNDARY = "operands as PEs take them to fp16 results; conversions, buffers and memories apart"
TILE = "rows=2,columns=2"
BASELINES = ("FP-FP", "FP-INT", "iFPU", "FIGNA", "FIGNA-M11", "FIGNA-M8", "FIGNA-C")
FIRST = BASELINES[0]  # over which the others are


def _tile(pe: str) -> str:
    block, *settings = pe.split(",")
    return ",".join(["pe_array", TILE, f"pe={block}", *(f"pe.{s}" for s in settings)])


# Tiles by the names of their PEs in ``PES``; the first preset of a block has the published size.
ARRAYS = {name: _tile(PES[name]) for name in BASELINES} | {
    "Anda": f"anda_mxu,{TILE}",
    "Harmonia": f"harmonia_array,{TILE},stages=3,bounded=true,merged=true",
}


@dataclass(frozen=True, kw_only=True)
class MeasuredArray:
    """An array of the published size on real data; figures named ``_x`` are over the first."""

    name: str
    spec: str  # of the tile
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
class ArrayComparison:
    """The arrays of one technology that are on record."""

    technology: str
    clock_mhz: int
    boundary: str
    arrays: tuple[MeasuredArray, ...]
    missing: tuple[str, ...]  # specifications of other tiles


def compare_arrays(technologies: Sequence[Technology]) -> tuple[ArrayComparison, ...]:
    """Compare all arrays in every technology."""
    return tuple(map(_compared, technologies))


def _compared(technology: Technology) -> ArrayComparison:
    known = {name: load_energy(spec, technology) for name, spec in ARRAYS.items()}
    rows = [row for name, record in known.items() for row in _rows(name, record, technology)]
    missing = tuple(ARRAYS[name] for name, record in known.items() if record is None)
    if ARRAYS[FIRST] in missing:  # nothing to compare with
        rows, missing = [], (*ARRAYS.values(),)
    arrays = tuple(
        replace(
            row,
            area_x=row.array_um2 / rows[0].array_um2,
            um2_per_mac_x=row.um2_per_mac / rows[0].um2_per_mac,
            energy_x=row.energy_fj_per_mac / rows[0].energy_fj_per_mac,
        )
        for row in rows
    )
    return ArrayComparison(technology.name, CLOCK_MHZ, BOUNDARY, arrays, missing)


def extended(
    split: Mapping[str, float], tile: tuple[int, int], size: tuple[int, int]
) -> dict[str, float]:
    """The parts of an array of ``size`` rows and columns, by those of a tile."""
    rows, columns = (new / old for new, old in zip(size, tile, strict=True))
    times = {"row": rows, "column": columns, "memory": columns, "once": 1.0}
    return {name: value * times.get(name, rows * columns) for name, value in split.items()}


def _rows(
    name: str, record: dict[str, Any] | None, technology: Technology
) -> Iterator[MeasuredArray]:
    alone = load_energy(PES[name], technology)
    if record is None or alone is None:
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
