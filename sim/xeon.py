"""GEMMs on a server's cores, with and without a DECA beside every core.

GEMMs run on all cores at once; each core has its share of the bandwidth and of the
tiles. What one tile costs comes from ``tilewright.sim.deca_stream`` or from the counts of vector
operations below (software). Whole steps of a model are in ``tilewright.sim.server``.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Literal

from tilewright.golden.deca.cycles import expected_cycles
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import DecaParams
from tilewright.sim.calibration import constant
from tilewright.sim.deca_stream import Integration, tile_rate
from tilewright.sim.measured_software import KERNELS, measured_cycles
from tilewright.sim.scheme import WeightScheme
from tilewright.sim.system import Server, servers
from tilewright.sim.workload import Gemm

__all__ = ["ENGINES", "SYSTEMS", "gemm", "tile_cost"]

Engine = Literal["software", "deca", "optimal", "more-avx", "wider-avx"]
ENGINES: dict[str, str] = {
    "software": "the core's vector units decompress",
    "deca": "a DECA beside every core decompresses",
    "optimal": "decompression costs nothing: the roofline",
    "more-avx": "software with four times the vector units, the core's width unchanged",
    "wider-avx": "software with vectors four times as wide, lines unchanged",
}
ROWS_PER_TILE = 16  # of the activations that one matrix operation takes
MATRIX_CYCLES = 16  # between two matrix operations (DECA paper, Section 2.3)
TILE_OUTER = 16  # rows of a weight tile
ACTIVATION_BYTES = 2  # bf16
ISSUE_WIDTH = 6  # instructions a core of the paper can issue a cycle
PAPER_DECA = DecaParams()
PAPER_INTEGRATION = Integration()
SCALED_VECTORS = 4  # of the two engines with more vector hardware


SYSTEMS = servers()


@dataclass(frozen=True, kw_only=True)
class TileCost:
    """Cycles of one core for one weight tile, and how long it keeps each resource busy."""

    cycles: float
    memory: float  # at the whole bandwidth that the paper calls achievable
    vector: float  # the core's vector units, or the DECA
    matrix: float

    @property
    def utilisation(self) -> dict[str, float]:
        """Share of the time for which each resource is busy."""
        return {name: getattr(self, name) / self.cycles for name in ("memory", "vector", "matrix")}

    @property
    def bound(self) -> str:
        """The resource that is busy for the largest share of the time."""
        use = self.utilisation
        return max(use, key=lambda name: use[name])


def vector_operations(scheme: WeightScheme) -> float:
    """Vector operations with which software decompresses one tile, whatever its density."""
    if not scheme.compressed:
        return 0.0
    bits = scheme.config.code_bits
    kind = "16bit" if bits == 16 else "8bit" if bits == 8 else "grouped"
    extra = constant("vector_ops_sparse") if scheme.config.sparse else 0.0
    return constant(f"vector_ops_{kind}") + extra


@lru_cache(maxsize=1024)
def deca_cycles(params: DecaParams, scheme: WeightScheme) -> float:
    """Mean cycles of a tile in the vector pipeline, from the golden cycle model."""
    return float(expected_cycles(params, scheme.config, scheme.density))


def tile_cost(
    machine: Server,
    engine: str,
    scheme: WeightScheme,
    rows: int,
    *,
    inner: int = 4096,
    cores: int | None = None,
    params: DecaParams = PAPER_DECA,
    integration: Integration = PAPER_INTEGRATION,
) -> TileCost:
    """What one weight tile costs a core when all ``cores`` stream tiles of a large matrix.

    ``rows`` is the batch, ``inner`` the length of the activations, ``integration`` how a core and
    its DECA work together.
    """
    cores = machine.cores if cores is None else cores
    require(1 <= cores <= machine.cores, f"cores must be 1..{machine.cores}, not {cores!r}")
    share = machine.bytes_per_cycle(cores)
    matrix, multiply = _products(machine, scheme, rows)
    memory = scheme.tile_bytes / (machine.bandwidth / (cores * machine.clock))
    if engine == "optimal":
        cycles = max(memory, matrix, multiply)
        return TileCost(cycles=cycles, memory=memory, vector=multiply, matrix=matrix)
    feeding = _feeding(machine, rows, inner, reload=engine != "deca")
    busy = max(matrix, multiply, feeding)
    if engine == "deca" and scheme.compressed:
        vector = deca_cycles(params, scheme)
        rate = tile_rate(
            params,
            scheme,
            bytes_per_cycle=share,
            matrix_cycles=busy,
            integration=integration,
        )
        # The few tiles that are followed may be lighter than the mean, by parts of a percent.
        cycles = max(rate.cycles, vector, busy, scheme.tile_bytes / share)
    elif engine in KERNELS and scheme.compressed:
        require(rows == 1, f"{engine} was measured at batch 1, not {rows}")
        require(machine.matrix_cycles > 0, f"{engine} needs the matrix unit of a Xeon")
        vector, serial = measured_cycles(engine, scheme)
        cycles = max(scheme.tile_bytes / share, serial)
    else:
        vector, serial = _software(machine, engine, scheme)
        vector, serial = vector + multiply, serial + multiply  # on the same units
        stream = scheme.tile_bytes / share
        if scheme.compressed:
            stream = max(stream, scheme.tile_bytes / constant("software_bytes_per_cycle"))
        cycles = max(stream, serial, busy)
    return TileCost(cycles=cycles, memory=memory, vector=vector, matrix=matrix)


def _products(machine: Server, scheme: WeightScheme, rows: int) -> tuple[float, float]:
    """Cycles of a tile's products in the matrix unit and, where there is none, in vector units."""
    if machine.matrix_cycles:
        return machine.matrix_cycles * ceil(rows / ROWS_PER_TILE), 0.0
    return 0.0, rows * scheme.tile_weights / (machine.vector_macs * machine.vector_units)


def _software(machine: Server, engine: str, scheme: WeightScheme) -> tuple[float, float]:
    """Cycles of the vector units for a tile, and of the core's whole decompression loop."""
    count = vector_operations(scheme)
    if not count:
        return 0.0, 0.0
    vector = count / machine.vector_units
    instructions = count * constant("instructions_per_vector_op")
    if engine == "software":
        return vector, vector + constant("software_overhead")
    # Sixteen rows are written, and read again by the matrix unit; compressed lines are read.
    lines = 2 * TILE_OUTER + scheme.tile_bytes / 64
    vector /= SCALED_VECTORS
    if engine == "wider-avx":
        instructions /= SCALED_VECTORS
    limit = max(vector, instructions / machine.issue_width, lines / machine.l1_lines)
    return vector, limit + constant("software_overhead")


def _feeding(machine: Server, rows: int, inner: int, *, reload: bool) -> float:
    """Cycles in which the activations of a tile's matrix operations come to the tile registers.

    Activations of one layer that are too large for their part of the L2 come from the last-level
    cache; software then loads the decompressed tile again for each matrix operation.
    """
    operations = ceil(rows / ROWS_PER_TILE)
    tile = min(rows, ROWS_PER_TILE) * 64
    if rows * inner * ACTIVATION_BYTES <= constant("near_activation_bytes"):
        return operations * tile / machine.rate("l2_bandwidth")
    loads = constant("software_loads") * tile if reload else tile
    return operations * loads / machine.rate("llc_bandwidth")


@dataclass(frozen=True, kw_only=True)
class GemmTime:
    """A GEMM on all cores; ``seconds`` is for all its repetitions."""

    gemm: Gemm
    seconds: float
    tile: TileCost

    @property
    def tera_fma(self) -> float:
        """10^12 multiply-adds a second."""
        return self.gemm.macs / self.seconds / 1e12


def gemm(
    machine: Server,
    engine: str,
    scheme: WeightScheme,
    product: Gemm,
    params: DecaParams = PAPER_DECA,
) -> GemmTime:
    """Return the time of a GEMM with weights in ``scheme``, decompressed by ``engine``."""
    cost = tile_cost(machine, engine, scheme, product.rows, inner=product.inner, params=params)
    tile_inner = scheme.tile_weights // TILE_OUTER
    tiles = ceil(product.outer / TILE_OUTER) * ceil(product.inner / tile_inner)
    cycles = ceil(tiles / machine.cores) * cost.cycles
    sync = 0.0 if engine == "optimal" else constant("sync_us") * 1e-6
    seconds = product.count * (cycles / machine.clock + sync)
    return GemmTime(gemm=product, seconds=seconds, tile=cost)
