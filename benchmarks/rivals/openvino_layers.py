"""Milliseconds of the linear layers of decoder layers of Llama 3 8B's shape under OpenVINO's CPU.

python openvino_layers.py TYPE LAYERS BATCH, where TYPE is bf16, int8 or int4 (groups of 128).
Random weights, no attention: what OpenVINO's compressed matrix multiplications take.
"""

import statistics
import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np
import openvino as ov
from openvino import opset13 as ops

DIM, INNER, KEYS, GROUP = 4096, 14336, 1024, 128
KEPT: list[np.ndarray] = []


def piece_of(rows: int, make: Callable[[int], np.ndarray]) -> np.ndarray:
    """``rows`` rows, a few random ones over and over: fast to make, and speed needs no more."""
    few = min(rows, 256)
    return np.tile(make(few), (-(-rows // few), 1))[:rows]


def weight(kind: str, rows: int, columns: int, rng: np.random.Generator) -> ov.Node:
    """A constant, with the operations that OpenVINO takes for decompression of weights."""
    if kind == "bf16":
        values = piece_of(rows, lambda n: rng.standard_normal((n, columns), np.float32))
        return ops.convert(ops.constant((values * 0.02).astype(np.float16)), "f32")
    if kind == "int8":
        codes = ops.constant(
            piece_of(rows, lambda n: rng.integers(-127, 128, (n, columns), np.int8))
        )
        scale = ops.constant(np.full((rows, 1), 1e-4, np.float32))
        return ops.multiply(ops.convert(codes, "f32"), scale)
    packed = piece_of(rows, lambda n: rng.integers(0, 256, (n, columns // 2), np.uint8))
    KEPT.append(packed)  # a tensor of codes smaller than a byte has the array's memory, not a copy
    tensor = ov.Tensor(packed, ov.Shape([rows, columns // GROUP, GROUP]), ov.Type.u4)
    scale = ops.constant(np.full((rows, columns // GROUP, 1), 1e-3, np.float32))
    zero = ops.constant(np.full((rows, columns // GROUP, 1), 8, np.float32))
    codes = ops.subtract(ops.convert(ops.constant(tensor), "f32"), zero)
    return ops.reshape(ops.multiply(codes, scale), np.array([rows, columns]), False)


def build(kind: str, layers: int, batch: int) -> ov.Model:
    """Decoder layers without attention and norms, one after the other."""
    rng = np.random.default_rng(0)
    x = start = ops.parameter([batch, DIM], ov.Type.f32, name="x")

    def linear(value: ov.Node, rows: int, columns: int) -> ov.Node:
        return ops.matmul(value, weight(kind, rows, columns, rng), False, True)

    for _ in range(layers):
        keys = ops.add(linear(x, KEYS, DIM), linear(x, KEYS, DIM))
        mixed = ops.add(linear(x, DIM, DIM), ops.concat([keys] * (DIM // KEYS), 1))
        x = ops.add(x, linear(mixed, DIM, DIM))
        gate = ops.swish(linear(x, INNER, DIM))
        x = ops.add(x, linear(ops.multiply(gate, linear(x, INNER, DIM)), DIM, INNER))
    return ov.Model([x], [start], "layers")


def main(kind: str, layers: int, batch: int) -> None:
    hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "bf16"}
    compiled = ov.Core().compile_model(build(kind, layers, batch), "CPU", hints)
    request = compiled.create_infer_request()
    x = np.random.default_rng(1).standard_normal((batch, DIM), np.float32)
    times = []
    for i in range(18):
        start = perf_counter()
        request.infer({"x": x})
        if i >= 3:
            times.append(1e3 * (perf_counter() - start))
    print(f"{statistics.median(times):.3f}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
