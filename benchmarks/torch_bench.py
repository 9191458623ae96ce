"""Speed of ``tilewright.torch``: ``python -m benchmarks.torch_bench [--device cuda] [-o FILE]``.

Conversions as bytes read and written per second, with a copy of the same tensor in the same run.
Then the time of a perplexity of models of given shapes with random weights, in bf16 with and
without Anda in every layer.
``--bits N`` first compares every conversion with the golden models, on N random groups among
others. The figures belong to the device that the record names: those of a processor say nothing
about a GPU. Each measurement is written at once.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from benchmarks.race import Contestant, race
from benchmarks.torch_bits import check
from tilewright.base.records import write_record
from tilewright.golden.deca.scheme import resolve_scheme
from tilewright.torch import AndaConfig, perplexity, quantize_, restore_
from tilewright.torch.convert import along_inputs, book_of, integer_values, to_block_float

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
    """Progress with the time."""
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
