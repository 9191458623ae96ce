"""Records what a processor with AMX gives, for machines without one to compare golden with.

    python -m tests.support.record_amx tests/golden/amx_vectors.json

Operands are random patterns, numbers whose sums cancel and round, numbers whose products straddle
the smallest normal one, and sums a fraction of an ulp away from it; see ``operands_of``.
"""

import base64
import json
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.silicon import Amx, fma_that_flushes
from tilewright.golden.bits import encode
from tilewright.golden.params.formats import BF16, FP32
from tilewright.kernels.machine import describe_machine

SOURCE = Path(__file__).with_name("vector.c")
FLAGS = [
    *("-O2", "-mavx512f", "-mavx512bw", "-mavx512vbmi", "-mavx512vbmi2"),
    *("-mavx512bf16", "-mavx512vnni"),
]
TILES = {"tdpbf16ps": (np.uint32, np.uint16, np.uint16), "tdpbssd": (np.int32, np.int8, np.int8)}
VECTORS = {
    "vdpbf16ps": (np.uint32, np.uint16, np.uint16),
    "vpdpbusd": (np.int32, np.uint8, np.int8),
    "vpexpandw": (np.uint32, np.uint16, np.uint16),
    "vpexpandb": (np.uint64, np.uint8, np.uint8),
    "vpmultishiftqb": (np.uint64, np.uint8, np.uint64),
}
SCALARS = {"fma": (np.uint32, np.uint32, np.uint32)}  # vfmadd, flush-to-zero set
TILE_COUNT, VECTOR_COUNT = 1, 24
WINDOW_SEED = 12


def operands_of(name: str, rng: np.random.Generator) -> list[NDArray]:
    """c, a and b of one instruction: whole tiles, or whole registers."""
    if name in SCALARS:
        return scalars_in_window()
    shape = (TILE_COUNT, 1024) if name in TILES else (VECTOR_COUNT, 64)
    types = (TILES | VECTORS)[name]
    random = [rng.integers(0, 256, shape, np.uint8).view(t) for t in types]
    if "bf16" not in name:
        return random
    sizes = [r.shape for r in random]
    plain, tiny = (
        [
            encode(fmt, rng.normal(0, 1, size) * 2.0 ** rng.integers(low, high, size)).astype(t)
            for fmt, size, t, (low, high) in zip(
                (FP32, BF16, BF16), sizes, types, ranges, strict=True
            )
        ]
        for ranges in (((-6, 7),) * 3, ((-126, -120), (-66, -58), (-66, -58)))
    )
    window = tiles_in_window() if name in TILES else registers_in_window()
    return [np.concatenate(parts) for parts in zip(random, plain, tiny, window, strict=True)]


def scalars_in_window() -> list[NDArray]:
    """c near the smallest normal and products of a few eighths of its ulp, both signs of each."""
    rng = np.random.default_rng(WINDOW_SEED)
    ulps, eighths = (x.ravel() for x in np.meshgrid(np.arange(-2, 4), np.arange(-32, 33)))
    c, a = 2.0**-126 + ulps * 2.0**-149, eighths * 2.0**-26
    b = np.full(c.shape, 2.0**-126)
    # And products of any 48 bits that reach down from the ulp.
    more = 1000
    c = np.concatenate([c, 2.0**-126 + rng.integers(-2, 3, more) * 2.0**-149])
    a = np.concatenate([a, rng.uniform(-2, 2, more) * 2.0**-75])
    b = np.concatenate([b, rng.uniform(1, 2, more) * 2.0 ** rng.integers(-78, -73, more)])
    c, a = np.concatenate([c, -c]), np.concatenate([a, a])
    return [encode(FP32, x)[:, np.newaxis] for x in (c, a, np.concatenate([b, b]))]


def registers_in_window() -> list[NDArray]:
    """Operands of VDPBF16PS: lane n adds n eighths of the smallest normal's ulp, in every order."""
    eighths, none = np.arange(16) * 2.0**-26, np.zeros(16)
    smallest, tiny = np.full(16, 2.0**-63), np.full(16, 2.0**-126)
    registers = []
    for sign in (1.0, -1.0):
        for factor in (1.0, -1.0, -0.5, -129 / 128, -3.0):
            small, large = (factor * eighths, tiny), (smallest, smallest)
            for ulps in range(3):  # the running sum comes in as c; the product is odd, even, both
                c = np.full(16, 2.0**-126 + ulps * 2.0**-149)
                registers += [(sign * c, small, (none, none)), (sign * c, (none, none), small)]
                registers.append((sign * c, small, small))
            registers += [(none, large, small), (none, small, large)]  # the sum is a product
    c = np.array([encode(FP32, c) for c, _, _ in registers])
    pairs = [
        [encode(BF16, np.stack([even[k], odd[k]], axis=1).ravel()) for _, odd, even in registers]
        for k in range(2)
    ]
    return [c, *(np.array(pair) for pair in pairs)]


def tiles_in_window() -> list[NDArray]:
    """Operands of TDPBF16PS: three products, of 2^-126, of 2^-149 and below, in every order.

    Row m of a has the sign, how many ulps, and a factor; column n has n eighths of an ulp. The
    products are in the even depths, in the odd ones, or in both.
    """
    rng = np.random.default_rng(WINDOW_SEED)
    row, column = np.arange(16), np.arange(16)
    sign = np.where(row % 2, -1.0, 1.0)
    factor = np.array([-1.0, -0.5, -129 / 128, 1.0])[row // 4]
    left = [sign * 2.0**-63, sign * (row // 2 % 4) * 2.0**-75, sign * factor * 2.0**-26]
    right = [np.full(16, 2.0**-63), np.full(16, 2.0**-74), column * 2.0**-126]
    tiles = []
    for parities in ((0,), (1,), (0, 1)):
        for _ in range(4):
            a, b = np.zeros((16, 16, 2)), np.zeros((16, 16, 2))  # row, pair; pair, column
            for parity in parities:
                depths = rng.choice(16, 3, replace=False)
                for depth, x, y in zip(depths, left, right, strict=True):
                    a[:, depth, parity], b[depth, :, parity] = x, y
            c = np.zeros((16, 16))
            if len(parities) == 2:
                c = rng.choice([-1, 1], c.shape) * (2.0**-126 + rng.integers(0, 4) * 2.0**-149)
            tiles.append((c, a, b))
    return [
        np.array([encode(fmt, tile[k]).ravel() for tile in tiles])
        for k, fmt in enumerate((FP32, BF16, BF16))
    ]


def results_of(name: str, operands: list[NDArray], folder: Path) -> NDArray:
    """The processor's results."""
    if name in SCALARS:
        return fma_that_flushes(*operands, folder)
    if name in TILES:
        c, a, b = operands
        rows = [c.reshape(len(c), 16, 16), a.reshape(len(a), 16, -1), b.reshape(len(b), 16, -1)]
        return getattr(Amx(folder), name)(*rows).reshape(c.shape)
    program = folder / "vector"
    subprocess.run(["cc", *FLAGS, str(SOURCE), "-o", str(program)], check=True)
    stream = np.concatenate([x.view(np.uint8) for x in operands], axis=1).tobytes()
    done = subprocess.run([program, name], input=stream, stdout=subprocess.PIPE, check=True)
    kind = operands[1].dtype if "expand" in name or "shift" in name else operands[0].dtype
    return np.frombuffer(done.stdout, kind).reshape(len(operands[0]), -1)


def as_text(array: NDArray) -> dict[str, Any]:
    packed = zlib.compress(np.ascontiguousarray(array).tobytes(), 9)
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "zlib": base64.b64encode(packed).decode(),
    }


def as_array(text: dict[str, Any]) -> NDArray:
    """Inverse of :func:`as_text`."""
    content = zlib.decompress(base64.b64decode(text["zlib"]))
    return np.frombuffer(content, text["dtype"]).reshape(text["shape"])


def main() -> None:
    rng = np.random.default_rng(11)
    record: dict[str, Any] = {"machine": describe_machine(), "vectors": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name in (*TILES, *VECTORS, *SCALARS):
            operands = operands_of(name, rng)
            arrays = [*operands, results_of(name, operands, Path(folder))]
            record["vectors"][name] = dict(zip("cabr", map(as_text, arrays), strict=True))
    Path(sys.argv[1]).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
