"""A token of a packed model on this machine, layer by layer: path, bytes, time, and the bound.

The bound is the time in which as many threads that only read would read the same bytes. Layers are
called as a token calls them, in the model's order with one row of activations; attention, norms and
synchronisation between layers are not part of it.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path as FilePath
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.block import require
from tilewright.golden.tensorfile import TensorFile
from tilewright.kernels.forms import METHOD, PARTS, family, matrix_of
from tilewright.kernels.library import (
    SLACK,
    Path,
    address,
    as_weight_bytes,
    available_paths,
    checked_threads,
    has_room,
    library,
    weight_bytes,
    with_slack,
)
from tilewright.kernels.machine import describe_machine
from tilewright.kernels.matrix import Multiplier

FEWEST_BITS = 4.25  # a weight of mxfp4
SLOW = 0.7  # of the reading speed


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Layers of one name, summed over the model; milliseconds of a token."""

    name: str
    layers: int
    form: str
    order: str
    bits_per_weight: float
    megabytes: float
    bound_ms: float
    measured_ms: float
    gb_per_second: float
    share: float  # of the reading speed


@dataclass(frozen=True, kw_only=True)
class Explanation:
    path: str
    threads: int
    read_gb_per_second: float
    kinds: tuple[Kind, ...]
    bound_ms: float
    measured_ms: float
    advice: tuple[str, ...]


def explain(
    folder: FilePath,
    *,
    threads: int | None = None,
    rounds: int = 7,
    tick: Callable[[str], None] = lambda name: None,
) -> Explanation:
    """Load the layers of a folder that ``tilewright kernels sparsify`` wrote, and time them."""
    threads, path = checked_threads(threads), available_paths()[-1]
    layers = packed_layers(folder)
    matrices = _loaded(folder, layers, tick)
    calls = {name: _call(matrix, threads) for name, matrix in matrices.items()}
    kinds: dict[str, list[str]] = defaultdict(list)
    for name in layers:
        kinds[re.sub(r"\.\d+\.", ".*.", name)].append(name)
    total = sum(matrix.size for matrix in matrices.values())
    area, reading = weight_bytes(total), []
    area[:] = 1  # pages of its own
    spent: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds + 1):
        reading.append(_seconds(partial(library().tw_read, address(area), total, threads)))
        token = {name: _seconds(calls[name]) for name in layers}
        for kind, names in kinds.items():
            spent[kind].append(sum(token[name] for name in names))
    speed = total / median(reading[1:])  # the first round warms up
    rows = tuple(
        _row(kind, layers[names[0]], [matrices[n] for n in names], median(spent[kind][1:]), speed)
        for kind, names in kinds.items()
    )
    return Explanation(
        path=path.name.lower(),
        threads=threads,
        read_gb_per_second=speed / 1e9,
        kinds=rows,
        bound_ms=sum(row.bound_ms for row in rows),
        measured_ms=sum(row.measured_ms for row in rows),
        advice=tuple(_advice(rows, path, threads)),
    )


def packed_layers(folder: FilePath) -> dict[str, dict[str, Any]]:
    """The description of packed layers by name, in the order of the model."""
    place = folder / "config.json"
    require(place.is_file(), f"{folder} has no config.json: not a model of Hugging Face")
    about = json.loads(place.read_text()).get("quantization_config") or {}
    hint = f"{folder} is not packed: tilewright kernels sparsify {folder} -o PACKED_DIR"
    require(about.get("quant_method") == METHOD, hint)
    found: dict[str, dict[str, Any]] = about["layers"]
    return found


def _loaded(
    folder: FilePath, layers: dict[str, dict[str, Any]], tick: Callable[[str], None]
) -> dict[str, Multiplier]:
    arrays: dict[str, dict[str, NDArray[np.uint8]]] = defaultdict(dict)
    for file in sorted(folder.glob("*.safetensors")):
        with TensorFile(file) as tensors:
            for stored in tensors.entries:
                name, _, part = stored.rpartition(".")
                if name in layers and part in PARTS[family(layers[name]["form"])]:
                    content = as_weight_bytes(tensors.read(stored)[:-SLACK])
                    arrays[name][part] = with_slack(content)
    matrices = {}
    for name, about in layers.items():
        lacking = set(PARTS[family(about["form"])]) - set(arrays[name])
        require(not lacking, f"{folder} has no tensor {name}.{min(lacking, default='')}")
        outputs, inputs = about["shape"]
        matrices[name] = matrix_of(about["form"], (outputs, inputs), arrays.pop(name))
        tick(name)
    return matrices


def _call(matrix: Multiplier, threads: int) -> Callable[[], None]:
    """One row of activations times the layer."""
    int8 = matrix.result_dtype == np.int32
    x = np.ones((1, matrix.shape[1]), np.int8 if int8 else np.uint16) * (1 if int8 else 0x3F80)
    out = np.empty((1, matrix.shape[0]), matrix.result_dtype)
    return matrix.bind(x.astype(np.int8 if int8 else np.uint16), out, threads=threads)


def _seconds(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began


def _row(
    kind: str, about: dict[str, Any], matrices: list[Multiplier], seconds: float, speed: float
) -> Kind:
    size = sum(matrix.size for matrix in matrices)
    weights = sum(matrix.shape[0] * matrix.shape[1] for matrix in matrices)
    order = matrices[0].default_order(1, available_paths()[-1])
    return Kind(
        name=kind,
        layers=len(matrices),
        form=about["form"],
        order=order.value,
        bits_per_weight=8 * size / weights,
        megabytes=size / 1e6,
        bound_ms=1e3 * size / speed,
        measured_ms=1e3 * seconds,
        gb_per_second=size / seconds / 1e9,
        share=size / seconds / speed,
    )


def _advice(rows: Sequence[Kind], path: Path, threads: int) -> Iterator[str]:
    """Ways to make a token faster, the largest gain first where it is known."""
    total = sum(row.measured_ms for row in rows)
    wide = [row for row in rows if row.bits_per_weight > FEWEST_BITS + 1]
    gains = [(row.measured_ms * (1 - FEWEST_BITS / row.bits_per_weight), row) for row in wide]
    for gain, row in sorted(gains, key=lambda pair: -pair[0]):
        yield (
            f"{row.name} in 4 bits (mxfp4, which changes results) instead of"
            f" {row.bits_per_weight:.1f}: up to {gain:.2f} of {total:.2f} ms less"
        )
    slow = [row.name for row in rows if row.share < SLOW]
    if slow and path is Path.PORTABLE:
        yield f"{', '.join(slow)}: portable code; AVX-512 with BF16 and VBMI2 is not here"
    elif slow:
        yield f"{', '.join(slow)}: instructions, or small layers, and not memory are the limit"
    if not has_room(threads):
        yield f"{threads} threads have fewer processors: pass --threads, or end other programs"
    if describe_machine()["huge_pages"] == "never":
        yield "large pages are off: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
