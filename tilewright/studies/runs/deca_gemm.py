"""A GEMM with compressed weights: simulated DECA gives the tiles, golden AMX multiplies.

The matrix is packed as a core would lay it out, its tiles stream through both loaders of the PE,
and the GEMM on their output is compared with golden's, bit for bit.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.console import progress
from tilewright.base.errors import CommandError
from tilewright.golden.bits import encode
from tilewright.golden.deca import (
    CompressedMatrix,
    compress,
    gemm,
    gemm_of_tiles,
    lay_out,
    resolve_scheme,
    tile_cycles,
)
from tilewright.golden.deca.coding import decode_tiles
from tilewright.golden.deca.packed import as_matrix
from tilewright.golden.params.deca import DecaParams
from tilewright.golden.params.formats import BF16
from tilewright.golden.params.resolve import resolve, resolve_as
from tilewright.studies.model_files import open_model
from tilewright.studies.runs.simulation import DEFAULT, Simulation

BENCH = "tilewright.verify.deca.gemm"
BASE = 1 << 32  # of the matrix in memory; nothing depends on it


def _require_positive(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")


@dataclass(frozen=True)
class DecaMemory:
    """The memory that the simulated PE reads from, and how far ahead it prefetches."""

    latency: int = 100  # cycles
    prefetch: int = 8  # tiles ahead
    near: int = 14  # cycles of a prefetched line

    def __post_init__(self) -> None:
        for name in ("latency", "near"):
            _require_positive(name, getattr(self, name))
        if not 0 <= self.prefetch <= 15:
            raise ValueError(f"prefetch must be 0..15, not {self.prefetch}")


MEMORY = DecaMemory()


@dataclass(frozen=True)
class GemmRun:
    """A compressed matrix that went through the simulated PE, and the GEMM on its output."""

    block: str
    scheme: str
    shape: tuple[int, int, int]  # rows and columns of the weights, activation vectors
    tiles: int
    bytes: int  # of the compressed matrix
    equal: bool  # whether the GEMM equals golden's
    wrong: int  # how many of its values do not
    cycles: int
    cycles_per_tile: float
    vector_operations_per_tile: float
    bubbles_per_tile: float
    lines_read: int
    lines_prefetched: int
    prefetch_accuracy: float | None  # share of prefetched lines that were read later
    read_after_prefetch: float | None  # share of reads that found a prefetched line
    density: float | None  # that was asked for


def gemm_on_deca(
    block: str = "deca",
    *,
    m: int = 256,
    k: int = 1024,
    n: int = 16,
    scheme: str = "bf8",
    density: float | None = None,
    weights: NDArray[np.float32] | None = None,
    memory: DecaMemory = MEMORY,
    simulation: Simulation = DEFAULT,
) -> GemmRun:
    """Multiply compressed weights with ``n`` random activation vectors on the simulated PE.

    ``weights`` are by default ``m`` rows of ``k`` random ones, heavy-tailed as those of language
    models are. ``scheme`` and ``density`` are those of ``tilewright pack``.
    """
    params = resolve(block)
    if type(params) is not DecaParams:
        raise CommandError(f"deca.gemm runs on a block deca, not {params.block}")
    for name, value in (("m", m), ("k", k), ("n", n)):
        _require_positive(name, value)
    rng = np.random.default_rng(simulation.seed)
    if weights is None:
        weights = (0.02 * rng.standard_t(4, (m, k))).astype(np.float32)
    matrix = compress(weights, resolve_scheme(scheme), density)
    activations = _random_activations(matrix.scheme.config.int8, (matrix.shape[1], n), rng)
    with progress("deca.gemm") as tick:
        tick("simulation", steps=0)
        found = run_matrix(
            block, matrix, activations, density=density, memory=memory, simulation=simulation
        )
        tick()
    return found


def run_matrix(
    block: str,
    matrix: CompressedMatrix,
    activations: NDArray[Any],
    *,
    density: float | None = None,
    memory: DecaMemory = MEMORY,
    simulation: Simulation = DEFAULT,
) -> GemmRun:
    """Stream ``matrix`` through the PE and multiply its output with (columns, N) activations.

    ``density`` is only noted in the result.
    """
    params, config = resolve_as(DecaParams, block), matrix.scheme.config
    if not params.supports(config):
        raise CommandError(f"{params.slug} cannot scale groups of {config.group} elements")
    tiles, numbers = _stream(block, matrix, memory, simulation)
    got = gemm_of_tiles(config, matrix.shape, tiles, activations)
    want = gemm(matrix, activations)
    cycles = tile_cycles(params, config, decode_tiles(matrix.tiles).mask)
    rows, columns = matrix.shape
    return GemmRun(
        block=params.slug,
        scheme=matrix.scheme.name,
        shape=(rows, columns, activations.shape[1]),
        tiles=len(matrix.tiles),
        bytes=matrix.tiles.size,
        equal=bool(np.array_equal(got, want)),
        wrong=int(np.count_nonzero(got != want)),
        cycles=numbers["gemm_cycles"],
        cycles_per_tile=numbers["gemm_cycles"] / len(matrix.tiles),
        vector_operations_per_tile=float(cycles.vector_operations.mean()),
        bubbles_per_tile=float(cycles.bubbles.mean()),
        lines_read=numbers["lines_read"],
        lines_prefetched=numbers["lines_prefetched"],
        prefetch_accuracy=_share(numbers["prefetched_and_read"], numbers["lines_prefetched"]),
        read_after_prefetch=_share(numbers["read_near"], numbers["lines_read"]),
        density=density,
    )


def read_weights(model: str, tensor: str | None = None) -> NDArray[np.float32]:
    """Return the matrix ``tensor`` of a model as of ``tilewright pack``, or its only matrix."""
    with open_model(model) as tensors:
        matrices = [t.name for t in tensors.values() if t.rows is not None]
        if tensor is None and len(matrices) != 1:
            raise CommandError(f"{model} has {len(matrices)} matrices: choose one with --tensor")
        name = tensor or matrices[0]
        if name not in matrices:
            raise CommandError(f"{model} has no matrix {name!r}; it has {', '.join(matrices)}")
        read_rows = tensors[name].rows
        assert read_rows is not None
        return read_rows(0, as_matrix(tensors[name].shape)[0])


def _random_activations(
    int8: bool, shape: tuple[int, int], rng: np.random.Generator
) -> NDArray[Any]:
    if int8:
        return rng.integers(-128, 128, shape).astype(np.int8)
    return encode(BF16, rng.normal(0, 1, shape))


def _stream(
    block: str, matrix: CompressedMatrix, memory: DecaMemory, simulation: Simulation
) -> tuple[NDArray[Any], dict[str, Any]]:
    """Return the tiles as the simulated PE gives them, and the numbers of its run."""
    image = lay_out(matrix.tiles, BASE)
    config = matrix.scheme.config
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
        folder = Path(name)
        arrays: dict[str, Any] = {
            "base": image.base,
            "content": image.content,
            "config": config.encode(),
            "lut": matrix.scheme.lut_image(),
            **image.commands,
        }
        np.savez(folder / "matrix.npz", **arrays)
        task = {"folder": name, **vars(memory)}
        numbers = simulation.run(block, BENCH, cases=len(image), stalls=(0.0,), task=task)
        tiles = np.load(folder / "tiles.npy")
    return tiles.view(np.uint8 if config.int8 else np.dtype("<u2")), numbers


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
