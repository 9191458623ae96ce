"""Speed of the kernels on this machine, beside stock PyTorch where it is installed.

Every contestant multiplies with many copies of a layer, one after the other, so that no weight is
still in a cache when its turn comes again. Contestants take turns round by round, so that a busy
moment of the machine hits all of them; a result is the median of the rounds.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from importlib.util import find_spec
from math import isfinite
from time import gmtime, perf_counter, strftime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca import CompressedMatrix, compress, resolve_scheme
from tilewright.golden.deca.coding import CompressedTiles
from tilewright.golden.params.sparamx import ElementType, Order, WeightFormat
from tilewright.golden.sparamx import tile_instructions
from tilewright.golden.sparamx.attention import KEY_SPARSITY, VALUE_SPARSITY
from tilewright.golden.sparamx.coded import pack as pack_codes
from tilewright.golden.sparamx.coded import repeated, tile_counts
from tilewright.golden.sparamx.software_deca import tile_instructions as deca_instructions
from tilewright.kernels.coded import CodedMatrix
from tilewright.kernels.contestants import (
    SEED,
    Contestant,
    InModel,
    Operator,
    Ours,
    Read,
    attention_copies,
    copies_of,
    int8_of,
    onednn_of,
    pack_copies,
    random_weights,
    stock_attention,
    stock_copies,
)
from tilewright.kernels.deca import DecaMatrix
from tilewright.kernels.machine import describe_machine
from tilewright.kernels.matrix import VECTOR_BATCH, Matrix
from tilewright.kernels.plan import Plan
from tilewright.kernels.race import Lap, race
from tilewright.kernels.roofs import Roofs, measure_roofs, median_rate, predict, read_rate

__all__ = ["SECTIONS", "rounded", "run", "steps"]

COMMAND = "tilewright kernels bench"
SECTIONS = ("packing", "layers", "sparsity", "batch", "threads", "attention", "roof_surface")
REPEATS = 16  # of a compressed matrix below itself: compressing a large one takes long

Progress = Callable[[str], None]
Row = dict[str, Any]  # of the record: plain JSON data


def steps(plan: Plan, only: Collection[str] = SECTIONS) -> int:
    """How often :func:`run` reports progress."""
    times = {"layers": len(plan.shapes), "sparsity": len(plan.sparsities)}
    return 1 + sum(times.get(name, 1) for name in only)


def run(
    plan: Plan,
    progress: Progress = lambda text: None,
    keep: Callable[[dict[str, Any]], None] = lambda record: None,
    *,
    only: Collection[str] = SECTIONS,
    before: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Measure everything that ``plan`` asks for, as plain JSON data.

    ``progress`` is told what comes next, ``steps`` times; ``keep`` is given what there is so
    far each time, so that a run that is cut off leaves something. With ``only``, some sections are
    measured, and the others are those of the record ``before``, if any; the record says of each
    section when it was measured and by which command. The roofs go with the Roof-Surface.
    """
    unknown = sorted(set(only) - set(SECTIONS))
    if unknown:
        raise ValueError(f"no section {unknown[0]!r}: there are {', '.join(SECTIONS)}")
    most = max(plan.threads)
    machine = dict(_machine())
    if before is not None and (before["machine"], before["plan"]) != (
        machine,
        rounded(asdict(plan)),
    ):
        raise ValueError("the record to complete is of another machine or another plan")
    record: dict[str, Any] = dict(before or {}) | {"machine": machine, "plan": asdict(plan)}
    sections = record["sections"] = dict(record.get("sections", {}))
    whole = set(only) == set(SECTIONS)
    command = COMMAND if whole else f"{COMMAND} --only {','.join(n for n in SECTIONS if n in only)}"

    def comes(section: str, text: str) -> None:
        about = sections.get(section) if section in begun else None
        if about is None:
            about = sections[section] = {"command": command, "began": _now(), "seconds": 0.0}
        begun[section] = about
        about["seconds"] -= perf_counter()
        progress(text)

    def done(section: str) -> None:
        begun[section]["seconds"] += perf_counter()
        keep(rounded(record))

    begun: dict[str, dict[str, Any]] = {}
    size = max(plan.working_set, 1 << 16)
    if "roof_surface" in only or "roofs" not in record:
        comes("roofs", "roofs")
        turns = 1_000_000 if plan.rounds > 2 else 100
        record["roofs"] = measure_roofs(most, size, plan.rounds, turns).as_dict()
        done("roofs")
    if "packing" in only:
        comes("packing", "packing")
        record["packing"] = measure_packing(plan, most)
        done("packing")
    if "layers" in only:
        record["layers"], record["in_model"] = [], []
        for shape in plan.shapes:
            comes("layers", f"layer {shape[0]}x{shape[1]}")
            alone, in_model = measure_layer(plan, shape, most)
            record["layers"] += alone
            record["in_model"] += in_model
            done("layers")
    if "sparsity" in only:
        record["sparsity"], record["sparsity_in_model"] = [], []
        for sparsity in plan.sparsities:
            comes("sparsity", f"{sparsity:.0%} zeros")
            alone, in_model = measure_sparsity(plan, sparsity, most)
            record["sparsity"] += alone
            record["sparsity_in_model"] += in_model
            done("sparsity")
    rest: dict[str, Callable[[], list[Row]]] = {
        "batch": lambda: measure_batches(plan, most),
        "threads": lambda: measure_threads(plan),
        "attention": lambda: measure_attention(plan, most),
        "roof_surface": lambda: measure_schemes(plan, Roofs(**record["roofs"])),
    }
    for name in [name for name in rest if name in only]:
        comes(name, name.replace("_", " "))
        record[name] = rest[name]()
        done(name)
    # Once more at the end: whether the machine has stayed what it was.
    record["read_bytes_at_end"] = read_rate(most, size, plan.rounds)
    return rounded(record)


@cache
def _machine() -> dict[str, Any]:
    """The machine, described once: that loads PyTorch, whose threads it counts from then on."""
    machine: dict[str, Any] = rounded(asdict(describe_machine()))
    return machine


def _now() -> str:
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime())


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


def measure_layer(plan: Plan, shape: tuple[int, int], threads: int) -> tuple[list[Row], list[Row]]:
    """One layer at 50% zeros, batch 1, 16 and 32: every kernel we have, and stock PyTorch.

    The second rows are of the same contestants as in a model.
    """
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
    if stock:
        contestants["stock bf16"] = stock
    modelled = dict(contestants)
    contestants["read"] = Read(plan.working_set, threads)
    onednn = onednn_of(stock)
    if onednn:
        contestants["oneDNN bf16"] = onednn
    rows, in_model = [], []
    for batch in [b for b in (1, 16, 32) if b <= max(plan.batches)]:
        for name, lap in race(plan, contestants, batch).items():
            rows.append(_row(contestants[name], name, shape, batch, 0.5, threads, lap))
        if stock:
            in_model += measure_in_model(plan, modelled, shape, batch, 0.5, threads)
    return rows, in_model


def measure_sparsity(plan: Plan, sparsity: float, threads: int) -> tuple[list[Row], list[Row]]:
    """Sparse kernels at one sparsity; at the first one also dense ones and stock PyTorch.

    The second rows are of the same contestants as in a model, where PyTorch is installed.
    """
    weights = random_weights(plan.curve_shape, sparsity)
    contestants: dict[str, Contestant] = {
        "sparse bf16": pack_copies(plan, WeightFormat(), weights, threads),
        "sparse int8": pack_copies(
            plan, WeightFormat(element=ElementType.INT8), int8_of(weights), threads
        ),
    }
    if sparsity == plan.sparsities[0]:
        contestants["dense bf16"] = pack_copies(plan, WeightFormat(sparse=False), weights, threads)
        stock = stock_copies(plan, weights, threads)
        if stock:
            contestants["stock bf16"] = stock
    in_model = []
    if find_spec("torch"):
        in_model = measure_in_model(plan, contestants, plan.curve_shape, 1, sparsity, threads)
    contestants["read"] = Read(plan.working_set, threads)
    times = race(plan, contestants, 1)
    rows = [
        _row(contestants[name], name, plan.curve_shape, 1, sparsity, threads, lap)
        for name, lap in times.items()
    ]
    return rows, in_model


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
    """One layer's attention for one token: keys and values pruned or dense, and stock PyTorch."""
    _, queries, tokens, dim = plan.cache
    contestants: dict[str, Contestant] = {
        "pruned": attention_copies(plan, threads, (KEY_SPARSITY, VALUE_SPARSITY)),
        "dense": attention_copies(plan, threads, (0.0, 0.0)),
        "read": Read(plan.working_set, threads),
    }
    stock = stock_attention(plan, threads)
    if stock:
        contestants["stock"] = stock
    shape = (dim, tokens)
    return [
        _row(contestants[name], name, shape, queries, None, threads, lap)
        for name, lap in race(plan, contestants, queries).items()
    ]


def measure_in_model(
    plan: Plan,
    contestants: Mapping[str, Contestant],
    shape: tuple[int, int],
    batch: int,
    sparsity: float,
    threads: int,
) -> list[Row]:
    """Layers as in a model: a small operator of PyTorch after each call, and no rest.

    The operator's own time, measured in the same rounds, is taken off.
    """
    entered: dict[str, Contestant] = {n: InModel(c, threads) for n, c in contestants.items()}
    entered["operator"] = Operator(max(c.count for c in contestants.values()), threads)
    laps = race(plan, entered, batch)
    between = laps.pop("operator").seconds
    return [
        _row(
            *(contestants[n], n, shape, batch, sparsity, threads),
            lap._replace(seconds=lap.seconds - between),
        )
        for n, lap in laps.items()
    ]


def measure_schemes(plan: Plan, roofs: Roofs) -> list[Row]:
    """Tiles per second of every scheme at batch 1, measured and predicted, by every kernel."""
    if not roofs.instructions or roofs.matrix is None:
        return []
    inputs, outputs = plan.scheme_shape
    rng = np.random.default_rng(SEED)
    times = REPEATS if outputs % (16 * REPEATS) == 0 else 1
    dense = rng.standard_normal((outputs // times, inputs), np.float32)
    rows = []
    race_of = partial(_surface_rows, plan, roofs, Read(plan.working_set, roofs.threads))
    for name, density in plan.schemes:
        part = compress(dense, resolve_scheme(name), density)
        tiles = CompressedTiles.join([part.tiles] * times)
        matrix = DecaMatrix(CompressedMatrix(part.scheme, (outputs, inputs), tiles))
        deca = Ours(copies_of(plan, matrix), roofs.threads)
        config = part.scheme.config
        # A mask for each row, a scale for each row, and a line of each stream ahead.
        loads = 16 * config.sparse + 16 * bool(config.scale_bytes)
        counts = deca_instructions(part.scheme)
        entered = [Surface("DECA tiles", deca, counts, "from_l2", loads)]
        if config.code_bits <= 8:
            coded = pack_codes(part)
            ours = Ours(copies_of(plan, CodedMatrix(repeated(coded, times))), roofs.threads)
            for order in Order:
                counts = tile_counts(coded, order)
                tile = order is Order.TILE
                loads = 8 * config.sparse + 16 * (not tile)  # masks of pairs of rows, activations
                entered.append(
                    Surface(
                        f"look-up, {order.value} order",
                        ours.with_order(order),
                        counts,
                        "one_row" if tile else None,
                        loads,
                    )
                )
        rows += race_of(name, density, entered)
    for sparsity in [1 - d for n, d in plan.schemes if n == "bf16" and d is not None]:
        weights = random_weights(plan.scheme_shape, sparsity)
        packed = pack_copies(plan, WeightFormat(), weights, roofs.threads)
        entered = [
            Surface(
                f"SparAMX, {order.value} order",
                packed.with_order(order),
                tile_instructions(WeightFormat(), order),
                "one_row" if order is Order.TILE else None,
                # Masks; in registers also activations and a prefetch with every row.
                16 if order is Order.TILE else 48,
            )
            for order in Order
        ]
        rows += race_of("bf16", round(1 - sparsity, 2), entered)
    return rows


class Surface(NamedTuple):
    """A kernel, and what the Roof-Surface model is told of it."""

    label: str
    contestant: Ours
    counts: Counter[str]
    reload: str | None  # how its tiles reach the matrix unit, if they do
    loads: float  # of a tile, beside those among the counts


def _surface_rows(
    plan: Plan,
    roofs: Roofs,
    read: Read,
    name: str,
    density: float | None,
    kernels: Sequence[Surface],
) -> list[Row]:
    contestants: dict[str, Contestant] = {kernel.label: kernel.contestant for kernel in kernels}
    laps = race(plan, {**contestants, "read": read}, 1)
    # What memory gives now: on a shared machine that changes from minute to minute.
    roofs = replace(roofs, read_bytes=read.size / laps["read"].seconds)
    inputs, outputs = plan.scheme_shape
    tiles = -(-outputs // 16) * -(-inputs // 32)
    rows = []
    for label, contestant, counts, reload, loads in kernels:
        tile_bytes = contestant.size / tiles
        flat = predict(roofs, tile_bytes, counts, weighted=False)
        model = partial(predict, roofs, tile_bytes, counts, weighted=True, reload=reload)
        with_prefetches = loads + tile_bytes / 64
        weighted = model(loads=with_prefetches, call_tiles=tiles)
        core = model(loads=with_prefetches)  # without a call's start and end
        rows.append(
            {
                "scheme": name,
                "density": density,
                "kernel": label,
                "tile_bytes": tile_bytes,
                "read_bytes_per_second": roofs.read_bytes,
                "instructions": dict(counts),
                "reload": reload,
                "loads": loads,
                "tiles_per_second": tiles / laps[label].seconds,
                "scatter": laps[label].scatter,
                "predicted_flat": flat.rate,
                "bound_flat": flat.bound,
                "predicted": weighted.rate,
                "bound": weighted.bound,
                "vector": core.vector if isfinite(core.vector) else None,
                "reload_rate": core.reload if reload else None,
            }
        )
    return rows


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
