"""Speed of ``tilewright.torch``: ``python -m benchmarks.torch_bench [--device cuda] [-o FILE]``.

Conversions as bytes read and written per second, beside a copy of the same tensor in the same run
and, where installed, the MX casts of torchao and microxcaling. Then the time of one prefill of a
model of a given shape with random weights, in the model's dtype with and without a format. The
figures belong to the device that the record names: those of a processor say nothing about a GPU.
"""

import argparse
import json
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from tilewright.golden.deca.scheme import resolve_scheme
from tilewright.torch import AndaConfig, quantize_, restore_
from tilewright.torch.convert import along_inputs, book_of, to_block_float

# Shapes of well-known models: layers, width, inner width, heads, key heads, vocabulary.
SHAPES = {
    "tiny": (2, 256, 512, 4, 2, 1024),
    "135m": (30, 576, 1536, 9, 3, 49152),
    "1b": (16, 2048, 8192, 32, 8, 128256),
    "8b": (32, 4096, 14336, 32, 8, 128256),
}
REPEATS = 5


def seconds(work: Callable[[], Any], device: str) -> float:
    """The shortest of several runs, after one that warms up."""

    def once() -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    once()
    return min(once() for _ in range(REPEATS))


def conversions(device: str, elements: int) -> list[dict[str, Any]]:
    """Bytes moved per second: every element is read and written once in bf16."""
    values = torch.randn(elements // 4096, 4096, device=device, dtype=torch.bfloat16)
    moved = 2 * values.numel() * values.element_size()
    book = book_of(resolve_scheme("mxfp4"), device)
    work: dict[str, Callable[[], Any]] = {
        "copy": lambda: values.clone(),
        "block floating point, eager": lambda: to_block_float(values, 64, 7).bfloat16(),
        "mxfp4, eager": lambda: along_inputs(book, values).bfloat16(),
    }
    if device == "cuda":  # the compiler makes one kernel of each, by Triton
        fused = torch.compile(lambda x: to_block_float(x, 64, 7).bfloat16(), fullgraph=True)
        work["block floating point, compiled"] = lambda: fused(values)
        fused_mx = torch.compile(lambda x: along_inputs(book, x).bfloat16(), fullgraph=True)
        work["mxfp4, compiled"] = lambda: fused_mx(values)
    work.update(_peers(values))
    rows = []
    for name, call in work.items():
        rate = moved / seconds(call, device)
        rows.append({"conversion": name, "gigabytes_per_second": rate / 1e9})
    copy = rows[0]["gigabytes_per_second"]
    return [row | {"share_of_copy": row["gigabytes_per_second"] / copy} for row in rows]


def _peers(values: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """MX casts of others, where they are installed."""
    found: dict[str, Callable[[], Any]] = {}
    if find_spec("torchao") is not None:
        from torchao.prototype.mx_formats.mx_tensor import to_mx

        found["torchao, mxfp8"] = lambda: to_mx(values, torch.float8_e4m3fn, 32)
    if find_spec("mx") is not None:
        from mx.mx_ops import quantize_mx_op

        specs = {"block_size": 32, "scale_bits": 8, "custom_cuda": False}
        found["microxcaling, mxfp4"] = lambda: quantize_mx_op(
            values, specs, elem_format="fp4_e2m1", axes=[-1], round="even"
        )
    return found


def prefills(device: str, shape: str, tokens: int, dtype: torch.dtype) -> list[dict[str, Any]]:
    """Seconds of one forward pass, plain and with Anda in every layer."""
    layers, width, inner, heads, key_heads, vocabulary = SHAPES[shape]
    config = LlamaConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=inner,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        vocab_size=vocabulary,
        max_position_embeddings=max(tokens, 2048),
    )
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    ids = torch.randint(0, vocabulary, (1, tokens), device=device)

    def run() -> None:
        with torch.inference_mode():
            model(input_ids=ids, use_cache=False)

    rows: list[dict[str, Any]] = [{"format": "plain", "seconds": seconds(run, device)}]
    anda = AndaConfig(7, 6, 7, 7)
    quantize_(model, anda)
    rows.append(
        {"format": "Anda, weights converted at every call", "seconds": seconds(run, device)}
    )
    restore_(model)
    quantize_(model, anda, bake=True)
    rows.append({"format": "Anda, weights baked", "seconds": seconds(run, device)})
    if device == "cuda":
        model.compile(fullgraph=True)
        rows.append({"format": "Anda, baked and compiled", "seconds": seconds(run, device)})
    return [row | {"times_plain": row["seconds"] / rows[0]["seconds"]} for row in rows]


def main() -> None:
    """Measure, print, and write a record where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default=None)
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--elements", type=int, default=1 << 22, help="of a converted tensor")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cuda.matmul.allow_tf32 = False
    record = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "pytorch": torch.__version__,
        "conversions": conversions(device, args.elements),
        "shape": args.shape,
        "tokens": args.tokens,
        "dtype": args.dtype,
        "prefills": prefills(device, args.shape, args.tokens, getattr(torch, args.dtype)),
    }
    text = json.dumps(record, indent=1)
    print(text)
    if args.output is not None:
        args.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
