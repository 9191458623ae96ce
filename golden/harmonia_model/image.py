"""The contents of a model's image: weights, embeddings and more as lines of external memory."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bits import encode
from tilewright.golden.harmonia_machine.isa import decode
from tilewright.golden.harmonia_machine.layout import halves_rows, to_bytes, weight_rows
from tilewright.golden.harmonia_model.choice import choice_tables
from tilewright.golden.harmonia_model.lines import Lines
from tilewright.golden.harmonia_model.plan import MATRICES, Matrix, Plan
from tilewright.golden.harmonia_model.prompt_step import entering_load
from tilewright.golden.harmonia_model.quantised import halved, layer_bias, layer_matrix
from tilewright.golden.harmonia_model.writer import NORM_SHARE
from tilewright.golden.llm.model import Model
from tilewright.golden.machine.stream import rewrite
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia_machine import Memory
from tilewright.golden.weights import Weights

__all__ = ["constants", "enter_tokens", "logits_of"]

Bytes = NDArray[np.uint8]
_PIECE = 1 << 20  # weights of a piece of the head, or numbers of one of the embeddings


def constants(
    plan: Plan, lines: Lines, model: Model, head: Weights
) -> Iterator[tuple[str, int, Bytes]]:
    """Name, first line and bytes of everything that no program changes, one tensor at a time."""
    for number, layer in enumerate(model.layers):
        first = lines.layers + number * lines.layer
        for line, norm in zip(lines.norms, (layer.attention_norm, layer.feed_norm), strict=True):
            name = "attention_norm" if line == lines.norms[0] else "feed_norm"
            yield f"layers.{number}.{name}", first + line, _gain(plan, norm.gain)
        if plan.config.query_bias:
            values = _all_banks(plan, layer_bias(plan, layer))
            yield f"layers.{number}.bias", first + lines.bias, values
        for name in MATRICES:
            matrix = plan.matrices[name]
            data = _matrix(plan, matrix, layer_matrix(plan, layer, matrix))
            yield f"layers.{number}.{name}", first + lines.matrices[name], data
    yield from _head_pieces(plan, lines, head)
    yield "final_norm", lines.final_norm, _gain(plan, model.final_norm.gain)
    yield from _embeddings(plan, lines, model)
    for name, line, data in zip(
        ("choice.places", "choice.parts"), lines.choice_tables, choice_tables(plan), strict=True
    ):
        yield name, line, data
    yield "rotations", lines.rotation(0), _rotations(plan, model)


def _head_pieces(plan: Plan, lines: Lines, head: Weights) -> Iterator[tuple[str, int, Bytes]]:
    """The head in pieces of some parts each: it is the largest matrix by far."""
    matrix = plan.matrices["head"]
    outputs = matrix.part_tiles * plan.params.columns
    step = max(1, _PIECE // (outputs * matrix.inputs))
    for first in range(0, matrix.parts, step):
        count = min(step, matrix.parts - first)
        rows = slice(first * outputs, (first + count) * outputs)
        piece = Weights(head.fmt, head.values[rows], head.scales[rows], head.group)
        if not len(piece.values):
            return  # what only fills the matrix up stays zero
        name = "head" if count == matrix.parts else f"head.{first // step}"
        data = _matrix(plan, replace(matrix, parts=count), piece)
        yield name, lines.head + first * matrix.part_lines, data


def _embeddings(plan: Plan, lines: Lines, model: Model) -> Iterator[tuple[str, int, Bytes]]:
    """Vectors of the vocabulary, some tiles at a time: of a lazy model no more are read."""
    c, rows, size = plan.config, plan.params.rows, lines.embedded_tile * plan.params.line_bytes
    step = max(1, _PIECE // (rows * c.hidden_size)) * rows
    for first in range(0, c.vocab_size, step):
        vectors = encode(FP16, model.embedding[first : first + step].astype(np.float64))
        words = halves_rows(plan.params, vectors).astype("<u2")
        tiles = words.reshape(-(-len(vectors) // rows), -1)
        data = np.zeros((len(tiles), size), np.uint8)
        data[:, : 2 * tiles.shape[1]] = tiles.view(np.uint8)
        name = "embedding" if c.vocab_size <= step else f"embedding.{first}"
        yield name, lines.embedding(first)[0], data.reshape(-1)


def _matrix(plan: Plan, matrix: Matrix, weights: Weights) -> Bytes:
    p = plan.params
    operands, scales = weight_rows(p, halved(weights, p.group))
    data = np.zeros((matrix.parts, matrix.part_lines * p.line_bytes), np.uint8)
    for part in range(matrix.parts):
        rows = slice(part * matrix.part_rows, (part + 1) * matrix.part_rows)
        first = to_bytes(p, Memory.OPERANDS, operands[rows])
        second = to_bytes(p, Memory.SCALES, scales[rows])
        data[part, : len(first)] = first
        data[part, matrix.scale_lines * p.line_bytes :][: len(second)] = second
    return data.reshape(-1)


def _gain(plan: Plan, gain: NDArray[np.float32]) -> Bytes:
    return _all_banks(plan, gain.astype(np.float64) * np.sqrt(NORM_SHARE))


def _all_banks(plan: Plan, values: NDArray[np.floating]) -> Bytes:
    return _halves(plan, np.tile(encode(FP16, values), (plan.params.rows, 1)))


def _halves(plan: Plan, values: NDArray[np.uint16]) -> Bytes:
    """fp16 patterns (tokens, elements) of one token tile."""
    return to_bytes(plan.params, Memory.FP16, halves_rows(plan.params, values))


def _rotations(plan: Plan, model: Model) -> Bytes:
    """Cosines, then sines, of every token tile; those of queries carry 1 / sqrt(channels)."""
    c, p = plan.config, plan.params
    frequency = c.rope_theta ** -(np.arange(0, c.head_dim, 2) / c.head_dim)
    if model.rope_factors is not None:
        frequency = frequency / model.rope_factors
    share = np.full(c.num_attention_heads, 1 / np.sqrt(c.head_dim))
    factors = np.concatenate([share, np.ones(c.num_key_value_heads)])[:, np.newaxis]
    pieces = []
    for tile in range(-(-plan.context // p.rows)):
        angle = np.arange(tile * p.rows, (tile + 1) * p.rows)[:, np.newaxis] * frequency
        for values in (np.cos(angle), np.sin(angle)):
            table = (values[:, np.newaxis, :] * factors).reshape(p.rows, -1)
            pieces.append(_halves(plan, encode(FP16, table)))
    return np.concatenate(pieces)


def enter_tokens(plan: Plan, lines: Lines, memory: Bytes, program: int, *tokens: int) -> None:
    """Let tokens enter the step whose program begins at the line ``program``.

    What a host does: it writes lines and banks of the tokens' vectors into the loads that the
    program begins with.
    """
    for number, token in enumerate(tokens):
        line, bank = lines.embedding(token)
        fields = {"line": line, "spread": bank + 1}
        rewrite(plan.params, memory, program, entering_load(number), decode, **fields)


def logits_of(plan: Plan, lines: Lines, memory: Bytes) -> NDArray[np.float32]:
    """(banks, vocabulary), as the head's program has left them."""
    p, matrix = plan.params, plan.matrices["head"]
    rows = matrix.part_tiles * p.tile_words
    size = lines.logit_part * p.line_bytes
    start = lines.logits * p.line_bytes
    parts = memory[start : start + matrix.parts * size].reshape(matrix.parts, size)
    used = rows * p.rows * p.word_values * 2
    words = parts[:, :used].copy().view(np.float16).reshape(-1, p.rows, p.word_values)
    values = words.swapaxes(0, 1).reshape(p.rows, -1)
    return values[:, : plan.config.vocab_size].astype(np.float32)
