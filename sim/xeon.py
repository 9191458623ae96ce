"""GEMMs on a server's cores, with and without a DECA at every core.

GEMMs run on all cores at once; each core has its share of the bandwidth and of the
tiles. The cost of a tile comes from ``tilewright.sim.deca_stream`` or from the counts of vector
operations below (software). Whole steps of a model are in ``tilewright.sim.server``.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp

from tilewright.golden.deca.cycles import expected_cycles
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import DecaParams
from tilewright.sim.calibration import cached, constant, measured
from tilewright.sim.deca_stream import Integration, tile_rate
from tilewright.sim.records import KERNELS, NoRecordError, measured_cycles
from tilewright.sim.scheme import WeightScheme
from tilewright.sim.system import Server, servers
from tilewright.sim.workload import Gemm

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
RESOURCES = ("memory", "vector", "matrix", "l2", "llc")
FITTED_ROWS = 64  # the largest batch of the tables that the constants of software were fitted to
PAPER_L2 = 2 * 2**20  # bytes; of the processor of these tables
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
    l2: float = 0.0  # on its way to the tile registers: activations, tiles loaded again
    llc: float = 0.0
    # Whether the cycles follow from fitted constants: operations of software, rates of caches.
    fitted: bool = False

    @property
    def utilisation(self) -> dict[str, float]:
        """Share of the time for which each resource is busy."""
        return {name: getattr(self, name) / self.cycles for name in RESOURCES}

    @property
    def bound(self) -> str:
        """The resource that is busy for the largest share of the time."""
        use = self.utilisation
        return max(use, key=lambda name: use[name])


def vector_operations(scheme: WeightScheme) -> float:
    """Vector operations with which software decompresses one tile, whatever its density."""
    if not scheme.compressed:
        return 0.0
    if scheme.own is not None:
        return scheme.own.operations
    bits = scheme.config.code_bits
    kind = "16bit" if bits == 16 else "8bit" if bits == 8 else "grouped"
    extra = constant("vector_ops_sparse") if scheme.config.sparse else 0.0
    return constant(f"vector_ops_{kind}") + extra


@lru_cache(maxsize=1024)
def _deca_cycles(params: DecaParams, scheme: WeightScheme) -> float:
    return float(expected_cycles(params, scheme.config, scheme.density))


def deca_cycles(params: DecaParams, scheme: WeightScheme) -> float:
    """Mean cycles of a tile in the vector pipeline, from the golden cycle model."""
    return measured("deca.cycles", _deca_cycles(params, scheme))


@cached(1 << 14)  # products of one step share their rows, and many their inner dimension
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
    """The cost of a weight tile to a core when all ``cores`` stream tiles of a large matrix.

    ``rows`` is the batch, ``inner`` the length of the activations, ``integration`` how a core and
    its DECA work together.
    """
    scheme = scheme.on_deca if engine == "deca" else scheme
    cores = machine.cores if cores is None else cores
    require(1 <= cores <= machine.cores, f"cores must be 1..{machine.cores}, not {cores!r}")
    share = machine.bytes_per_cycle(cores)
    loads = machine.bytes_per_cycle(cores, loads=True)  # a DECA asks for its lines itself
    matrix, multiply = _products(machine, scheme, rows)
    memory = scheme.tile_bytes / (machine.bandwidth / (cores * machine.clock))
    if engine == "optimal":
        cycles = max(memory, matrix, multiply)
        return TileCost(cycles=cycles, memory=memory, vector=multiply, matrix=matrix)
    l2, llc = _feeding(machine, rows, inner, reload=engine != "deca")
    busy = max(matrix, multiply, l2 + llc)
    if engine == "deca" and scheme.compressed:
        vector = deca_cycles(params, scheme) * machine.deca_clocks
        rate = tile_rate(
            params,
            scheme,
            bytes_per_cycle=share,
            matrix_cycles=min(busy, MATRIX_CYCLES),
            integration=integration,
            clocks=machine.deca_clocks,
        )
        # Followed with one matrix operation a tile: where a core takes longer for its products, it
        # does nothing but these. And the few tiles may be lighter than the mean, by a little.
        cycles = max(rate.cycles, vector, busy, scheme.tile_bytes / share)
    elif engine in KERNELS and scheme.compressed:
        require(machine.matrix_cycles > 0, f"{engine} needs the matrix unit of a Xeon")
        require(scheme.own is None, f"no kernel of ours was measured with {scheme.name}")
        try:
            vector, serial = measured_cycles(engine, scheme)
        except NoRecordError as missing:
            raise ValueError(str(missing)) from None
        cycles = max(scheme.tile_bytes / loads, serial, busy)
    else:
        vector, serial = _software(machine, engine, scheme)
        vector, serial = vector + multiply, serial + multiply  # on the same units
        limit = constant("software_bytes_per_cycle") if scheme.compressed else loads
        cycles = max(scheme.tile_bytes / min(loads, limit), serial, busy)
    by_caches = l2 + llc == cycles and l2 + llc > max(matrix, multiply)
    by_software = (
        engine not in (*KERNELS, "deca")
        and scheme.own is None
        and scheme.compressed
        and cycles > max(scheme.tile_bytes / loads, busy)
    )
    return TileCost(
        cycles=cycles,
        memory=memory,
        vector=vector,
        matrix=matrix,
        l2=l2,
        llc=llc,
        fitted=by_caches or by_software,
    )


def _products(machine: Server, scheme: WeightScheme, rows: int) -> tuple[float, float]:
    """Cycles of a tile's products in the matrix unit and, where there is none, in vector units."""
    if machine.matrix_cycles:
        # A row passes in a sixteenth of an operation; a tile of weights takes one at least.
        return machine.matrix_cycles * max(1.0, rows / ROWS_PER_TILE), 0.0
    return 0.0, rows * scheme.tile_weights / (machine.vector_macs * machine.vector_units)


def _software(machine: Server, engine: str, scheme: WeightScheme) -> tuple[float, float]:
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


def _feeding(machine: Server, rows: int, inner: int, *, reload: bool) -> tuple[float, float]:
    """Cycles in which the L2 and the last-level cache bring a tile's activations to registers.

    A product passes over all activations of a layer again and again. Those that do not stay in
    their part of the L2 come from the last-level cache; software then loads the decompressed tile
    again too. So the papers' kernels, of at most ``FITTED_ROWS`` rows. Rows beyond come in blocks
    of two by two tile registers, of which one operand stays in the L1: half a tile an operation.
    """
    first = min(rows, FITTED_ROWS)
    room = constant("near_activation_bytes") * machine.l2_capacity / PAPER_L2
    far = far_share(first * inner * ACTIVATION_BYTES / room)
    loads = constant("software_loads") if reload else 1.0
    near_bytes, far_bytes = 64 * first * (1 - far), 64 * first * far * loads
    far_bytes += 32 * (rows - first)
    return near_bytes / machine.rate("l2_bandwidth"), far_bytes / machine.rate("llc_bandwidth")


def far_share(size: float) -> float:
    """Return the share of misses of a loop over ``size`` times what a cache has room for.

    A line is replaced at random, so that it outlives the m * size misses of a turn with a
    probability of exp(-m * size), which is 1 - m. Nothing is missed as long as all has room.
    """
    if size <= 1:
        return 0.0
    low, high = 0.0, 1.0  # halved to the one solution between them
    for _ in range(40):
        share = (low + high) / 2
        low, high = (share, high) if 1 - exp(-share * size) > share else (low, share)
    return high


@dataclass(frozen=True, kw_only=True)
class GemmTime:
    """A GEMM on all cores; ``seconds`` is for all its repetitions."""

    gemm: Gemm
    seconds: float
    tile: TileCost

    @property
    def tera_fma(self) -> float:
        return self.gemm.macs / self.seconds / 1e12


def gemm(
    machine: Server,
    engine: str,
    scheme: WeightScheme,
    product: Gemm,
    params: DecaParams = PAPER_DECA,
    *,
    joins: bool = False,
) -> GemmTime:
    """Return the time of a GEMM with weights in ``scheme``, decompressed by ``engine``.

    One that ``joins`` another is a part of its loop: the cores meet once for both.
    """
    cost = tile_cost(machine, engine, scheme, product.rows, inner=product.inner, params=params)
    tile_inner = scheme.tile_weights // TILE_OUTER
    tiles = ceil(product.outer / TILE_OUTER) * ceil(product.inner / tile_inner)
    cycles = ceil(tiles / machine.cores) * cost.cycles
    sync = 0.0 if joins or engine == "optimal" else constant("sync_us") * 1e-6
    seconds = product.count * (cycles / machine.clock + sync)
    return GemmTime(gemm=product, seconds=seconds, tile=cost)
