"""Speed of ``tilewright.torch``: ``python -m benchmarks.torch_bench [--device cuda] [-o FILE]``.

Conversions as bytes read and written per second, with a copy of the same tensor in the same run.
Then the time of a perplexity of models of given shapes with random weights, in bf16 with and
without Anda in every layer. ``--bits N`` first compares every conversion with the golden models,
signs of zero included: all 16-bit patterns, random matrices of integer weights, of the OCP
specification's formats and of DECA's schemes, and N random groups of block floating point. The
figures belong to the device that the record names: those of a processor say nothing
about a GPU. Each measurement is written at once.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, LlamaConfig

from benchmarks.race import Contestant, race
from tilewright.base.records import write_record
from tilewright.golden import bfp, weights
from tilewright.golden.deca import SCHEMES, compress, resolve_scheme, restore
from tilewright.golden.params.formats import BlockFormat
from tilewright.torch import AndaConfig, convert, perplexity, quantize_, restore_
from tilewright.torch.convert import (
    along_inputs,
    block_parts,
    book_of,
    integer_values,
    to_block_float,
)

# Shapes of well-known models: layers, width, inner width, heads, key heads, vocabulary.
SHAPES = {
    "tiny": (2, 256, 512, 4, 2, 1024),
    "135m": (30, 576, 1536, 9, 3, 49152),
    "1b": (16, 2048, 8192, 32, 8, 128256),
    "8b": (32, 4096, 14336, 32, 8, 128256),
}
BATCH = {"tiny": 2, "135m": 16, "1b": 4, "8b": 2}  # windows that go through a model together
BANDWIDTH = {"NVIDIA H200": 4.8e12}  # bytes per second, as the vendor says
REPEATS = 5
START = time.monotonic()


def tick(text: str) -> None:
    print(f"{time.monotonic() - START:7.1f} s  {text}", file=sys.stderr, flush=True)


def time_of(work: Callable[[], Any], device: str, repeats: int = REPEATS, calls: int = 1) -> float:
    """The shortest of several turns of ``calls`` in a row, after one that warms up: of one call."""
    last = [torch.cuda.synchronize] if device == "cuda" else []
    turn = Contestant([*[work] * calls, *last], warm=last)
    return race({"": turn}, repeats)[""].least * len(turn.calls) / calls


def conversions(device: str, elements: int) -> list[dict[str, Any]]:
    """Bytes moved per second: every element is read and written once in bf16."""
    values = torch.randn(elements // 4096, 4096, device=device, dtype=torch.bfloat16)
    moved = 2 * values.numel() * values.element_size()
    narrow = torch.bfloat16
    books = {name: book_of(resolve_scheme(name), device) for name in ("mxfp4", "mxfp8_e4m3")}
    work: dict[str, Callable[[], Any]] = {
        "copy": lambda: values.clone(),
        "block floating point, 7 bits": lambda: to_block_float(values, 64, 7, narrow),
        "block floating point, 8 bits, groups of 32": lambda: to_block_float(values, 32, 8, narrow),
        "integer weights, 4 bits": lambda: integer_values(values, 4, 128, narrow),
        "mxfp4": lambda: along_inputs(books["mxfp4"], values, narrow),
        "mxfp8_e4m3": lambda: along_inputs(books["mxfp8_e4m3"], values, narrow),
    }
    if device == "cuda":  # the compiler makes kernels of plain PyTorch, by Triton
        fused = torch.compile(lambda x: to_block_float(x, 64, 7, narrow), fullgraph=True)
        work["block floating point, 7 bits, plain PyTorch compiled"] = lambda: fused(values)
    peak = BANDWIDTH.get(torch.cuda.get_device_name()) if device == "cuda" else None
    calls = 20 if device == "cuda" else 1  # so that a kernel runs while the next one is started
    rows: list[dict[str, Any]] = []
    for name, call in work.items():
        tick(name)
        rate = moved / time_of(call, device, calls=calls)
        row = {"conversion": name, "gigabytes_per_second": rate / 1e9}
        row["share_of_copy"] = rate / 1e9 / (rows or [row])[0]["gigabytes_per_second"]
        if peak is not None:
            row["share_of_peak"] = rate / peak
        rows.append(row)
    return rows


def made(shape: str, window: int, device: str) -> Any:
    layers, width, inner, heads, key_heads, vocabulary = SHAPES[shape]
    config = LlamaConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=inner,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        vocab_size=vocabulary,
        max_position_embeddings=max(window, 2048),
    )
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()


def perplexities(device: str, shape: str, window: int) -> dict[str, Any]:
    """Seconds of the perplexity of a few windows, plain and with Anda in every layer."""
    tick(f"{shape}: weights")
    model = made(shape, window, device)
    batch = BATCH[shape]
    count = 2 * batch
    ids = torch.randint(0, model.config.vocab_size, (count * window,))
    rows: list[dict[str, Any]] = []

    def measure(name: str, beside: str = "plain") -> None:
        tick(f"{shape}: {name}")
        took = time_of(lambda: perplexity(model, ids, window, batch=batch), device, 3)
        plain = next((row["seconds"] for row in rows if row["format"] == beside), took)
        rows.append({"format": name, "seconds": took, "times_plain": took / plain})

    anda = AndaConfig(7, 6, 7, 7)
    measure("plain")
    quantize_(model, anda)
    measure("Anda, weights converted at every call")
    restore_(model)
    compiled = device == "cuda"
    if compiled:
        _compile_layers(model)
        measure("plain, layers compiled")
        _undo_compile(model)
    quantize_(model, anda, bake=True)
    measure("Anda, weights converted once")
    if compiled:
        _compile_layers(model)
        measure("Anda, weights converted once, layers compiled", "plain, layers compiled")
    return {"shape": shape, "window": window, "batch": batch, "windows": count, "times": rows}


def _compile_layers(model: Any) -> None:
    """Each decoder layer by itself: one compilation serves all."""
    for layer in model.model.layers:
        layer.compile(fullgraph=True, dynamic=False)


def _undo_compile(model: Any) -> None:
    torch._dynamo.reset()
    for layer in model.model.layers:
        layer._compiled_call_impl = None


# --- bits against the golden models

BLOCKS = ((64, 7), (64, 4), (32, 8), (32, 1), (16, 11), (8, 16))  # group, mantissa bits
INTEGERS = ((4, 128), (4, 32), (8, 64), (2, 16), (3, 128))  # bits, group
CHUNK = 50_000  # groups of a task
ALL = np.arange(1 << 16, dtype=np.uint16)
Patterns = NDArray[np.uint32]


def random_words(seed: int, count: int) -> tuple[NDArray[np.uint16], int, int]:
    """fp16 patterns: half of the groups any pattern, half of one magnitude as activations are."""
    rng = np.random.default_rng((7, seed))
    group, length = BLOCKS[rng.integers(len(BLOCKS))]
    words = rng.integers(0, 1 << 16, (count, group), dtype=np.uint16)
    scale = np.exp2(rng.integers(-20, 8, (count, 1))).astype(np.float32)
    normal = rng.standard_normal((count, group), dtype=np.float32) * scale
    chosen = rng.random((count, 1)) < 0.5
    with np.errstate(over="ignore"):
        return np.where(chosen, words, normal.astype(np.float16).view(np.uint16)), group, length


def golden_blocks(words: NDArray[np.uint16], group: int, length: int) -> Patterns:
    fmt = BlockFormat(group=group, mantissa_bits=length)
    return _patterns(bfp.decode(fmt, bfp.encode(fmt, words, saturate=True)))


def _patterns(values: Any) -> Patterns:
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def check(device: str, groups: int, tick: Callable[[str], None]) -> list[dict[str, Any]]:
    """Elements compared and how many differ, by conversion."""
    rows = [_every_pattern(device), *_weights(device)]
    if device == "cuda":
        rows.append(_compiled(device))
    for row in rows:
        tick(f"{row['conversion']}: {row.get('differ')} of {row.get('elements')} differ")
    rows.append(_random_groups(device, groups, tick))
    return rows


def _on(device: str, words: NDArray[np.uint16]) -> Any:
    return torch.from_numpy(words.view(np.int16)).to(device)


def _differ(got: Any, wanted: Patterns) -> int:
    bits = torch.from_numpy(wanted.view(np.int32)).to(got.device)
    return int((got.float().contiguous().view(torch.int32) != bits).sum())


def _block_cases() -> Iterator[tuple[NDArray[np.uint16], int, int]]:
    for group, length in BLOCKS:
        alone = np.zeros((1 << 16, group), np.uint16)
        alone[:, group // 2] = ALL
        yield alone, group, length
        yield ALL.reshape(-1, group), group, length


def _every_pattern(device: str) -> dict[str, Any]:
    """Every fp16 pattern alone in its group and among its neighbours, as values and as parts."""
    differ = elements = 0
    for words, group, length in _block_cases():
        wanted = golden_blocks(words, group, length)
        halves = _on(device, words).view(torch.float16)
        parts = block_parts(halves, group, length).values(length).flatten(-2)
        differ += _differ(to_block_float(halves, group, length), wanted) + _differ(parts, wanted)
        elements += 2 * words.size
    return _row("block floating point, every fp16 pattern", elements, differ, groups=None)


def _compiled(device: str) -> dict[str, Any]:
    """Plain PyTorch as compiled, whose casts and divisions may be shortened."""
    rng = np.random.default_rng(9)
    values = rng.standard_normal((1 << 14, 256)) * np.exp2(rng.integers(-26, 18, (1 << 14, 1)))
    narrow = values.astype(np.float32)
    with np.errstate(over="ignore"):
        words = narrow.astype(np.float16).view(np.uint16)
    fused = torch.compile(lambda x: to_block_float(x, 64, 9), fullgraph=True)
    wanted = golden_blocks(words, 64, 9)
    name = "block floating point of float32, compiled"
    differ = _differ(fused(torch.from_numpy(narrow).to(device)), wanted)
    return _row(name, wanted.size, differ, wanted.size // 64)


def _weights(device: str) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(8)
    finite = ALL[(ALL & 0x7F80) != 0x7F80]
    every = (finite.astype(np.uint32) << 16).view(np.float32)
    random = (rng.standard_normal((512, 2000)) * np.exp2(rng.integers(-9, 6, (512, 1)))).astype(
        "f4"
    )
    random[:2], random[2, ::3] = 0, -0.0
    kinds = (torch.float32, torch.bfloat16, torch.float16)
    for name, dtype in zip(("float32", "bf16", "fp16"), kinds, strict=True):
        matrix = torch.from_numpy(random).to(dtype)
        differ = elements = groups = 0
        for bits, group in INTEGERS:
            wanted = weights.dequantise(weights.quantise(matrix.float().numpy(), bits, group))
            got = integer_values(matrix.to(device), bits, group)
            differ += _differ(got, _patterns(wanted))
            elements, groups = elements + wanted.size, groups + wanted.size // group
        yield _row(f"integer weights of {name}", elements, differ, groups)
    for name in sorted(name for name, scheme in SCHEMES.items() if not scheme.config.int8):
        scheme = SCHEMES[name]
        book = book_of(scheme, device)
        differ = elements = 0
        for flat in (every, rng.permutation(every), random[:64].reshape(-1)):
            tiles = flat[: len(flat) // 512 * 512].reshape(-1, 32)
            golden = _patterns(restore(compress(tiles, scheme)))
            tensor = torch.from_numpy(tiles).to(device)
            differ += _differ(convert.compressed_weights(book, tensor), golden)
            elements += golden.size
            if book.mini is not None:  # groups along the rows, as those of activations
                differ += _differ(along_inputs(book, tensor), golden)
                elements += golden.size
        yield _row(f"scheme {name}, every finite bf16 pattern", elements, differ, groups=None)


def _random_groups(device: str, groups: int, tick: Callable[[str], None]) -> dict[str, Any]:
    differ = elements = done = 0
    while done < groups:
        words, group, length = random_words(done, min(CHUNK, groups - done))
        halves = _on(device, words).view(torch.float16)
        got = to_block_float(halves, group, length)
        differ += _differ(got, golden_blocks(words, group, length))
        elements, done = elements + words.size, done + len(words)
        if done % 1_000_000 < CHUNK:
            tick(f"random groups: {done}, {differ} elements differ")
    return _row("block floating point, random groups", elements, differ, done)


def _row(name: str, elements: int, differ: int, groups: int | None) -> dict[str, Any]:
    return {"conversion": name, "elements": elements, "groups": groups, "differ": differ}


# --- the record


def measure(args: argparse.Namespace, device: str) -> Iterable[dict[str, Any]]:
    triton = find_spec("triton") is not None and device == "cuda"
    record: dict[str, Any] = {
        "command": "python -m benchmarks.torch_bench " + " ".join(sys.argv[1:]),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "pytorch": torch.__version__,
        "kernels": "Triton" if triton else "plain PyTorch",
    }
    if args.bits:
        record["bits"] = check(device, args.bits, tick)
        yield record
    record["elements"] = args.elements
    record["conversions"] = conversions(device, args.elements)
    yield record
    record["perplexities"] = []
    for shape in args.shapes:
        record["perplexities"].append(perplexities(device, shape, args.window))
        if device == "cuda":
            torch._dynamo.reset()
            torch.cuda.empty_cache()
        yield record
    tick("done")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default=None)
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=["tiny"])
    parser.add_argument("--window", type=int, default=512, help="tokens of a sequence")
    parser.add_argument("--elements", type=int, default=1 << 22, help="of a converted tensor")
    parser.add_argument("--bits", type=int, default=0, help="random groups to compare")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = False
    record = {}
    for record in measure(args, device):
        if args.output is not None:
            write_record(args.output, record)
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
