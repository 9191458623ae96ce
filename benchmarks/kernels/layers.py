"""Layers alone and as in a model: every kernel, and stock PyTorch where it is installed.

Every contestant multiplies with many copies of a layer, so that no weight is still in a cache at
its next turn.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from benchmarks.kernels.contestants import (
    SEED,
    attention,
    copies_of,
    in_model,
    int8_of,
    matrices,
    operator,
    random_weights,
    reading,
    stock,
    stock_attention,
    stock_copies,
)
from benchmarks.kernels.roofs import Roofs, measure_roofs, predict, read_rate
from benchmarks.race import Contestant, Lap, race
from tilewright.golden.deca import CompressedMatrix, compress, resolve_scheme
from tilewright.golden.deca.coding import CompressedTiles
from tilewright.golden.params.sparamx import ElementType, Order, WeightFormat
from tilewright.golden.sparamx import tile_instructions
from tilewright.golden.sparamx.attention import KEY_SPARSITY, VALUE_SPARSITY
from tilewright.golden.sparamx.coded import deca_tile_counts, repeated, tile_counts
from tilewright.golden.sparamx.coded import pack as pack_codes
from tilewright.kernels.attention import Cache
from tilewright.kernels.compressed import CodedMatrix, DecaMatrix
from tilewright.kernels.library import default_threads
from tilewright.kernels.matrix import VECTOR_BATCH, Matrix

REPEATS = 16  # of a compressed matrix below itself: compressing a large one takes long
DENSITIES = (None, 0.5, 0.3, 0.2, 0.1, 0.05)
FORMATS = {
    "sparse bf16": WeightFormat(),
    "dense bf16": WeightFormat(sparse=False),
    "sparse int8": WeightFormat(element=ElementType.INT8),
    "dense int8": WeightFormat(element=ElementType.INT8, sparse=False),
}

Row = dict[str, Any]  # of the record: plain JSON data


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The measurement; shapes are (inputs, outputs) of a layer, sparsity a share of zeros.

    The default is the layers of Llama 3 8B.
    """

    shapes: tuple[tuple[int, int], ...] = ((4096, 4096), (4096, 1024), (4096, 14336), (14336, 4096))
    curve_shape: tuple[int, int] = (4096, 14336)
    sparsities: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    threads: tuple[int, ...]
    schemes: tuple[tuple[str, float | None], ...] = (
        *(("bf16", density) for density in DENSITIES),
        *(("bf8", density) for density in DENSITIES),
        *(("mxfp4", None), ("mxfp4", 0.5)),
    )
    scheme_shape: tuple[int, int] = (4096, 14336)
    cache: tuple[int, int, int, int] = (8, 4, 16384, 128)  # heads, queries of each, tokens, dim
    working_set: int = 960_000_000  # bytes of weights that each contestant goes through, at least
    rounds: int = 7
    attempts: int = 2  # races at most, where rounds scatter
    patience: float = 1.5  # seconds after which a race is not run again

    def race(self, entered: Mapping[str, Contestant]) -> dict[str, Lap]:
        return race(entered, self.rounds, attempts=self.attempts, patience=self.patience)


def full_plan() -> Plan:
    """Llama 3 8B, on one thread to all."""
    most = default_threads()
    return Plan(threads=(*(n for n in (1, 2, 4, 8, 12, 16, 24, 32, 48, 64) if n < most), most))


def quick_plan() -> Plan:
    """Everything once, on toys: shows that it runs, says nothing about speed."""
    return Plan(
        shapes=((96, 40),),
        curve_shape=(64, 32),
        sparsities=(0.0, 0.5),
        batches=(1, 5),
        threads=(1, 2),
        schemes=(("bf16", None), ("bf8", 0.5), ("mxfp4", None)),
        scheme_shape=(64, 32),
        cache=(2, 2, 40, 16),
        working_set=20_000,
        rounds=2,
        attempts=1,
    )


def run(plan: Plan) -> Iterator[tuple[str, Row]]:
    most, size = max(plan.threads), max(plan.working_set, 1 << 16)
    roofs = measure_roofs(most, size, plan.rounds, 1_000_000 if plan.rounds > 2 else 100)
    yield "roofs", {"roofs": asdict(roofs)}
    yield "layers", measure_layers(plan)
    yield "sparsity", {"sparsity": list(measure_sparsities(plan))}
    yield "batch", {"batch": list(measure_batches(plan))}
    yield "threads", {"threads": list(measure_threads(plan))}
    yield "attention", {"attention": measure_attention(plan)}
    yield "roof_surface", {"roof_surface": measure_schemes(plan, roofs)}
    # Once more at the end: whether the machine is unchanged.
    yield "memory", {"read_bytes_at_end": read_rate(most, plan.working_set, plan.rounds)}


class Layer:
    """Copies of one layer in several forms, and in stock PyTorch where that is installed."""

    def __init__(
        self,
        plan: Plan,
        shape: tuple[int, int],
        sparsity: float,
        names: Iterable[str],
        *,
        stock: bool = True,
    ):
        self.plan, self.shape, self.sparsity = plan, shape, sparsity
        weights = random_weights(shape, sparsity)
        self.copies: dict[str, list[Matrix]] = {}
        for name in names:
            is_int8 = FORMATS[name].element is ElementType.INT8
            matrix = Matrix.pack(FORMATS[name], int8_of(weights) if is_int8 else weights)
            self.copies[name] = copies_of(matrix, plan.working_set)
        self.tensors = stock_copies(weights, plan.working_set) if stock else []

    def alone(
        self, batch: int, threads: int, more: Mapping[str, Contestant] | None = None
    ) -> Iterator[Row]:
        """A race with the threads that only read; a row for each contestant."""
        entered = self._entered(batch, threads) | dict(more or {})
        entered["read"] = reading(self.plan.working_set, threads)
        about = (self.shape, batch, self.sparsity, threads)
        return race_rows(self.plan, entered, *about)

    def in_model(self, batch: int, threads: int) -> Iterator[Row]:
        """The same as in a model: a small operator of PyTorch follows each call without a rest.

        The operator's own time, measured in the same rounds, is taken off.
        """
        entered = self._entered(batch, threads)
        running = {name: in_model(c, threads) for name, c in entered.items()}
        running["operator"] = operator(max(len(c.calls) for c in entered.values()), threads)
        about = (self.shape, batch, self.sparsity, threads)
        return race_rows(self.plan, running, *about, between="operator")

    def _entered(self, batch: int, threads: int) -> dict[str, Contestant]:
        entered = {name: matrices(c, batch, threads) for name, c in self.copies.items()}
        if self.tensors:
            entered["stock bf16"] = stock(self.tensors, batch, threads)
        return entered


def race_rows(
    plan: Plan,
    entered: Mapping[str, Contestant],
    shape: tuple[int, int],
    batch: int,
    sparsity: float | None,
    threads: int,
    *,
    between: str | None = None,
) -> Iterator[Row]:
    """A race with a row for each contestant; the time of the one ``between`` is taken off."""
    laps = plan.race(entered)
    off = laps.pop(between).seconds if between is not None else 0.0
    for name, lap in laps.items():
        yield {
            "kernel": name,
            "inputs": shape[0],
            "outputs": shape[1],
            "batch": batch,
            "sparsity": sparsity,
            "threads": threads,
            "seconds": lap.seconds - off,
            "scatter": lap.scatter,
            "bytes": entered[name].size,
            "copies": len(entered[name].calls),
            "bytes_per_second": entered[name].size / (lap.seconds - off),
        }


def measure_layers(plan: Plan) -> Row:
    """Layers at 50% zeros, batch 1, 16 and 32: every kernel we have, and stock PyTorch."""
    threads = max(plan.threads)
    alone: list[Row] = []
    modelled: list[Row] = []
    for shape in plan.shapes:
        layer = Layer(plan, shape, 0.5, FORMATS)
        for batch in [b for b in (1, 16, 32) if b <= max(plan.batches)]:
            alone += layer.alone(batch, threads)
            if layer.tensors:
                modelled += layer.in_model(batch, threads)
    return {"layers": alone, "in_model": modelled}


def measure_sparsities(plan: Plan) -> Iterator[Row]:
    """Sparse kernels along the share of zeros; at the first also dense bf16 and stock PyTorch."""
    for sparsity in plan.sparsities:
        first = sparsity == plan.sparsities[0]
        names = ("sparse bf16", "sparse int8", *(("dense bf16",) if first else ()))
        layer = Layer(plan, plan.curve_shape, sparsity, names, stock=first)
        yield from layer.alone(1, max(plan.threads))


def measure_batches(plan: Plan) -> Iterator[Row]:
    """Both orders of the sparse kernel, the dense one and stock PyTorch."""
    threads = max(plan.threads)
    layer = Layer(plan, plan.curve_shape, 0.5, ("sparse bf16", "dense bf16"))
    for batch in plan.batches:
        order = Order.TILE if batch <= VECTOR_BATCH else Order.VECTOR
        other = matrices(layer.copies["sparse bf16"], batch, threads, order)
        yield from layer.alone(batch, threads, {"sparse bf16, other order": other})


def measure_threads(plan: Plan) -> Iterator[Row]:
    """Sparse and dense kernels and stock PyTorch on one thread to all."""
    layer = Layer(plan, plan.curve_shape, 0.5, ("sparse bf16", "dense bf16"))
    for threads in plan.threads:
        yield from layer.alone(1, threads)


def measure_attention(plan: Plan) -> list[Row]:
    """One layer's attention for one token: keys and values pruned or dense, and stock PyTorch."""
    (heads, queries, tokens, dim), threads = plan.cache, max(plan.threads)
    keys, values = np.random.default_rng(SEED).standard_normal((2, heads, tokens, dim), np.float32)
    shares = {"pruned": (KEY_SPARSITY, VALUE_SPARSITY), "dense": (0.0, 0.0)}
    entered = {}
    for name, (key_share, value_share) in shares.items():
        make = partial(Cache, keys, values, key_sparsity=key_share, value_sparsity=value_share)
        caches = [make()]
        caches += [make() for _ in range(-(-plan.working_set // caches[0].size) - 1)]
        entered[name] = attention(caches, queries, threads)
    entered["read"] = reading(plan.working_set, threads)
    theirs = stock_attention(plan.cache, plan.working_set, threads)
    if theirs is not None:
        entered["stock"] = theirs
    return list(race_rows(plan, entered, (dim, tokens), queries, None, threads))


# --- the Roof-Surface


class Surface(NamedTuple):
    contestant: Contestant
    counts: Counter[str]
    reload: str | None  # how its tiles reach the matrix unit, if they do
    loads: float  # of a tile, besides those in the counts


def measure_schemes(plan: Plan, roofs: Roofs) -> list[Row]:
    """Tiles per second of every scheme at batch 1, measured and predicted, by every kernel."""
    if not roofs.instructions or roofs.matrix is None:
        return []
    rows: list[Row] = []
    for name, density in plan.schemes:
        rows += _surface_rows(
            plan, roofs, name, density, _decompressing(plan, roofs, name, density)
        )
    for density in [d for name, d in plan.schemes if name == "bf16" and d is not None]:
        layer = Layer(plan, plan.scheme_shape, 1 - density, ("sparse bf16",), stock=False)
        copies = layer.copies["sparse bf16"]
        entered = {
            f"SparAMX, {order.value} order": Surface(
                matrices(copies, 1, roofs.threads, order),
                tile_instructions(WeightFormat(), order),
                "one_row" if order is Order.TILE else None,
                # Masks; in registers also activations and a prefetch with every row.
                16 if order is Order.TILE else 48,
            )
            for order in Order
        }
        rows += _surface_rows(plan, roofs, "bf16", density, entered)
    return rows


def _decompressing(
    plan: Plan, roofs: Roofs, name: str, density: float | None
) -> dict[str, Surface]:
    """Kernels for a scheme of DECA: its tiles in software, and look-ups where codes are short."""
    inputs, outputs = plan.scheme_shape
    times = REPEATS if outputs % (16 * REPEATS) == 0 else 1
    dense = np.random.default_rng(SEED).standard_normal((outputs // times, inputs), np.float32)
    part = compress(dense, resolve_scheme(name), density)
    tiles = CompressedTiles.join([part.tiles] * times)
    matrix = DecaMatrix(CompressedMatrix(part.scheme, (outputs, inputs), tiles))
    config = part.scheme.config
    # A mask for each row, a scale for each row, and a line of each stream ahead.
    loads = 16 * config.sparse + 16 * bool(config.scale_bytes)
    contestant = matrices(copies_of(matrix, plan.working_set), 1, roofs.threads)
    instructions = deca_tile_counts(config)
    entered = {"DECA tiles": Surface(contestant, instructions, "from_l2", loads)}
    if config.code_bits <= 8:
        coded = pack_codes(part)
        copies = copies_of(CodedMatrix(repeated(coded, times)), plan.working_set)
        for order in Order:
            tile = order is Order.TILE
            entered[f"look-up, {order.value} order"] = Surface(
                matrices(copies, 1, roofs.threads, order),
                tile_counts(coded, order),
                "one_row" if tile else None,
                8 * config.sparse + 16 * (not tile),  # masks of pairs of rows, activations
            )
    return entered


def _surface_rows(
    plan: Plan, roofs: Roofs, name: str, density: float | None, kernels: Mapping[str, Surface]
) -> Iterator[Row]:
    entered = {label: kernel.contestant for label, kernel in kernels.items()}
    entered["read"] = reading(plan.working_set, roofs.threads)
    laps = plan.race(entered)
    # Bandwidth of the moment: on a shared machine that changes from minute to minute.
    roofs = replace(roofs, read_bytes=plan.working_set / laps["read"].seconds)
    inputs, outputs = plan.scheme_shape
    tiles = -(-outputs // 16) * -(-inputs // 32)
    for label, kernel in kernels.items():
        yield {"scheme": name, "density": density, "kernel": label} | _surface_row(
            roofs, kernel, tiles, laps[label]
        )


def _surface_row(roofs: Roofs, kernel: Surface, tiles: int, lap: Lap) -> Row:
    tile_bytes = kernel.contestant.size / tiles
    flat = predict(roofs, tile_bytes, kernel.counts, weighted=False)
    model = partial(predict, roofs, tile_bytes, kernel.counts, weighted=True, reload=kernel.reload)
    with_prefetches = kernel.loads + tile_bytes / 64
    weighted = model(loads=with_prefetches, call_tiles=tiles)
    core = model(loads=with_prefetches)  # without a call's start and end
    return {
        "tile_bytes": tile_bytes,
        "read_bytes_per_second": roofs.read_bytes,
        "instructions": dict(kernel.counts),
        "reload": kernel.reload,
        "loads": kernel.loads,
        "tiles_per_second": tiles / lap.seconds,
        "scatter": lap.scatter,
        "predicted_flat": flat.rate,
        "bound_flat": flat.bound,
        "predicted": weighted.rate,
        "bound": weighted.bound,
        "vector": core.vector if isfinite(core.vector) else None,
        "reload_rate": core.reload if kernel.reload else None,
    }
