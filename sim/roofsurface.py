"""The Roof-Surface model: a kernel runs as fast as the slowest of the domains it needs.

Equations 1 to 3 of the DECA paper. A domain has a rate (its operations a second, or bytes for
memory) and a kernel has an intensity for it (target operations per operation of the domain). The
target operation of a compressed product is the multiplication of one weight tile; the domains are
memory (MEM), vector (VEC) and matrix (MTX). Everything works on arrays, without loops.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, isfinite
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.params.block import require
from tilewright.golden.params.deca import DecaParams
from tilewright.sim.accelerator import Accelerator
from tilewright.sim.scheme import WeightScheme
from tilewright.sim.system import Server
from tilewright.sim.xeon import ROWS_PER_TILE, deca_cycles, vector_operations

DOMAINS = ("MEM", "VEC", "MTX")
TILE_FMA = 512  # multiply-adds of a matrix operation for each row of activations
LANES = (8, 16, 32, 64)
TABLES = (1, 2, 4, 8, 16, 32, 64)
# A tie between two bounds counts as no bound by either within this share: W = 32 meets the matrix
# unit's 16 cycles exactly but for a few bubbles in a million.
TIE = 1e-3


@dataclass(frozen=True)
class Kernel:
    """A compressed product: matrix operations per byte and per vector operation."""

    name: str
    memory: float  # AI_XM
    vector: float  # AI_XV


@dataclass(frozen=True, kw_only=True)
class Surface:
    """A machine: bytes, vector and matrix operations a second."""

    memory: float  # MBW
    vector: float  # VOS
    matrix: float  # MOS

    @classmethod
    def of_cores(cls, machine: Server, bandwidth: float | None = None) -> Self:
        """Decompression by the cores' vector units."""
        memory = machine.bandwidth if bandwidth is None else bandwidth
        return cls(memory=memory, vector=machine.vector_rate, matrix=machine.matrix_rate)

    @classmethod
    def of_deca(cls, machine: Server) -> Self:
        """Decompression by one DECA per core, at most one vector operation a cycle each."""
        return cls(
            memory=machine.bandwidth,
            vector=machine.cores * machine.clock / machine.deca_clocks,
            matrix=machine.matrix_rate,
        )

    def scaled(self, *, vector: float) -> Self:
        return replace(self, vector=self.vector * vector)

    def tiles(self, memory: ArrayLike, vector: ArrayLike) -> NDArray[np.float64]:
        """Tiles a second of kernels with these intensities (equation 1)."""
        by_vector = self.vector * np.asarray(vector, np.float64)
        return np.minimum(
            np.minimum(self.memory * np.asarray(memory, np.float64), by_vector), self.matrix
        )

    def fma(self, memory: ArrayLike, vector: ArrayLike, rows: int) -> NDArray[np.float64]:
        """Multiply-adds a second for ``rows`` rows of activations (equation 2)."""
        return TILE_FMA * min(rows, ROWS_PER_TILE) * self.tiles(memory, vector)

    def roofline(self, memory: ArrayLike, rows: int) -> NDArray[np.float64]:
        """Multiply-adds a second where decompression costs nothing."""
        return self.fma(memory, np.inf, rows)

    def bound(self, point: Kernel) -> str:
        """The region of one kernel; not VEC where VEC ties with another."""
        memory, vector = self.memory * point.memory, self.vector * point.vector
        if vector < min(memory, self.matrix) * (1 - TIE):
            return "VEC"
        return "MEM" if memory < self.matrix else "MTX"

    @property
    def borders(self) -> dict[str, float]:
        """Borders of the diagram: slope of MEM to VEC, x of MEM to MTX, y of VEC to MTX."""
        return {
            "mem_vec_slope": self.memory / self.vector,
            "mem_mtx_x": self.matrix / self.memory,
            "vec_mtx_y": self.matrix / self.vector,
        }


def kernel(scheme: WeightScheme, rows: int = 1, params: DecaParams | None = None) -> Kernel:
    """Intensities of a product in ``scheme``; by software, or by a DECA with ``params``.

    More rows than one matrix operation takes use every decompressed tile again.
    """
    uses = ceil(rows / ROWS_PER_TILE)
    operations = vector_operations(scheme) if params is None else deca_cycles(params, scheme)
    vector = uses / operations if operations else float("inf")
    return Kernel(scheme.name, uses / scheme.tile_bytes, vector)


@dataclass(frozen=True, kw_only=True)
class KernelResult:
    """One kernel on a surface: intensities, rate and bound."""

    scheme: str
    matrix_ops_per_byte: float
    matrix_ops_per_vector_op: float | None  # none where nothing is decompressed
    macs_per_byte: float  # of weights, for all rows
    tera_fma_per_second: float
    roofline_tera_fma_per_second: float  # where decompression costs nothing
    bound: str  # one of DOMAINS


@dataclass(frozen=True, kw_only=True)
class ArrayResult:
    """An accelerator on the same products: its PEs take weights as they are stored.

    So there is no vector domain, and the matrix domain is its array, of which a batch that fills no
    whole rows of PEs uses a part.
    """

    system: str
    macs_per_byte: float  # of weights
    bytes_per_second: float  # of its memory
    peak_tera_fma_per_second: float
    tera_fma_per_second: float
    roofline_tera_fma_per_second: float  # where all of the array works
    bound: str  # MEM or MTX


@dataclass(frozen=True, kw_only=True)
class Diagram:
    """A bounding region diagram: its borders, the kernels in it, and accelerators beside them."""

    borders: dict[str, float]
    kernels: tuple[KernelResult, ...]
    accelerators: tuple[ArrayResult, ...] = ()


def on_array(machine: Accelerator, rows: int = 16) -> ArrayResult:
    """Return the rate of large products with ``rows`` rows of activations on an accelerator."""
    per_byte = 8 * rows / machine.weight_bits
    memory, peak = machine.bandwidth * per_byte, machine.mac_rate * machine.clock
    matrix = peak * rows / (ceil(rows / machine.rows) * machine.rows)
    return ArrayResult(
        system=machine.name,
        macs_per_byte=per_byte,
        bytes_per_second=machine.bandwidth,
        peak_tera_fma_per_second=peak / 1e12,
        tera_fma_per_second=min(memory, matrix) / 1e12,
        roofline_tera_fma_per_second=min(memory, peak) / 1e12,
        bound="MEM" if memory < matrix else "MTX",
    )


def diagram(
    machine: Server,
    schemes: Sequence[WeightScheme],
    *,
    rows: int = 16,
    vectors: float = 1.0,
    params: DecaParams | None = None,
    beside: Sequence[Accelerator] = (),
) -> Diagram:
    """Return the diagram of a machine with ``vectors`` times its vector units.

    Decompression is by the cores, or by a DECA with ``params``.
    """
    require(1 <= rows <= 1 << 20, f"rows must be 1..{1 << 20}, not {rows!r}")
    require(vectors > 0, f"vectors must be above 0, not {vectors!r}")
    surface = Surface.of_cores(machine) if params is None else Surface.of_deca(machine)
    surface = surface.scaled(vector=vectors)
    kernels = []
    for scheme in schemes:
        point = kernel(scheme, rows, params)
        found = KernelResult(
            scheme=point.name,
            matrix_ops_per_byte=point.memory,
            matrix_ops_per_vector_op=point.vector if isfinite(point.vector) else None,
            macs_per_byte=rows * TILE_FMA / scheme.tile_bytes,
            tera_fma_per_second=float(surface.fma(point.memory, point.vector, rows)) / 1e12,
            roofline_tera_fma_per_second=float(surface.roofline(point.memory, rows)) / 1e12,
            bound=surface.bound(point),
        )
        kernels.append(found)
    arrays = tuple(on_array(accelerator, rows) for accelerator in beside)
    return Diagram(borders=surface.borders, kernels=tuple(kernels), accelerators=arrays)


@dataclass(frozen=True, kw_only=True)
class Design:
    """A DECA size and the kernels that it leaves vector-bound."""

    lanes: int
    luts: int
    vector_bound: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """Every size of a DECA, from the smallest up, and the first that leaves no kernel bound."""

    smallest: Design
    designs: tuple[Design, ...]


def explore(
    machine: Server,
    schemes: Sequence[WeightScheme],
    lanes: Sequence[int] = LANES,
    luts: Sequence[int] = TABLES,
) -> Exploration:
    """Return all designs, fewest lanes first; L is at most W."""
    require(len(schemes) > 0, "at least one scheme is needed to explore designs")
    surface = Surface.of_deca(machine)
    designs = []
    for wide, tables in product(lanes, luts):
        if tables <= wide:
            params = DecaParams(lanes=wide, luts=tables)
            points = [kernel(scheme, params=params) for scheme in schemes]
            bound = tuple(point.name for point in points if surface.bound(point) == "VEC")
            designs.append(Design(lanes=wide, luts=tables, vector_bound=bound))
    free = [design for design in designs if not design.vector_bound]
    require(bool(free), "every design leaves a kernel vector-bound")
    return Exploration(smallest=free[0], designs=tuple(designs))
