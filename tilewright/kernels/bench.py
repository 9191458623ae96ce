"""Speed of the kernels on this machine, beside stock PyTorch where it is installed.

Every contestant multiplies with many copies of a layer, one after the other, so that no weight is
still in a cache when its turn comes again. Contestants take turns round by round, so that a busy
moment of the machine hits all of them; a result is the median of the rounds.
"""

import os
import platform
import re
import subprocess
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path as FilePath
from statistics import quantiles
from time import perf_counter, sleep
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.deca import compress, resolve_scheme
from tilewright.golden.params.sparamx import Element, Order, WeightFormat
from tilewright.golden.sparamx import tile_instructions
from tilewright.golden.sparamx.attention import KEY_SPARSITY, VALUE_SPARSITY
from tilewright.golden.sparamx.software_deca import tile_instructions as deca_instructions
from tilewright.kernels.build import compiler
from tilewright.kernels.deca import DecaMatrix
from tilewright.kernels.library import available_paths, default_threads, library
from tilewright.kernels.matrix import VECTOR_BATCH, Matrix, Multiplier, bind_all
from tilewright.kernels.memory import address, weight_bytes
from tilewright.kernels.roofs import Roofs, measure_roofs, median_rate, predict, read_rate

SEED = 9
# After a contestant: how long its threads may spin before they sleep. Ours stop after 0.1 ms, the
# OpenMP threads of PyTorch after some 20 ms.
SETTLE_SECONDS, STOCK_SETTLE_SECONDS = 0.002, 0.05

CALM = 0.15  # scatter of a race that need not be run again

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured. ``inputs x outputs`` of a layer; sparsity is the share of zeros."""

    shapes: tuple[tuple[int, int], ...]
    curve_shape: tuple[int, int]
    sparsities: tuple[float, ...]
    batches: tuple[int, ...]
    threads: tuple[int, ...]
    schemes: tuple[tuple[str, float | None], ...]  # of DECA, with their density
    scheme_shape: tuple[int, int]
    cache: tuple[int, int, int, int]  # heads, query heads of each, tokens, dim of a layer's cache
    working_set: int  # bytes of weights that each contestant goes through, at least
    rounds: int
    attempts: int  # races at most, where rounds scatter
    patience: float  # seconds after which a race is not run again


def full_plan() -> Plan:
    """The layers of Llama 3 8B, at 0 to 95% zeros, batch 1 to 64, 1 thread to all."""
    most = default_threads()
    densities = (0.5, 0.3, 0.2, 0.1, 0.05)
    return Plan(
        shapes=((4096, 4096), (4096, 1024), (4096, 14336), (14336, 4096)),
        curve_shape=(4096, 14336),
        sparsities=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
        batches=(1, 2, 4, 8, 16, 32, 64),
        threads=(*(n for n in (1, 2, 4, 8, 12, 16, 24, 32, 48, 64) if n < most), most),
        schemes=(
            *(("bf16", None), *(("bf16", d) for d in densities)),
            *(("bf8", None), *(("bf8", d) for d in densities)),
            *(("mxfp4", None), ("mxfp4", 0.5)),
        ),
        scheme_shape=(4096, 4096),
        cache=(8, 4, 16384, 128),  # Llama 3 8B at a context of 16K
        working_set=960_000_000,
        rounds=9,
        attempts=2,
        patience=2.5,
    )


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
        patience=0.0,
    )


def steps(plan: Plan) -> int:
    """How often :func:`run` reports progress."""
    return 6 + len(plan.shapes) + len(plan.sparsities)


def run(plan: Plan, progress: Progress = lambda text: None) -> dict[str, Any]:
    """All measurements as plain JSON data."""
    most = max(plan.threads)
    progress("roofs")
    roofs = measure_roofs(
        most, max(plan.working_set, 1 << 16), plan.rounds, 2_000_000 if plan.rounds > 2 else 100
    )
    record: dict[str, Any] = {
        "machine": describe_machine(),
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


def measure_packing(plan: Plan, threads: int) -> list[dict[str, Any]]:
    """Seconds to pack one layer, half of its weights zero, from float32 and from int8."""
    weights = _weights(plan.curve_shape, 0.5)
    sources = {
        Element.BF16: (weights.astype(np.uint32) << 16).view(np.float32),
        Element.INT8: _int8(weights),
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


def measure_layer(plan: Plan, shape: tuple[int, int], threads: int) -> list[dict[str, Any]]:
    """One layer at 50% zeros, batch 1, 16 and 32: every kernel we have, and stock PyTorch."""
    weights = _weights(shape, 0.5)
    bf16, int8 = WeightFormat(), WeightFormat(element=Element.INT8)
    makers: dict[str, Callable[[], Contestant]] = {
        "sparse bf16": lambda: _ours(plan, bf16, weights, threads),
        "dense bf16": lambda: _ours(plan, WeightFormat(sparse=False), weights, threads),
        "sparse int8": lambda: _ours(plan, int8, _int8(weights), threads),
        "dense int8": lambda: _ours(
            plan, WeightFormat(element=Element.INT8, sparse=False), _int8(weights), threads
        ),
    }
    stock = _stock(plan, weights, threads)
    contestants = {name: make() for name, make in makers.items()}
    contestants["read"] = _Read(plan.working_set, threads)
    if stock:
        contestants["stock bf16"] = stock
    rows = []
    for batch in [b for b in (1, 16, 32) if b <= max(plan.batches)]:
        for name, lap in _race(plan, contestants, batch).items():
            rows.append(_row(contestants[name], name, shape, batch, 0.5, threads, lap))
    return rows


def measure_sparsity(plan: Plan, sparsity: float, threads: int) -> list[dict[str, Any]]:
    weights = _weights(plan.curve_shape, sparsity)
    contestants = {
        "sparse bf16": _ours(plan, WeightFormat(), weights, threads),
        "sparse int8": _ours(plan, WeightFormat(element=Element.INT8), _int8(weights), threads),
        "read": _Read(plan.working_set, threads),
    }
    if sparsity == plan.sparsities[0]:
        contestants["dense bf16"] = _ours(plan, WeightFormat(sparse=False), weights, threads)
        stock = _stock(plan, weights, threads)
        if stock:
            contestants["stock bf16"] = stock
    times = _race(plan, contestants, 1)
    return [
        _row(contestants[name], name, plan.curve_shape, 1, sparsity, threads, lap)
        for name, lap in times.items()
    ]


def measure_batches(plan: Plan, threads: int) -> list[dict[str, Any]]:
    """Both orders of the sparse kernel, the dense one and stock PyTorch."""
    weights, rows = _weights(plan.curve_shape, 0.5), []
    contestants = {
        "sparse bf16": _ours(plan, WeightFormat(), weights, threads),
        "dense bf16": _ours(plan, WeightFormat(sparse=False), weights, threads),
        "read": _Read(plan.working_set, threads),
    }
    tiles = contestants["sparse bf16"].with_order(Order.TILE)
    vectors = contestants["sparse bf16"].with_order(Order.VECTOR)
    stock = _stock(plan, weights, threads)
    if stock:
        contestants["stock bf16"] = stock
    for batch in plan.batches:
        entered = dict(contestants)
        other = tiles if batch <= VECTOR_BATCH else vectors
        entered["sparse bf16, other order"] = other
        for name, lap in _race(plan, entered, batch).items():
            rows.append(_row(entered[name], name, plan.curve_shape, batch, 0.5, threads, lap))
    return rows


def measure_threads(plan: Plan) -> list[dict[str, Any]]:
    weights, rows = _weights(plan.curve_shape, 0.5), []
    sparse = _ours(plan, WeightFormat(), weights, 1)
    dense = _ours(plan, WeightFormat(sparse=False), weights, 1)
    stock = _stock(plan, weights, 1)
    read = _Read(plan.working_set, 1)
    for threads in plan.threads:
        contestants = {
            "sparse bf16": sparse.with_threads(threads),
            "dense bf16": dense.with_threads(threads),
            "read": read.with_threads(threads),
        }
        if stock:
            contestants["stock bf16"] = stock.with_threads(threads)
        for name, lap in _race(plan, contestants, 1).items():
            row = _row(contestants[name], name, plan.curve_shape, 1, 0.5, threads, lap)
            rows.append(row)
    return rows


def measure_attention(plan: Plan, threads: int) -> list[dict[str, Any]]:
    """The two products of one layer's attention for one token, keys and values pruned or dense.

    Without the softmax between them, which is the same for both.
    """
    heads, queries, tokens, dim = plan.cache
    contestants: dict[str, Contestant] = {}
    for name, sparsity in (("pruned", (KEY_SPARSITY, VALUE_SPARSITY)), ("dense", (0.0, 0.0))):
        fmt = WeightFormat(sparse=name == "pruned")
        keys = [Matrix.pack(fmt, _weights((dim, tokens), sparsity[0])) for _ in range(heads)]
        values = [Matrix.pack(fmt, _weights((tokens, dim), sparsity[1])) for _ in range(heads)]
        contestants[name] = _Attention(plan, keys, values, queries, threads)
    shape = (dim, tokens)
    return [
        _row(contestants[name], name, shape, queries, None, threads, lap)
        for name, lap in _race(plan, contestants, queries).items()
    ]


def measure_schemes(plan: Plan, roofs: Roofs) -> list[dict[str, Any]]:
    """Tiles per second of every scheme at batch 1, measured and predicted, and our two kernels."""
    if not roofs.instructions or roofs.matrix is None:
        return []
    inputs, outputs = plan.scheme_shape
    tiles = -(-outputs // 16) * -(-inputs // 32)
    rng = np.random.default_rng(SEED)
    dense = rng.standard_normal((outputs, inputs), np.float32)
    rows = []
    read = _Read(plan.working_set, roofs.threads)
    for name, density in plan.schemes:
        compressed = compress(dense, resolve_scheme(name), density)
        matrix = DecaMatrix(compressed)
        contestant = _Ours(_copies(plan, matrix), roofs.threads)
        counts = deca_instructions(compressed.scheme)
        rows.append(
            _surface_row(plan, roofs, read, name, density, "DECA tiles", contestant, tiles, counts)
        )
    for sparsity in [1 - d for n, d in plan.schemes if n == "bf16" and d is not None]:
        weights = _weights(plan.scheme_shape, sparsity)
        ours = _ours(plan, WeightFormat(), weights, roofs.threads)
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
    plan, roofs, read, name, density, kernel, contestant, tiles, counts
) -> dict[str, Any]:
    times = _race(plan, {name: contestant, "read": read}, 1)
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


# --- contestants


Sweep = Callable[..., None]


def _few(copies: Sequence[Any]) -> int:
    """The last tenth: by the time a sweep comes to them they have left the caches again."""
    return max(1, len(copies) // 10)


class Contestant:
    """Copies of one layer that multiply in turn."""

    size: int  # bytes of one copy that a multiplication reads
    count: int
    settle = SETTLE_SECONDS

    def prepare(self, batch: int) -> Sweep:
        """A sweep over all copies; a warm one over the last few, which wakes what sleeps."""
        raise NotImplementedError

    def with_threads(self, threads: int) -> "Contestant":
        raise NotImplementedError

    def with_order(self, order: Order) -> "Contestant":
        raise NotImplementedError


class _Ours(Contestant):
    def __init__(self, copies: Sequence[Multiplier], threads: int, order: Order | None = None):
        self.copies, self.threads, self.order = copies, threads, order
        self.size, self.count = copies[0].size, len(copies)

    def prepare(self, batch: int) -> Sweep:
        first = self.copies[0]
        rng = np.random.default_rng(SEED)
        inputs, outputs = first.shape[1], first.shape[0]
        if first.result_dtype == np.int32:
            x = rng.integers(-127, 128, (batch, inputs), np.int8)
            out = np.empty((batch, outputs), np.int32)
        else:
            x = _bf16(rng.standard_normal((batch, inputs), np.float32))
            out = np.empty((batch, outputs), np.uint16)  # bf16, as stock PyTorch gives

        calls = [
            matrix.bind(x, out, threads=self.threads, order=self.order) for matrix in self.copies
        ]

        def sweep(warm: bool = False) -> None:
            for call in calls[-_few(calls) :] if warm else calls:
                call()

        return sweep

    def with_threads(self, threads: int) -> "_Ours":
        return _Ours(self.copies, threads, self.order)

    def with_order(self, order: Order) -> "_Ours":
        return _Ours(self.copies, self.threads, order)


class _Attention(Contestant):
    """Both products of all heads: keys, then values."""

    def __init__(self, plan: Plan, keys, values, queries: int, threads: int):
        self.threads = threads
        self.size = sum(m.size for m in (*keys, *values))
        self.count = -(-plan.working_set // self.size)
        self.copies = [
            ([m.copy() for m in keys], [m.copy() for m in values]) for _ in range(self.count)
        ]

    def prepare(self, batch: int) -> Sweep:
        calls = []
        for pair in self.copies:
            for heads in pair:
                x = np.full((batch, heads[0].shape[1]), 0x3F80, np.uint16)  # ones
                calls.append(bind_all(heads, [x] * len(heads), threads=self.threads)[0])

        def sweep(warm: bool = False) -> None:
            for call in calls[-_few(calls) :] if warm else calls:
                call()

        return sweep


class _Read(Contestant):
    """Nothing but reading the memory."""

    def __init__(self, size: int, threads: int):
        self.size, self.count, self.threads = size, 1, threads
        self.area = weight_bytes(size)
        self.area[::4096] = 1  # pages of their own, not all the one page of zeros

    def prepare(self, batch: int) -> Sweep:
        read, start = library().tw_read, address(self.area)

        def sweep(warm: bool = False) -> None:
            skip = self.size - self.size // 10 if warm else 0
            read(start + skip, self.size - skip, self.threads)

        return sweep

    def with_threads(self, threads: int) -> "_Read":
        twin = copy(self)
        twin.threads = threads
        return twin


class _Stock(Contestant):
    """torch.nn.functional.linear of bf16 tensors."""

    settle = STOCK_SETTLE_SECONDS

    def __init__(self, copies: Sequence[Any], threads: int):
        self.copies, self.threads = copies, threads
        self.size, self.count = 2 * copies[0].numel(), len(copies)

    def prepare(self, batch: int) -> Sweep:
        import torch

        x = torch.randn(batch, self.copies[0].shape[1], dtype=torch.bfloat16)
        linear = torch.nn.functional.linear

        def sweep(warm: bool = False) -> None:
            torch.set_num_threads(self.threads)
            with torch.inference_mode():
                for weight in self.copies[-_few(self.copies) :] if warm else self.copies:
                    linear(x, weight)

        return sweep

    def with_threads(self, threads: int) -> "_Stock":
        return _Stock(self.copies, threads)


def _ours(plan: Plan, fmt: WeightFormat, weights: NDArray, threads: int) -> _Ours:
    return _Ours(_copies(plan, Matrix.pack(fmt, weights)), threads)


def _copies(plan: Plan, matrix: Any) -> list[Any]:
    count = -(-plan.working_set // matrix.size)
    return [matrix, *(matrix.copy() for _ in range(count - 1))]


def _stock(plan: Plan, weights: NDArray[np.uint16], threads: int) -> _Stock | None:
    try:
        import torch
    except ImportError:
        return None
    count = -(-plan.working_set // weights.nbytes)
    tensor = torch.from_numpy(weights.view(np.int16)).view(torch.bfloat16)
    return _Stock([tensor.clone() for _ in range(count)], threads)


class Lap(NamedTuple):
    """Seconds of one multiplication, and how far the rounds lie apart."""

    seconds: float  # median
    scatter: float  # (third quartile - first) / median


def _race(plan: Plan, contestants: dict[str, Contestant], batch: int) -> dict[str, Lap]:
    """All contestants in turn, round by round.

    On a shared machine others take the processors away for seconds at a time. A race whose rounds
    scatter too much is run again, at most ``plan.attempts`` times and while ``plan.patience``
    lasts; the calmest one counts.
    """
    best: dict[str, Lap] = {}
    start = perf_counter()
    for _ in range(plan.attempts):
        laps = _race_once(plan, contestants, batch)
        if not best or _unrest(laps) < _unrest(best):
            best = laps
        if _unrest(best) <= CALM or perf_counter() - start > plan.patience:
            break
    return best


def _unrest(laps: dict[str, Lap]) -> float:
    return max(lap.scatter for lap in laps.values())


def _race_once(plan: Plan, contestants: dict[str, Contestant], batch: int) -> dict[str, Lap]:
    sweeps = {name: c.prepare(batch) for name, c in contestants.items()}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for lap in range(plan.rounds + 1):
        for name, sweep in sweeps.items():
            sweep(warm=True)
            start = perf_counter()
            sweep()
            if lap:  # the first one warms up
                times[name].append((perf_counter() - start) / contestants[name].count)
            sleep(contestants[name].settle)
    return {name: _lap(laps) for name, laps in times.items()}


def _lap(times: list[float]) -> Lap:
    first, middle, third = quantiles(times, n=4, method="inclusive")
    return Lap(middle, (third - first) / middle)


def _row(contestant, name, shape, batch, sparsity, threads, lap) -> dict[str, Any]:
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


def _weights(shape: tuple[int, int], sparsity: float) -> NDArray[np.uint16]:
    """(outputs, inputs) bf16 patterns, none of them zero but the given share."""
    values, chances = _random(shape)
    return np.where(chances < np.float32(sparsity), np.uint16(0), values)


@lru_cache(maxsize=1)  # one layer at many sparsities
def _random(shape: tuple[int, int]) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """(outputs, inputs) bf16 patterns other than zero, and what decides which become zero."""
    rng = np.random.default_rng(SEED)
    values = rng.standard_normal((shape[1], shape[0]), np.float32)
    values[np.abs(values) < 1e-3] = 1e-3
    return _bf16(values), rng.random(values.shape, np.float32)


def _bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Upper halves: truncated, which is as good as rounded where only speed is measured."""
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def _int8(weights: NDArray[np.uint16]) -> NDArray[np.int8]:
    """Zero where the weight is zero, some other int8 elsewhere."""
    return np.where(weights & 0x7FFF, (weights & 0x7F | 1).astype(np.int8), np.int8(0))


# --- the machine


def describe_machine() -> dict[str, Any]:
    """Processor, caches, memory and programs, as far as the system tells."""
    info = _cpu_info()
    return {
        "processor": info.get("model name", platform.processor() or platform.machine()),
        "family_model_stepping": [info.get(key, "") for key in ("cpu family", "model", "stepping")],
        "processors": default_threads(),
        "caches": _caches(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "huge_pages": _huge_pages(),
        "system": platform.system(),
        "compiler": subprocess.run(
            [compiler(), "--version"], capture_output=True, text=True, check=True
        ).stdout.splitlines()[0],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": _torch_version(),
        "paths": [path.name.lower() for path in available_paths()],
    }


def _cpu_info() -> dict[str, str]:
    try:
        text = FilePath("/proc/cpuinfo").read_text().split("\n\n")[0]
    except OSError:
        return {}
    return dict(re.findall(r"^(.+?)\s*: (.+)$", text, re.MULTILINE))


def _caches() -> list[str]:
    found = []
    for cache in sorted(FilePath("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = (
                (cache / name).read_text().strip() for name in ("level", "type", "size")
            )
            found.append(f"L{level} {kind.lower()} {size}")
        except OSError:
            pass  # some systems keep these to themselves
    return found


def _huge_pages() -> str:
    try:
        text = FilePath("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    except OSError:
        return "unknown"
    chosen = re.search(r"\[(\w+)\]", text)
    return chosen.group(1) if chosen else "unknown"


def _torch_version() -> str | None:
    try:
        import torch
    except ImportError:
        return None
    return torch.__version__
