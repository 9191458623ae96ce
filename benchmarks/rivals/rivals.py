"""Milliseconds a token of other programs on the same shape.

    python -m benchmarks.rivals.rivals LLAMA WORK -o OUT.json [--openvino]

LLAMA is a folder with llama.cpp's sources, WORK one with room for a model file. Needs ``gguf``, and
``openvino`` where that is wanted.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

from benchmarks.race import now, rounded
from tilewright.base.records import write_record
from tilewright.kernels.machine import describe_machine

TYPES = {
    "bf16": GGMLQuantizationType.BF16,
    "q8_0": GGMLQuantizationType.Q8_0,
    "q4_0": GGMLQuantizationType.Q4_0,
}
DIM, INNER, HEADS, KV_HEADS = 4096, 14336, 32, 8  # of Llama 3 8B
BLOCK = 32


def random_tensor(kind: str, rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    """(rows, bytes of a row) of one type; a small piece, repeated."""
    piece = min(rows, 256)
    if kind == "bf16":
        values = rng.standard_normal((piece, columns), np.float32) * np.float32(0.02)
        data = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    else:
        codes = BLOCK if kind == "q8_0" else BLOCK // 2
        blocks = rng.integers(0, 256, (piece, columns // BLOCK, 2 + codes), np.uint8)
        step = np.float16(0.02 / 127 if kind == "q8_0" else 0.02 / 8)
        blocks[..., :2] = np.frombuffer(step.tobytes(), np.uint8)
        data = blocks.reshape(piece, -1)
    return np.tile(data, (-(-rows // piece), 1))[:rows]


def write_model(path: Path, kind: str, layers: int, vocabulary: int) -> None:
    """Write the file; ``kind`` is bf16, q8_0 or q4_0."""
    rng = np.random.default_rng(0)
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(32768)
    writer.add_embedding_length(DIM)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(DIM // HEADS)
    writer.add_rope_freq_base(500000.0)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("none")
    made: dict[tuple[int, int], np.ndarray] = {}

    def weight(name: str, rows: int, columns: int) -> None:
        if (rows, columns) not in made:
            made[rows, columns] = random_tensor(kind, rows, columns, rng)
        writer.add_tensor(name, made[rows, columns], raw_dtype=TYPES[kind])

    def norm(name: str) -> None:
        writer.add_tensor(name, np.ones(DIM, np.float32))

    weight("token_embd.weight", vocabulary, DIM)
    keys = DIM // HEADS * KV_HEADS
    for k in range(layers):
        norm(f"blk.{k}.attn_norm.weight")
        norm(f"blk.{k}.ffn_norm.weight")
        for name, rows in (("q", DIM), ("k", keys), ("v", keys), ("output", DIM)):
            weight(f"blk.{k}.attn_{name}.weight", rows, DIM)
        for name, shape in (("gate", (INNER, DIM)), ("up", (INNER, DIM)), ("down", (DIM, INNER))):
            weight(f"blk.{k}.ffn_{name}.weight", *shape)
    norm("output_norm.weight")
    weight("output.weight", vocabulary, DIM)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


HERE = Path(__file__).parent
OPENVINO_LAYERS = 8  # its linear layers alone: its GGUF frontend gives graphs without a cache
SECONDS = 90  # after which a program has failed
PLAN = {"layers": 32, "vocabulary": 128256, "context": 128, "tokens": 16}
BATCHES, REPEATS = (1, 16), 2  # the least time of llama.cpp's runs counts


def milliseconds(command: list[Any]) -> dict[str, Any]:
    """The last line of a program that is a number, or why there is none."""
    words = [str(part) for part in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {SECONDS} s"}
    except OSError as error:
        return {"failed": str(error)}
    found = re.findall(r"^\d+\.\d+$", done.stdout, re.MULTILINE)  # some say goodbye after it
    if not found or done.returncode:
        said = done.stderr.strip().split("\n")[-1][:300]
        return {"failed": f"exit status {done.returncode}: {said}"}
    return {"milliseconds": float(found[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("llama", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--openvino", action="store_true", help="its linear layers too")
    options = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    record: dict[str, Any] = {
        "command": "python -m benchmarks.rivals.rivals LLAMA WORK -o OUT.json",
        "began": now(),
        "processor": describe_machine()["processor"],
        **PLAN,
        "threads": threads,
        "rows": [],
    }

    def note(program: str, kind: str, batch: int, part: str, found: dict[str, Any]) -> None:
        row = {"program": program, "type": kind, "batch": batch, "part": part, **found}
        record["rows"].append(row)
        print(json.dumps(row), flush=True)
        write_record(options.output, rounded(record))

    build = options.work / "build"
    if not (build / "llama_decode").exists():
        subprocess.run(["bash", HERE / "build_llama.sh", options.llama, build], check=True)
    model = options.work / "model.gguf"
    for kind in TYPES:
        write_model(model, kind, PLAN["layers"], PLAN["vocabulary"])
        for batch in BATCHES:
            command = [build / "llama_decode", model, threads]
            command += [batch, PLAN["context"], PLAN["tokens"]]
            tries = [milliseconds(command) for _ in range(REPEATS)]
            found = min(tries, key=lambda one: one.get("milliseconds", float("inf")))
            note("llama.cpp", kind, batch, "tokens", found)
        model.unlink()
    for kind in ("bf16", "int8", "int4") if options.openvino else ():
        for batch in BATCHES:
            command = [sys.executable, HERE / "openvino_layers.py", kind, OPENVINO_LAYERS, batch]
            part = f"linear layers of {OPENVINO_LAYERS} decoder layers"
            note("OpenVINO", kind, batch, part, milliseconds(command))


if __name__ == "__main__":
    main()
