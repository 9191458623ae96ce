"""Records what a processor with AMX gives, for machines without one to compare golden with.

    python -m tests.support.record_amx tests/golden/amx_vectors.json

Operands are random patterns, numbers whose sums cancel and round, and numbers whose products
straddle the smallest normal one; see ``operands_of``.
"""

import base64
import json
import subprocess
import sys
import tempfile
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.silicon import Amx
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
TILE_COUNT, VECTOR_COUNT = 1, 24


def operands_of(name: str, rng: np.random.Generator) -> list[NDArray]:
    """c, a and b of one instruction: whole tiles, or whole registers."""
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
    return [np.concatenate(parts) for parts in zip(random, plain, tiny, strict=True)]


def results_of(name: str, operands: list[NDArray], folder: Path) -> NDArray:
    """What the processor gives."""
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
    record: dict[str, Any] = {"machine": asdict(describe_machine()), "vectors": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name in (*TILES, *VECTORS):
            operands = operands_of(name, rng)
            arrays = [*operands, results_of(name, operands, Path(folder))]
            record["vectors"][name] = dict(zip("cabr", map(as_text, arrays), strict=True))
    Path(sys.argv[1]).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
