"""Software decompression at costs measured on a processor, as an engine of the DECA model.

``tilewright.sim.xeon.tile_cost`` takes the names of ``KERNELS`` as engines, measured at batch 1:
``software-measured`` is the software for DECA's tiles, ``look-up`` the one that decodes in
registers. The record of the kernels (``tilewright/kernels/records``) has, for every scheme and
kernel, how many tiles a second the cores' ports allow, and how many can be stored row by row and
loaded again as tiles. Over the rate of additions of vectors, two a cycle and core, both are cycles
of a core, which hold for other machines of the same cores.
"""

from typing import Any

from tilewright.sim.measured import record
from tilewright.sim.records import NoRecordError
from tilewright.sim.scheme import WeightScheme

__all__ = ["KERNELS", "measured_cycles"]

# Kernels of the record, for elements of 16 bits and for codes.
KERNELS = {
    "software-measured": ("DECA tiles", "DECA tiles"),
    "look-up": ("SparAMX, vector order", "look-up, vector order"),
}
VECTOR_PORTS = 2
MEMORY = ("load", "store", "tileloadd")  # instructions that take no vector unit
MEMORY_BOUND = 0.8  # share of the bandwidth of reading alone, from which on memory bounds


def measured_cycles(engine: str, scheme: WeightScheme) -> tuple[float, float]:
    """Cycles of a core's vector ports for one tile, and of all it does for it, at batch 1."""
    data = record()
    clock = data["roofs"]["instructions"]["vpadd"] / VECTOR_PORTS  # of all cores together
    row = _row(data, engine, scheme)
    if "vector" not in row:
        return _from_rates(data, row, clock)
    vector = clock / row["vector"] if row["vector"] else 0.0
    through = clock / row["reload_rate"] if row["reload_rate"] else 0.0
    return vector, max(vector, through)


def _from_rates(data: dict[str, Any], row: dict[str, Any], clock: float) -> tuple[float, float]:
    """Costs of a tile in a record without them: of its instructions, and of the kernel as a whole.

    The latter where memory did not bound the kernel on the machine of the record.
    """
    rates = data["roofs"]["instructions"]
    counts = {k: n for k, n in row["instructions"].items() if k in rates and k not in MEMORY}
    vector = sum(count * clock / rates[name] for name, count in counts.items())
    streamed = row["tiles_per_second"] * row["tile_bytes"] / row["read_bytes_per_second"]
    whole = clock / row["tiles_per_second"] if streamed < MEMORY_BOUND else 0.0
    return vector, max(vector, whole)


def _row(data: dict[str, Any], engine: str, scheme: WeightScheme) -> dict[str, Any]:
    density = float(scheme.density) if scheme.config.sparse else None
    bits = scheme.config.code_bits
    kernel = KERNELS[engine][bits < 16]
    wanted = ({16: "bf16", 8: "bf8", 4: "mxfp4"}.get(bits), kernel)
    rows = [r for r in data["roof_surface"] if (r["scheme"], r["kernel"]) == wanted]
    rows = [r for r in rows if (r["density"] is None) == (density is None)]
    if not rows:
        raise NoRecordError(f"no measurement of {scheme.name} by the kernel {kernel}")
    # Vector instructions do not depend on the density, so the nearest one that was measured counts.
    return min(rows, key=lambda r: abs((r["density"] or 1.0) - (density or 1.0)))
