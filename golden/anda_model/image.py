"""The contents of a model's image: weights, norms and rotations as lines of external memory."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.anda_machine.attention_writer import Constants
from tilewright.golden.anda_machine.isa import decode
from tilewright.golden.anda_machine.layout import fp16_rows, fp16_values, to_bytes, weight_rows
from tilewright.golden.anda_machine.layout import from_bytes as rows_of_bytes
from tilewright.golden.anda_model.choice import countdown
from tilewright.golden.anda_model.lines import Lines
from tilewright.golden.anda_model.plan import MATRICES, Matrix, Plan
from tilewright.golden.bits import encode
from tilewright.golden.harmonia_model.quantised import halved
from tilewright.golden.harmonia_model.writer import NORM_SHARE
from tilewright.golden.llm.model import Layer, Linear, Model
from tilewright.golden.machine.stream import rewrite
from tilewright.golden.params.anda_machine import Memory
from tilewright.golden.params.formats import FP16
from tilewright.golden.weights import Weights

__all__ = ["constants", "enter_tokens", "logits_of"]

EMBEDDED = 4096  # words of the vocabulary that are written at a time

Bytes = NDArray[np.uint8]


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
            yield f"layers.{number}.bias", first + lines.bias, _bias(plan, layer)
        for name in MATRICES:
            matrix = plan.matrices[name]
            data = _matrix(plan, lines, matrix, _layer_matrix(layer, name))
            yield f"layers.{number}.{name}", first + lines.matrices[name], data
    yield "head", lines.head, _matrix(plan, lines, plan.matrices["head"], head)
    yield "final_norm", lines.final_norm, _gain(plan, model.final_norm.gain)
    yield from _embeddings(plan, lines, model)
    yield "countdown", lines.countdown, _words(plan, encode(FP16, countdown(plan)))
    yield "rotations", lines.rotation(0), _rotations(plan, model)
    for tile in range(lines.rotated_tiles):
        yield f"rotations.{tile}", lines.tile_rotation(tile), _tile_rotations(plan, model, tile)
    yield "constants", lines.constants, Constants(plan.params).data()


def _layer_matrix(layer: Layer, name: str) -> Weights:
    """One of a layer's matrices; that of the projections has all three."""
    if name != "qkv":
        return _integers(getattr(layer, name))
    parts = [_integers(linear) for linear in (layer.query, layer.key, layer.value)]
    return Weights(
        parts[0].fmt,
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.scales for part in parts]),
        parts[0].group,
    )


def _integers(linear: Linear) -> Weights:
    assert linear.integers is not None
    return linear.integers


def _matrix(plan: Plan, lines: Lines, matrix: Matrix, weights: Weights) -> Bytes:
    p = plan.params
    size = lines.part(matrix, 1)[0] * p.line_bytes
    data = np.zeros((matrix.parts, size), np.uint8)
    for part in range(matrix.parts):
        first = part * matrix.part_tiles * matrix.columns
        outputs = slice(first, first + matrix.part_tiles * matrix.columns)
        if not matrix.tiles_of(part):
            continue
        chosen = Weights(
            weights.fmt, weights.values[outputs], weights.scales[outputs], weights.group
        )
        rows, scales = weight_rows(p, halved(chosen, p.group))
        for line, memory, content in zip(
            lines.part(matrix, 0), (Memory.WEIGHTS, Memory.SCALES), (rows, scales), strict=True
        ):
            octets = to_bytes(p, memory, content)
            data[part, line * p.line_bytes :][: len(octets)] = octets
    return data.reshape(-1)


def _bias(plan: Plan, layer: Layer) -> Bytes:
    """Biases of queries, keys and values, one behind the other as their results are."""
    parts = [linear.bias for linear in (layer.query, layer.key, layer.value)]
    return _words(plan, encode(FP16, np.concatenate([p for p in parts if p is not None])))


def _gain(plan: Plan, gain: NDArray[np.float32]) -> Bytes:
    return _words(plan, encode(FP16, gain.astype(np.float64) * np.sqrt(NORM_SHARE)))


def _words(plan: Plan, values: NDArray[np.uint16]) -> Bytes:
    """fp16 patterns (elements) that a load brings to every bank."""
    rows = fp16_rows(plan.params, values[np.newaxis])
    return to_bytes(plan.params, Memory.BROADCAST, rows[:, :1])


def _rotations(plan: Plan, model: Model) -> Bytes:
    """For every token: cosines, and sines of the first and of the second halves of heads."""
    pieces = []
    for token in range(plan.context):
        rows = np.concatenate([fp16_rows(plan.params, t) for t in _tables(plan, model, [token])])
        pieces.append(to_bytes(plan.params, Memory.BROADCAST, rows[:, :1]))
    return np.concatenate(pieces)


def _tile_rotations(plan: Plan, model: Model, tile: int) -> Bytes:
    """The same of a tile's tokens, each in its bank."""
    first, rows = tile * plan.params.rows, plan.params.rows
    tables = _tables(plan, model, range(first, first + rows))
    words = np.concatenate([fp16_rows(plan.params, table) for table in tables])
    return to_bytes(plan.params, Memory.ACTIVATIONS, words)


def _tables(plan: Plan, model: Model, tokens: Sequence[int]) -> list[NDArray[np.uint16]]:
    """fp16 patterns (tokens, channels) of cosines and of both kinds of sines."""
    c = plan.config
    frequency = c.rope_theta ** -(np.arange(0, c.head_dim, 2) / c.head_dim)
    if model.rope_factors is not None:
        frequency = frequency / model.rope_factors
    heads = plan.rotated // c.head_dim
    angle = np.asarray(tokens)[:, np.newaxis] * frequency
    cosine, sine = np.cos(angle), np.sin(angle)
    none = np.zeros_like(sine)
    return [
        encode(FP16, np.tile(np.concatenate(halves, axis=1), heads))
        for halves in ((cosine, cosine), (-sine, none), (none, sine))
    ]


def _embeddings(plan: Plan, lines: Lines, model: Model) -> Iterator[tuple[str, int, Bytes]]:
    """Vectors of the vocabulary, some words at a time: of a lazy model no more are read."""
    size = lines.vector * plan.params.line_bytes
    for first in range(0, plan.config.vocab_size, EMBEDDED):
        vectors = model.embedding[first : first + EMBEDDED].astype(np.float64)
        data = np.zeros((len(vectors), size), np.uint8)
        octets = encode(FP16, vectors).astype("<u2").view(np.uint8)  # words are in their order
        data[:, : octets.shape[1]] = octets
        name = "embedding" if plan.config.vocab_size <= EMBEDDED else f"embedding.{first}"
        yield name, lines.embedding(first), data.reshape(-1)


def enter_tokens(plan: Plan, lines: Lines, memory: Bytes, program: int, *tokens: int) -> None:
    """Let tokens enter the step whose program begins at the line ``program``.

    What a host does: it writes the lines of the tokens' vectors into the first instructions, loads.
    """
    for number, token in enumerate(tokens):
        rewrite(plan.params, memory, program, number, decode, line=lines.embedding(token))


def logits_of(plan: Plan, lines: Lines, memory: Bytes) -> NDArray[np.float32]:
    """(banks, vocabulary), as the head's program has left them."""
    p, matrix = plan.params, plan.matrices["head"]
    pieces = []
    for part in range(matrix.parts):
        elements = matrix.tiles_of(part) * matrix.columns
        if not elements:
            continue
        data = memory[(lines.logits + part * lines.logit_part) * p.line_bytes :]
        rows = rows_of_bytes(p, Memory.ACTIVATIONS, data, plan.tensor_rows(elements))
        pieces.append(fp16_values(p, rows, elements))
    values = np.concatenate(pieces, axis=1)
    return values[:, : plan.config.vocab_size].view(np.float16).astype(np.float32)
