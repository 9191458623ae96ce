"""Speed and memory of the golden models and of their peers: one run, the same data.

The best round counts. A peer that is not installed is left out, with a line that says so.
"""

import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from benchmarks.race import Call, Figure, race, seconds
from tilewright.golden import bfp, planes
from tilewright.golden.anda import gemm, quantise
from tilewright.golden.arith import add, convert, fma, multiply
from tilewright.golden.params.anda import AndaNumerics
from tilewright.golden.params.formats import BF16, FP16, FP32, BlockFormat
from tilewright.golden.vectors import operands

COLUMNS = 4096
BLOCK = BlockFormat(group=64, mantissa_bits=8)
MEMORY = 4.0  # of the input: what a call allocates at most, results included


def torchao_cast(values: NDArray[np.float32]) -> Call:
    """MXFP8 of the same values and the same group; torchao takes bf16, not fp16."""
    import torch
    from torchao.prototype.mx_formats.mx_tensor import to_mx

    tensor = torch.from_numpy(values).bfloat16()
    return lambda: to_mx(tensor, torch.float8_e4m3fn, BLOCK.group)


def microxcaling_cast(values: NDArray[np.float32]) -> Call:
    """MX int8 of the same values and the same group."""
    import torch
    from mx.mx_ops import quantize_mx_op
    from mx.specs import get_default_mx_specs

    tensor, specs = torch.from_numpy(values).half(), get_default_mx_specs()
    words = {"elem_format": "int8", "block_size": BLOCK.group, "axes": [-1]}
    return lambda: quantize_mx_op(tensor, specs, **words)


# Peer -> how it is set up, and the most that golden may take of its time.
PEERS: dict[str, tuple[Callable[[NDArray[np.float32]], Call], float]] = {
    "torchao MXFP8": (torchao_cast, 1.0),
    "microxcaling int8": (microxcaling_cast, 1 / 3),
}


def against(
    task: str, golden: Call, peers: Mapping[str, tuple[Call, float]], elements: int, duration: float
) -> Iterator[Figure]:
    """The rate of a golden model, and its share of each peer's time with the limit."""
    entered = {"golden": golden} | {name: peer for name, (peer, _) in peers.items()}
    times = {n: lap.least for n, lap in race(entered, 2, least_seconds=duration).items()}
    yield Figure(task, elements / times["golden"] / 1e6, "M/s")
    for name, (_, limit) in peers.items():
        share = times["golden"] / times[name]
        yield Figure(f"{task}: time over that of {name}", share, "", limit)


def peak_ratio(run: Call, input_bytes: int) -> float:
    """Peak of what a call allocates, as a multiple of its input."""
    tracemalloc.start()
    run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / input_bytes


def measure(rows: int = 4096, duration: float = 8.0) -> Iterator[Figure]:
    """Every task, in races of ``duration`` seconds where there are peers."""
    rng = np.random.default_rng(1)
    values = rng.standard_normal((rows, COLUMNS)).astype(np.float32)
    halves, words = values.astype(np.float16).view(np.uint16), values.view(np.uint32)
    blocks = bfp.encode(BLOCK, halves)
    a, b, c = operands([FP32] * 3, rng, min(values.size, 1 << 20))
    h, g = operands([FP16] * 2, rng, len(a))
    casts: dict[str, tuple[Call, float]] = {}
    for name, (build, limit) in PEERS.items():
        try:
            casts[name] = build(values), limit
        except ImportError as reason:
            print(f"{name} is not installed and left out ({reason})", file=sys.stderr)
    numpy_cast = {"ml_dtypes": (lambda: values.astype(ml_dtypes.bfloat16), 2.0)}
    encode, cast = lambda: bfp.encode(BLOCK, halves), lambda: convert(FP32, BF16, words)
    yield from against(f"encode fp16 to {BLOCK}", encode, casts, halves.size, duration)
    yield from against("bf16 cast of fp32", cast, numpy_cast, values.size, duration)
    alone: dict[str, tuple[int, Call]] = {
        "block floating point decode": (halves.size, lambda: bfp.decode(BLOCK, blocks)),
        "bit planes pack": (halves.size, lambda: planes.pack(BLOCK, blocks)),
        "fp16 multiply": (len(a), lambda: multiply(FP16, FP16, FP16, h, g)),
        "fp16 add": (len(a), lambda: add(FP16, FP16, FP16, h, g)),
        "fp32 fused multiply-add": (len(a), lambda: fma(FP32, FP32, FP32, FP32, a, b, c)),
    }
    for task, (elements, run) in alone.items():
        yield from against(task, run, {}, elements, duration / 4)
    for task, ratio in (
        ("block floating point encode", peak_ratio(encode, halves.nbytes)),
        ("bf16 cast", peak_ratio(cast, words.nbytes)),
    ):
        yield Figure(f"peak memory of {task} over its input", ratio, "", MEMORY)


def measure_anda(rows: int = 2048, size: int = 4096) -> Iterator[Figure]:
    """Anda's GEMM of a layer, every rounding step; and numpy's float32, which rounds none."""
    rng = np.random.default_rng(1)
    numerics, mantissa = AndaNumerics(), 8
    activations = rng.standard_normal((rows, size)).astype(np.float16)
    matrix = rng.standard_normal((size, size)).astype(np.float32)
    weights = quantise(matrix)
    blocks = bfp.encode(numerics.block_format(mantissa), activations.view(np.uint16))
    wide = activations.astype(np.float32)
    golden = seconds(lambda: gemm(numerics, mantissa, blocks, weights))
    # A minute on 2 cores.
    yield Figure(f"{rows} x {size} x {size}, M = {mantissa}", golden, limit=60.0 * rows / 2048)
    yield Figure("the same in float32", seconds(lambda: wide @ matrix.T))
