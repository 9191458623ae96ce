"""A compressed matrix times activations: DECA in simulation gives the tiles, golden AMX multiplies.

The matrix is packed as a core would lay it out, its tiles stream through both loaders of the
element, and the product of what comes out is compared with golden's, bit for bit.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, print_table, progress
from tilewright.base.errors import CommandError

if TYPE_CHECKING:
    import numpy as np

    from tilewright.golden.deca import CompressedMatrix

BENCH = "tilewright.verify.deca.gemm"
BASE = 1 << 32  # of the matrix in memory; nothing depends on it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("deca.gemm", "a compressed matrix multiplication")
    group.add_argument("--m", type=int, default=256, metavar="M", help="rows of weights [256]")
    group.add_argument("--k", type=int, default=1024, metavar="K", help="columns of weights [1024]")
    group.add_argument("--n", type=int, default=16, metavar="N", help="activation vectors [16]")
    group.add_argument("--scheme", default="bf8", help="as of `tilewright pack` [bf8]")
    group.add_argument("--density", type=float, metavar="D", help="share of weights kept [all]")
    group.add_argument(
        "--weights", metavar="MODEL", help="a model as of `tilewright pack`, for its only matrix"
    )
    group.add_argument("--tensor", metavar="NAME", help="or this one of its matrices")
    group.add_argument(
        "--prefetch", type=int, default=8, metavar="DEGREE", help="tiles ahead, 0..15 [8]"
    )
    group.add_argument(
        "--near", type=int, default=14, metavar="CYCLES", help="of a prefetched line [14]"
    )
    group = parser.add_argument_group(
        "deca.gemm, anda, harmonia, anda.block, deca.block, harmonia.block"
    )
    group.add_argument(
        "--latency", type=int, default=100, metavar="CYCLES", help="of the memory [100]"
    )


def run(args: argparse.Namespace) -> int:
    import numpy as np

    from tilewright.golden.deca import compress, resolve_scheme
    from tilewright.golden.params.deca import DecaParams
    from tilewright.golden.params.resolve import resolve

    params = resolve(args.on or "deca")
    if type(params) is not DecaParams:
        raise CommandError(f"deca.gemm runs on a block deca, not {params.block}")
    limits = {"m": None, "k": None, "n": None, "latency": None, "near": None, "prefetch": 15}
    for name, most in limits.items():
        _require(name, getattr(args, name), most)
    rng = np.random.default_rng(args.seed)
    weights = _read_weights(args.weights, args.tensor) if args.weights else _weights(args, rng)
    matrix = compress(weights, resolve_scheme(args.scheme), args.density)
    activations = _activations(matrix.scheme.config.int8, (matrix.shape[1], args.n), rng)
    with progress("deca.gemm", 1) as tick:
        tick("simulation", steps=0)
        result = run_matrix(args, params, matrix, activations)
        tick()
    if result is None:
        return 1
    result["density"] = args.density
    print_json(result) if args.json else _print(result)
    return 0 if result["equal"] else 1


def run_matrix(
    args: argparse.Namespace, params: Any, matrix: "CompressedMatrix", activations: "np.ndarray"
) -> dict[str, Any] | None:
    """Streams the matrix through the element; its product with (columns, N) against golden's.

    A bench that fails is told on the spot; the result is None then.
    """
    import numpy as np

    from tilewright.golden.deca import gemm, gemm_of_tiles, tile_cycles
    from tilewright.golden.deca.coding import decode_tiles

    config = matrix.scheme.config
    if not params.supports(config):
        raise CommandError(f"{params.slug} cannot scale groups of {config.group} elements")
    tiles, numbers, failure = _stream(args, params, matrix)
    if failure is not None:
        print(failure)
        return None
    got = gemm_of_tiles(config, matrix.shape, tiles, activations)
    want = gemm(matrix, activations)
    cycles = tile_cycles(params, config, decode_tiles(matrix.tiles).mask)
    return {
        "block": params.slug,
        "scheme": matrix.scheme.name,
        "shape": [*matrix.shape, activations.shape[1]],
        "tiles": len(matrix.tiles),
        "bytes": matrix.tiles.size,
        "equal": bool(np.array_equal(got, want)),
        "wrong": int(np.count_nonzero(got != want)),
        "cycles": numbers["gemm_cycles"],
        "cycles_per_tile": numbers["gemm_cycles"] / len(matrix.tiles),
        "vector_operations_per_tile": float(cycles.vector_operations.mean()),
        "bubbles_per_tile": float(cycles.bubbles.mean()),
        "lines_read": numbers["lines_read"],
        "lines_prefetched": numbers["lines_prefetched"],
        "prefetch_accuracy": _share(numbers["prefetched_and_read"], numbers["lines_prefetched"]),
        "read_after_prefetch": _share(numbers["read_near"], numbers["lines_read"]),
    }


def _require(name: str, value: int, most: int | None) -> None:
    least = 0 if name == "prefetch" else 1
    if value < least or (most is not None and value > most):
        wanted = f"at least {least}" if most is None else f"{least}..{most}"
        raise CommandError(f"{name} must be {wanted}, not {value}")


def _weights(args: argparse.Namespace, rng: "np.random.Generator") -> "np.ndarray":
    """Heavy-tailed, as those of language models are."""
    import numpy as np

    return (0.02 * rng.standard_t(4, (args.m, args.k))).astype(np.float32)


def _read_weights(model: str, name: str | None) -> "np.ndarray":
    from tilewright.golden.packed import as_matrix
    from tilewright.studies.model_files import open_model

    with open_model(model) as tensors:
        matrices = [t.name for t in tensors.values() if t.rows is not None]
        if name is None and len(matrices) != 1:
            raise CommandError(f"{model} has {len(matrices)} matrices: choose one with --tensor")
        name = name or matrices[0]
        if name not in matrices:
            raise CommandError(f"{model} has no matrix {name!r}; it has {', '.join(matrices)}")
        tensor = tensors[name]
        return tensor.rows(0, as_matrix(tensor.shape)[0])


def _activations(int8: bool, shape: tuple[int, int], rng: "np.random.Generator") -> "np.ndarray":
    import numpy as np

    from tilewright.golden.bits import encode
    from tilewright.golden.params.formats import BF16

    if int8:
        return rng.integers(-128, 128, shape).astype(np.int8)
    return encode(BF16, rng.normal(0, 1, shape))


def _stream(
    args: argparse.Namespace, params: Any, matrix: "CompressedMatrix"
) -> "tuple[np.ndarray, dict[str, Any], str | None]":
    """The matrix's tiles as the simulated element gives them, its numbers, or what went wrong."""
    import numpy as np

    from tilewright.golden.deca import lay_out
    from tilewright.verify.job import Job
    from tilewright.verify.simulators import default_simulator, run_bench
    from tilewright.verify.simulators.verilog import block_verilog

    image = lay_out(matrix.tiles, BASE)
    config = matrix.scheme.config
    spec = args.on or "deca"
    with tempfile.TemporaryDirectory(prefix="tilewright-") as name:
        folder = Path(name)
        np.savez(
            folder / "matrix.npz",
            base=image.base,
            content=image.content,
            config=config.encode(),
            lut=matrix.scheme.lut_image(),
            **image.commands,
        )
        task = {
            "folder": name,
            "prefetch": args.prefetch,
            "latency": args.latency,
            "near": args.near,
        }
        result = run_bench(
            block_verilog(spec),
            params.slug,
            BENCH,
            simulator=args.simulator or default_simulator(),
            job=Job(spec, len(image), args.seed, stalls=(0.0,)).as_dict(),
            waves=args.waves,
            environment={"TILEWRIGHT_TASK": json.dumps(task)},
        )
        if not result.passed:
            return np.zeros(0), {}, result.failure
        tiles = np.load(folder / "tiles.npy")
    dtype = np.uint8 if config.int8 else np.dtype("<u2")
    return tiles.view(dtype), result.numbers, None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _print(result: dict[str, Any]) -> None:
    m, k, n = result["shape"]
    verdict = "equals golden's" if result["equal"] else f"differs in {result['wrong']} elements"
    density = "" if result["density"] is None else f" at density {result['density']:g}"
    print(f"{m}x{k} {result['scheme']}{density} times {k}x{n} on {result['block']}: {verdict}\n")
    percent = {
        name: "-" if result[name] is None else f"{result[name]:.1%}"
        for name in ("prefetch_accuracy", "read_after_prefetch")
    }
    print_table(
        ("", "VALUE"),
        [
            ("tiles", f"{result['tiles']:,}"),
            ("bytes", f"{result['bytes']:,}"),
            ("cycles", f"{result['cycles']:,}"),
            ("cycles a tile", f"{result['cycles_per_tile']:.2f}"),
            ("vector operations a tile", f"{result['vector_operations_per_tile']:.2f}"),
            ("bubbles a tile", f"{result['bubbles_per_tile']:.2f}"),
            ("lines read", f"{result['lines_read']:,}"),
            ("lines prefetched", f"{result['lines_prefetched']:,}"),
            ("of these read later", percent["prefetch_accuracy"]),
            ("reads that found a prefetched line", percent["read_after_prefetch"]),
        ],
    )
