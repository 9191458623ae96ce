"""GEMMs with compressed weights: simulated DECA gives the tiles, golden AMX multiplies.

A matrix, or each projection of a real decoder layer, is packed as a core would lay it out, its
tiles stream through both loaders of the PE, and the GEMM on their output is compared with golden's,
bit for bit.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

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
from tilewright.golden.llm.block import Module
from tilewright.golden.params.block import Limited, at_least, require, within
from tilewright.golden.params.deca import DecaParams
from tilewright.golden.params.formats import BF16
from tilewright.golden.params.resolve import resolve_as
from tilewright.studies.runs.machine_layer import MODEL, read_layer, run_parts
from tilewright.studies.runs.simulation import DEFAULT, Simulation, resolve_block

BENCH = "tilewright.verify.deca.gemm"
BASE = 1 << 32  # of the matrix in memory; nothing depends on it
TOKENS = 16  # columns of a matrix unit's tile


@dataclass(frozen=True)
class DecaMemory(Limited):
    """The memory that the simulated PE reads from, and how far ahead it prefetches."""

    latency: Annotated[int, at_least(1)] = 100  # cycles
    prefetch: Annotated[int, within(0, DecaParams.max_prefetch_degree)] = 8  # tiles ahead
    near: Annotated[int, at_least(1)] = 14  # cycles of a prefetched line


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
    memory: DecaMemory = MEMORY,
    simulation: Simulation = DEFAULT,
) -> GemmRun:
    """Multiply ``m`` rows of ``k`` compressed weights with ``n`` vectors on the simulated PE.

    Weights and activations are random, the weights heavy-tailed as those of language models are.
    ``scheme`` and ``density`` are those of ``tilewright pack``.
    """
    resolve_block(block, "deca", "deca.gemm")
    for name, value in (("m", m), ("k", k), ("n", n)):
        require(value >= 1, f"{name} must be at least 1, not {value}")
    rng = np.random.default_rng(simulation.seed)
    weights = (0.02 * rng.standard_t(4, (m, k))).astype(np.float32)
    matrix = compress(weights, resolve_scheme(scheme), density)
    if matrix.scheme.config.int8:
        activations: NDArray[Any] = rng.integers(-128, 128, (k, n)).astype(np.int8)
    else:
        activations = encode(BF16, rng.normal(0, 1, (k, n)))
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
    tiles, found = _stream(block, matrix, memory, simulation)
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
        cycles_per_tile=found["cycles"] / len(matrix.tiles),
        vector_operations_per_tile=float(cycles.vector_operations.mean()),
        bubbles_per_tile=float(cycles.bubbles.mean()),
        **found,
        density=density,
    )


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
    return tiles.view(np.uint8 if config.int8 else np.dtype("<u2")), numbers["gemm"]


@dataclass(frozen=True, kw_only=True)
class ProjectionRun(GemmRun):
    """One projection of the layer in one scheme."""

    matrix: str


@dataclass(frozen=True)
class DecaLayerRun:
    """All projections of a decoder layer on DECA."""

    block: str
    model: str
    layer: int
    equal: bool  # whether every GEMM equals golden's
    matrices: tuple[ProjectionRun, ...]


def layer_on_deca(
    block: str = "deca",
    *,
    model: str = MODEL,
    layer: int = 0,
    schemes: Sequence[str] = ("mxfp4", "bf8@0.5"),
    memory: DecaMemory = MEMORY,
    simulation: Simulation = DEFAULT,
) -> DecaLayerRun:
    """Run every projection of decoder layer ``layer`` of ``model`` in each of the schemes.

    A scheme is one of ``tilewright pack``, with ``@`` and the share of weights that are stored.
    """
    params = resolve_block(block, "deca", "deca.layer")
    wanted = [_parse_scheme(text) for text in schemes]
    modules = read_layer(model, layer, TOKENS, seed=simulation.seed)

    def run(module: Module, name: str, scheme: str, density: float | None) -> ProjectionRun:
        matrix = compress(module.weights[name], resolve_scheme(scheme), density)
        if matrix.scheme.config.int8:
            raise CommandError(f"{scheme}: the activations of a language model are no int8")
        activations = encode(BF16, module.activations.view(np.float16).T.astype(np.float64))
        found = run_matrix(
            block, matrix, activations, density=density, memory=memory, simulation=simulation
        )
        return ProjectionRun(**vars(found), matrix=name)

    parts = (
        (f"{name} in {scheme}", partial(run, module, name, scheme, density))
        for scheme, density in wanted
        for module in modules.values()
        for name in module.weights
    )
    runs = run_parts("deca.layer", parts)
    return DecaLayerRun(params.slug, model, layer, all(run.equal for run in runs), runs)


def _parse_scheme(text: str) -> tuple[str, float | None]:
    name, _, share = text.partition("@")
    try:
        return name, float(share) if share else None
    except ValueError:
        raise CommandError(f"a density is a number such as 0.5, not {share!r}") from None
