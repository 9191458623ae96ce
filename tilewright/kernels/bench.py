"""Speed of the kernels on this machine, beside stock PyTorch where it is installed.

Every contestant multiplies with many copies of a layer, one after the other, so that no weight is
still in a cache when its turn comes again. Contestants take turns round by round, so that a busy
moment of the machine hits all of them; a result is the median of the rounds.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca import compress, resolve_scheme
from tilewright.golden.params.sparamx import ElementType, Order, WeightFormat
from tilewright.golden.sparamx import tile_instructions
from tilewright.golden.sparamx.attention import KEY_SPARSITY, VALUE_SPARSITY
from tilewright.golden.sparamx.software_deca import tile_instructions as deca_instructions
from tilewright.kernels.contestants import (
    SEED,
    Attention,
    Contestant,
    Ours,
    Read,
    copies_of,
    int8_of,
    pack_copies,
    random_weights,
    stock_copies,
)
from tilewright.kernels.deca import DecaMatrix
from tilewright.kernels.machine import describe_machine
from tilewright.kernels.matrix import VECTOR_BATCH, Matrix
from tilewright.kernels.plan import Plan
from tilewright.kernels.race import Lap, race
from tilewright.kernels.roofs import Roofs, measure_roofs, median_rate, predict, read_rate

__all__ = ["rounded", "run", "steps"]

Progress = Callable[[str], None]
Row = dict[str, Any]  # of the record: plain JSON data


def steps(plan: Plan) -> int:
    """How often :func:`run` reports progress."""
    return 6 + len(plan.shapes) + len(plan.sparsities)


def run(plan: Plan, progress: Progress = lambda text: None) -> dict[str, Any]:
    """Measure everything that ``plan`` asks for, as plain JSON data.

    ``progress`` is told what comes next, :func:`steps` times.
    """
    most = max(plan.threads)
    progress("roofs")
    roofs = measure_roofs(
        most, max(plan.working_set, 1 << 16), plan.rounds, 2_000_000 if plan.rounds > 2 else 100
    )
    record: dict[str, Any] = {
        "machine": asdict(describe_machine()),
        "plan": asdict(plan),
        "roofs": roofs.as_dict(),
    }
    progress("packing")
    record["packing"] = measure_packing(plan, most)
    record["layers"] = []
    for shape in plan.shapes:
        progress(f"layer {shape[0]}x{shape[1]}")
        record["layers"] += measure_layer(plan, shape, most)
    record["sparsity"] = []
    for sparsity in plan.sparsities:
        progress(f"{sparsity:.0%} zeros")
        record["sparsity"] += measure_sparsity(plan, sparsity, most)
    progress("batches")
    record["batch"] = measure_batches(plan, most)
    progress("threads")
    record["threads"] = measure_threads(plan)
    progress("attention")
    record["attention"] = measure_attention(plan, most)
    progress("Roof-Surface")
    record["roof_surface"] = measure_schemes(plan, roofs)
    # Once more at the end: whether the machine has stayed what it was.
    record["read_bytes_at_end"] = read_rate(most, max(plan.working_set, 1 << 16), plan.rounds)
    return rounded(record)


def rounded(data: Any) -> Any:
    """The same data with five digits of every float: more than any of them is worth."""
    if isinstance(data, dict):
        return {key: rounded(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [rounded(value) for value in data]
    return float(f"{data:.5g}") if isinstance(data, float) else data


# --- what is measured


def measure_packing(plan: Plan, threads: int) -> list[Row]:
    """Seconds to pack one layer, half of its weights zero, from float32 and from int8."""
    weights = random_weights(plan.curve_shape, 0.5)
    sources: dict[ElementType, NDArray] = {
        ElementType.BF16: (weights.astype(np.uint32) << 16).view(np.float32),
        ElementType.INT8: int8_of(weights),
    }
    rows = []
    for element, source in sources.items():
        fmt = WeightFormat(element=element)
        pack = lambda: Matrix.pack(fmt, source, threads=threads)  # noqa: B023, E731
        seconds = 1 / median_rate(1, pack, min(plan.rounds, 5))
        inputs, outputs = plan.curve_shape
        about = {"inputs": inputs, "outputs": outputs, "threads": threads}
        rows.append({"element": element.value, **about, "seconds": seconds})
    return rows


def measure_layer(plan: Plan, shape: tuple[int, int], threads: int) -> list[Row]:
    """One layer at 50% zeros, batch 1, 16 and 32: every kernel we have, and stock PyTorch."""
    weights = random_weights(shape, 0.5)
    bf16, int8 = WeightFormat(), WeightFormat(element=ElementType.INT8)
    makers: dict[str, Callable[[], Contestant]] = {
        "sparse bf16": lambda: pack_copies(plan, bf16, weights, threads),
        "dense bf16": lambda: pack_copies(plan, WeightFormat(sparse=False), weights, threads),
        "sparse int8": lambda: pack_copies(plan, int8, int8_of(weights), threads),
        "dense int8": lambda: pack_copies(
            plan, WeightFormat(element=ElementType.INT8, sparse=False), int8_of(weights), threads
        ),
    }
    stock = stock_copies(plan, weights, threads)
    contestants = {name: make() for name, make in makers.items()}
    contestants["read"] = Read(plan.working_set, threads)
    if stock:
        contestants["stock bf16"] = stock
    rows = []
    for batch in [b for b in (1, 16, 32) if b <= max(plan.batches)]:
        for name, lap in race(plan, contestants, batch).items():
            rows.append(_row(contestants[name], name, shape, batch, 0.5, threads, lap))
    return rows


def measure_sparsity(plan: Plan, sparsity: float, threads: int) -> list[Row]:
    """Sparse kernels at one sparsity; at the first one also dense ones and stock PyTorch."""
    weights = random_weights(plan.curve_shape, sparsity)
    contestants = {
        "sparse bf16": pack_copies(plan, WeightFormat(), weights, threads),
        "sparse int8": pack_copies(
            plan, WeightFormat(element=ElementType.INT8), int8_of(weights), threads
        ),
        "read": Read(plan.working_set, threads),
    }
    if sparsity == plan.sparsities[0]:
        contestants["dense bf16"] = pack_copies(plan, WeightFormat(sparse=False), weights, threads)
        stock = stock_copies(plan, weights, threads)
        if stock:
            contestants["stock bf16"] = stock
    times = race(plan, contestants, 1)
    return [
        _row(contestants[name], name, plan.curve_shape, 1, sparsity, threads, lap)
        for name, lap in times.items()
    ]


def measure_batches(plan: Plan, threads: int) -> list[Row]:
    """Both orders of the sparse kernel, the dense one and stock PyTorch."""
    weights, rows = random_weights(plan.curve_shape, 0.5), []
    contestants = {
        "sparse bf16": pack_copies(plan, WeightFormat(), weights, threads),
        "dense bf16": pack_copies(plan, WeightFormat(sparse=False), weights, threads),
        "read": Read(plan.working_set, threads),
    }
    tiles = contestants["sparse bf16"].with_order(Order.TILE)
    vectors = contestants["sparse bf16"].with_order(Order.VECTOR)
    stock = stock_copies(plan, weights, threads)
    if stock:
        contestants["stock bf16"] = stock
    for batch in plan.batches:
        entered = dict(contestants)
        other = tiles if batch <= VECTOR_BATCH else vectors
        entered["sparse bf16, other order"] = other
        for name, lap in race(plan, entered, batch).items():
            rows.append(_row(entered[name], name, plan.curve_shape, batch, 0.5, threads, lap))
    return rows


def measure_threads(plan: Plan) -> list[Row]:
    """Sparse and dense kernels and stock PyTorch on one thread to all."""
    weights, rows = random_weights(plan.curve_shape, 0.5), []
    sparse = pack_copies(plan, WeightFormat(), weights, 1)
    dense = pack_copies(plan, WeightFormat(sparse=False), weights, 1)
    stock = stock_copies(plan, weights, 1)
    read = Read(plan.working_set, 1)
    for threads in plan.threads:
        contestants = {
            "sparse bf16": sparse.with_threads(threads),
            "dense bf16": dense.with_threads(threads),
            "read": read.with_threads(threads),
        }
        if stock:
            contestants["stock bf16"] = stock.with_threads(threads)
        for name, lap in race(plan, contestants, 1).items():
            row = _row(contestants[name], name, plan.curve_shape, 1, 0.5, threads, lap)
            rows.append(row)
    return rows


def measure_attention(plan: Plan, threads: int) -> list[Row]:
    """The two GEMMs of one layer's attention for one token, keys and values pruned or dense.

    Without the softmax between them, which is the same for both.
    """
    heads, queries, tokens, dim = plan.cache
    contestants: dict[str, Contestant] = {}
    for name, sparsity in (("pruned", (KEY_SPARSITY, VALUE_SPARSITY)), ("dense", (0.0, 0.0))):
        fmt = WeightFormat(sparse=name == "pruned")
        wanted = ((dim, tokens), sparsity[0]), ((tokens, dim), sparsity[1])
        keys, values = (
            [Matrix.pack(fmt, random_weights(shape, zeros)) for _ in range(heads)]
            for shape, zeros in wanted
        )
        contestants[name] = Attention(plan, keys, values, threads)
    shape = (dim, tokens)
    return [
        _row(contestants[name], name, shape, queries, None, threads, lap)
        for name, lap in race(plan, contestants, queries).items()
    ]


def measure_schemes(plan: Plan, roofs: Roofs) -> list[Row]:
    """Tiles per second of every scheme at batch 1, measured and predicted, and our two kernels."""
    if not roofs.instructions or roofs.matrix is None:
        return []
    inputs, outputs = plan.scheme_shape
    tiles = -(-outputs // 16) * -(-inputs // 32)
    rng = np.random.default_rng(SEED)
    dense = rng.standard_normal((outputs, inputs), np.float32)
    rows = []
    read = Read(plan.working_set, roofs.threads)
    for name, density in plan.schemes:
        compressed = compress(dense, resolve_scheme(name), density)
        matrix = DecaMatrix(compressed)
        contestant = Ours(copies_of(plan, matrix), roofs.threads)
        counts = deca_instructions(compressed.scheme)
        rows.append(
            _surface_row(plan, roofs, read, name, density, "DECA tiles", contestant, tiles, counts)
        )
    for sparsity in [1 - d for n, d in plan.schemes if n == "bf16" and d is not None]:
        weights = random_weights(plan.scheme_shape, sparsity)
        ours = pack_copies(plan, WeightFormat(), weights, roofs.threads)
        for order in Order:
            counts = tile_instructions(WeightFormat(), order)
            label = f"SparAMX, {order.value} order"
            entered = ours.with_order(order)
            density = round(1 - sparsity, 2)
            rows.append(
                _surface_row(plan, roofs, read, "bf16", density, label, entered, tiles, counts)
            )
    return rows


def _surface_row(
    plan: Plan,
    roofs: Roofs,
    read: Read,
    name: str,
    density: float | None,
    kernel: str,
    contestant: Ours,
    tiles: int,
    counts: Counter[str],
) -> Row:
    times = race(plan, {name: contestant, "read": read}, 1)
    seconds = times[name].seconds
    tile_bytes = contestant.size / tiles
    # What memory gives now: on a shared machine that changes from minute to minute.
    roofs = replace(roofs, read_bytes=read.size / times["read"].seconds)
    flat = predict(roofs, tile_bytes, counts, weighted=False)
    weighted = predict(roofs, tile_bytes, counts, weighted=True)
    return {
        "scheme": name,
        "density": density,
        "kernel": kernel,
        "tile_bytes": tile_bytes,
        "read_bytes_per_second": roofs.read_bytes,
        "instructions": dict(counts),
        "tiles_per_second": tiles / seconds,
        "scatter": times[name].scatter,
        "predicted_flat": flat.rate,
        "bound_flat": flat.bound,
        "predicted": weighted.rate,
        "bound": weighted.bound,
    }


def _row(
    contestant: Contestant,
    name: str,
    shape: tuple[int, int],
    batch: int,
    sparsity: float | None,
    threads: int,
    lap: Lap,
) -> Row:
    return {
        "kernel": name,
        "inputs": shape[0],
        "outputs": shape[1],
        "batch": batch,
        "sparsity": sparsity,
        "threads": threads,
        "seconds": lap.seconds,
        "scatter": lap.scatter,
        "bytes": contestant.size,
        "copies": contestant.count,
        "bytes_per_second": contestant.size / lap.seconds,
    }
