"""Area and energy of PEs by length of mantissas and weights and by size of groups.

From mantissas of 8 bits, weights of 4 and groups of 64 one of the three is varied. PEs have the
arrangement that the comparison takes, with operands outside, and are not searched again. iFPU and
FIGNA-C have shorter mantissas here than in their papers: as long as those of their rivals.

    python -m tilewright.studies.pe.precision

measures what is not on record, by the workload of the comparison.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilewright.golden.params.formats import FP16
from tilewright.golden.params.resolve import resolve
from tilewright.studies.accuracy.records import load_record
from tilewright.studies.pe.energy import PES
from tilewright.studies.pe.points import TECHNOLOGY, Wanted, load_points, measuring
from tilewright.synth.record import RECORDS, table_path

PRECISIONS = table_path("pe_precision", TECHNOLOGY, RECORDS)
Place = tuple[int, ...]  # bits of mantissas and weights, elements of a group
CENTRE = (8, 4, 64)
VALUES = ((3, 5, 7, 8, 11), (2, 4, 8), (16, 64, 128))
# Values of each PE on each axis: those that its format allows, but for mantissas of two.
VARIED: dict[str, tuple[tuple[int, ...], ...]] = {
    "FP-INT": ((), *VALUES[1:]),
    **dict.fromkeys(("FIGNA-M8", "FIGNA-C", "iFPU"), VALUES),
    "Anda": (*VALUES[:2], VALUES[2][:2]),
    "Harmonia": ((), (), (16, 32, 64)),
}


@dataclass(frozen=True)
class Precision:
    """A PE at a place, for one multiply-add a cycle."""

    pe: str
    place: Place
    area_um2: float
    fj_per_mac: float


def wanted_points() -> dict[Wanted, tuple[str, Place]]:
    """Every PE at every place; FP-INT has mantissas of 11 bits."""
    found: dict[Wanted, tuple[str, Place]] = {}
    for pe, values in VARIED.items():
        own = (FP16.significand_bits if pe == "FP-INT" else CENTRE[0], *CENTRE[1:])
        for axis, of_axis in enumerate(values):
            for value in of_axis:
                place = (*own[:axis], value, *own[axis + 1 :])
                found[_wanted(pe, PES[pe], place)] = pe.partition("-M")[0], place
    return found


def _wanted(pe: str, spec: str, place: Place) -> Wanted:
    names = ("mantissa_bits", "weight_bits", "group")
    fields = resolve(spec).as_dict()
    known = [p for p in spec.split(",") if p.partition("=")[0] not in names]
    known += [f"{n}={value}" for n, value in zip(names, place, strict=True) if n in fields]
    return f"Anda m{place[0]}" if pe == "Anda" else pe, False, ",".join(known)


def load_precisions() -> Iterator[Precision]:
    """Read the points that are on record."""
    places = wanted_points()
    for point in load_points(PRECISIONS):
        pe, place = places[point.pe, point.inside, point.spec]
        params: Any = resolve(point.spec)
        # Anda has a lane for each element of a group, and a beat of signs.
        rate = params.group / (place[0] + 1) if pe == "Anda" else params.lanes
        yield Precision(pe, place, point.area_um2 / rate, point.fj_per_mac)


def perplexity_loss(mantissa: int, group: int) -> float:
    """Loss of SmolLM2's perplexity, in percent, with such activations in its linear modules.

    0 bits are fp16's own. Weights have 4 bits in the reference too. The longest on record stands
    for longer ones, whose loss is within the noise.
    """
    if not mantissa:
        return 0.0
    record = load_record("sensitivity")
    assert record is not None  # it is committed
    rows = [r for r in record["by_group"] if r["group"] == group and r["length"] <= mantissa]
    best = max(rows, key=lambda r: r["length"])
    return 100 * float(best["perplexity"] / record["reference"] - 1)


if __name__ == "__main__":
    measuring(PRECISIONS)(list(wanted_points()))
