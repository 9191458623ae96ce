"""Writes a GGUF file of a Llama's shape with random weights: speed needs no trained ones."""

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

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
