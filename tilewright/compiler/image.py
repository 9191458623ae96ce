"""The layout of a model's image in lines of external memory, and its contents.

Constants are first (weights, head, embeddings, tables), then programs, then lines that steps
write: spilled tensors, logits, and the caches of all sequences and layers.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from math import lcm

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.plan import Plan
from tilewright.compiler.quantise import halved
from tilewright.compiler.sizes import Matrix
from tilewright.golden.bits import encode
from tilewright.golden.llm.model import Layer, Linear, Model
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import FP16
from tilewright.golden.weights import Weights

Bytes = NDArray[np.uint8]
# Mean squares are computed as this share of themselves, so that those of outlying tokens, up to
# four million, are finite in fp16; gains carry its root.
NORM_SHARE = 2.0**-6
ROTATIONS = ("cosines", "upper", "lower")  # tables of a head's channels: of each channel itself,
# of the one half a head after it, and of the one half a head before it
ROTATED = 256  # channels that are rotated at a time
_PIECE = 1 << 20  # numbers of a piece of the embeddings
_PIECE_WEIGHTS = 1 << 22


class Lines:
    """First lines of everything; ``program_lines`` are reserved for the program of a step."""

    def __init__(self, plan: Plan, program_lines: int = 0):
        self.plan, self.machine, self.program_lines = plan, plan.machine, program_lines
        m, shape, matrices = plan.machine, plan.shape, plan.matrices
        beat, head = m.params.beat_line, plan.matrices["head"]
        self._layer, self.layer = self._layer_lines()  # relative to a layer's first; its lines
        # Elements of a table of rotations are those of some heads.
        unit = lcm(shape.head_dim, m.output_unit)
        longest = max(matrices[name].part for name in ("q", "k"))
        self.rotated = min(longest, max(unit, ROTATED // unit * unit))
        # Tables of a position: queries have some of their own where these are scaled.
        self.rotation_tables = len(ROTATIONS) * (1 if m.query_scale == 1 else 2)

        self.head = shape.num_hidden_layers * self.layer
        self.final_norm = self.head + self.matrix_lines(head)
        self._embeddings = beat(self.final_norm + m.vector_lines(shape.hidden_size))
        tiles = -(-shape.vocab_size // m.packed)
        # Numbers that count down over the elements of a part of the head.
        self.countdown = self._embeddings + tiles * m.packed_lines(shape.hidden_size)
        self._rotations = beat(self.countdown + m.vector_lines(head.part))
        tiles = -(-plan.context // m.packed)
        self.constants = beat(self.rotation(tiles * m.packed)[0])
        self.zeros = self.constants + m.constants_lines(shape)  # half a head's channels and more
        self.programs = beat(self.zeros + m.vector_lines(shape.head_dim))

        # Lines that programs change, from ``state`` on; first tiles that have left the last layer.
        self.state = beat(self.programs + program_lines)
        self._width = m.tile_lines(shape.hidden_size)
        self.step_tiles = max(-(-m.step_tokens // m.rows), -(-plan.sequences // m.rows))
        queries = m.tile_lines(shape.query_width)
        spilled = {
            "x": self._width,
            "queries": queries,
            "attended": queries,
            "rotations": self.rotation_tables * m.tile_lines(self.rotated),
            "gated": len(matrices["gate"].parts) * m.tile_lines(matrices["gate"].part),
        }
        first = beat(self.state + self.step_tiles * self._width)
        *firsts, end = accumulate(spilled.values(), initial=first)
        self._spilled, self._tile = dict(zip(spilled, firsts, strict=True)), end - first
        self.scratch = beat(self.spilled("x", self.step_tiles))  # of the machine's attention
        self.logits = beat(self.scratch + m.scratch_lines(plan))
        self.logit_part = m.tile_lines(head.part)  # lines of the logits of one part of the head
        # The likeliest token: a part of the vocabulary, and a place in it.
        self.choice = self.logits + len(head.parts) * self.logit_part
        self.caches = beat(self.choice + m.tile_lines(4 * m.params.group))
        self.cache = beat(m.cache_lines(plan))  # lines of the cache of one layer of a sequence
        self.end = self.cache_of(plan.sequences)

    # A chunk of a matrix, relative to the matrix: weights, then scales, each from a beat on.

    def chunk_lines(self, matrix: Matrix) -> tuple[int, int]:
        """Lines to a chunk's scales, and to the next chunk."""
        m, beat = self.machine, self.machine.params.beat_line
        weights, scales = self.chunk_rows(matrix, matrix.chunk)
        first = beat(m.lines(m.weights_memory, weights))
        return first, beat(first + m.lines(m.scales_memory, scales))

    def chunk_rows(self, matrix: Matrix, outputs: int) -> tuple[int, int]:
        """Rows of weights and of scales for a number of outputs."""
        cells = self.machine.weight_tiles(outputs) * matrix.groups
        return self.machine.tile_weight_rows(cells), cells

    def matrix_lines(self, matrix: Matrix, parts: int | None = None) -> int:
        """Lines of a matrix, or of its first parts."""
        count = len(matrix.parts) if parts is None else parts
        return count * matrix.part_chunks * self.chunk_lines(matrix)[1]

    def _layer_lines(self) -> tuple[dict[str, int], int]:
        plan, m, line = self.plan, self.machine, 0
        found: dict[str, int] = {}
        for name in ("attention_norm", "feed_norm"):
            found[name] = line
            line += m.vector_lines(plan.shape.hidden_size)
        for name in ("k", "v", "q") if plan.shape.query_bias else ():
            found[f"{name} bias"] = line
            line += len(plan.matrices[name].parts) * m.vector_lines(plan.matrices[name].part)
        for name, matrix in plan.matrices.items():
            if name != "head":
                found[name] = m.params.beat_line(line)
                line = found[name] + self.matrix_lines(matrix)
        return found, m.params.beat_line(line)

    def of_layer(self, name: str) -> int:
        return self._layer[name]

    def embedding(self, token: int) -> tuple[int, int]:
        """Line and bank of the vector of a word of the vocabulary."""
        m, words = self.machine, self.plan.shape.vocab_size
        require(0 <= token < words, f"token {token} is not in the vocabulary of {words}")
        tile, bank = divmod(token, m.packed)
        return self._embeddings + tile * m.packed_lines(self.plan.shape.hidden_size), bank

    def rotation(self, position: int, table: int = 0) -> tuple[int, int]:
        """Line and bank of a table of a position; keys' tables are first."""
        tile, bank = divmod(position, self.machine.packed)
        number = tile * self.rotation_tables + table
        return self._rotations + number * self.machine.packed_lines(self.rotated), bank

    def leaving(self, tile: int) -> int:
        """A token tile that has left the last layer."""
        return self.state + tile * self._width

    def spilled(self, name: str, tile: int) -> int:
        """A token tile of a tensor that does not stay on chip."""
        return self._spilled[name] + tile * self._tile

    def cache_of(self, sequence: int) -> int:
        """The first layer's cache of a sequence; the next layer's follows after ``cache`` lines."""
        return self.caches + sequence * self.plan.shape.num_hidden_layers * self.cache


# Contents.


def constants(lines: Lines, model: Model, head: Weights) -> Iterator[tuple[str, int, Bytes]]:
    """Name, first line and bytes of everything that no program changes, one tensor at a time."""
    plan, m = lines.plan, lines.machine
    for number, layer in enumerate(model.layers):
        first = number * lines.layer
        for name in ("attention_norm", "feed_norm"):
            gain = _gain(lines, getattr(layer, name).gain)
            yield f"layers.{number}.{name}", first + lines.of_layer(name), gain
        for name, linear in _linears(layer).items():
            matrix, at = plan.matrices[name], first + lines.of_layer(name)
            if linear.bias is not None:
                bias = first + lines.of_layer(f"{name} bias")
                yield f"layers.{number}.{name} bias", bias, _bias(lines, matrix, linear.bias)
            assert linear.integers is not None
            yield f"layers.{number}.{name}", at, matrix_bytes(lines, matrix, linear.integers)
    yield from _head(lines, head)
    yield "final_norm", lines.final_norm, _gain(lines, model.final_norm.gain)
    yield from _embedded(lines, model)
    count = np.arange(plan.matrices["head"].part, 0, -1.0)
    yield "countdown", lines.countdown, m.vector_bytes(encode(FP16, count))
    yield from _rotated(lines, model)
    if lines.zeros > lines.constants:
        yield "constants", lines.constants, m.constants(plan.shape)


def _linears(layer: Layer) -> dict[str, Linear]:
    assert layer.gate is not None
    return {
        **{"k": layer.key, "v": layer.value, "q": layer.query, "output": layer.output},
        **{"gate": layer.gate, "up": layer.up, "down": layer.down},
    }


def _gain(lines: Lines, gain: NDArray[np.float32]) -> Bytes:
    return lines.machine.vector_bytes(encode(FP16, gain.astype(np.float64) * np.sqrt(NORM_SHARE)))


def _bias(lines: Lines, matrix: Matrix, bias: NDArray[np.float32]) -> Bytes:
    m = lines.machine
    data = np.zeros((len(matrix.parts), m.vector_lines(matrix.part) * m.params.line_bytes), "u1")
    for k, part in enumerate(matrix.parts):
        values = m.vector_bytes(encode(FP16, bias[part.start : part.stop].astype(np.float64)))
        data[k, : len(values)] = values
    return data.reshape(-1)


def _some(weights: Weights, outputs: slice) -> Weights:
    return replace(weights, values=weights.values[outputs], scales=weights.scales[outputs])


def matrix_bytes(lines: Lines, matrix: Matrix, weights: Weights, first: int = 0) -> Bytes:
    """Parts from ``first`` on, of which ``weights`` are the outputs."""
    m, line_bytes = lines.machine, lines.machine.params.line_bytes
    begin = matrix.parts[first].start
    scales_line, size = lines.chunk_lines(matrix)
    parts = sum(p.start < begin + weights.outputs for p in matrix.parts[first:])
    data = np.zeros((parts, matrix.part_chunks, size * line_bytes), np.uint8)
    for part in range(parts):
        for k, chunk in enumerate(matrix.chunks(first + part)):
            outputs = slice(chunk.start - begin, chunk.stop - begin)
            found = m.weight_rows(halved(_some(weights, outputs), m.params.group))
            blocks = m.weight_tiles(len(chunk)) // m.params.block_tiles
            rows, scales = (_in_pieces(matrix, x, blocks) for x in found)
            content = m.to_bytes(m.weights_memory, rows)
            data[part, k, : len(content)] = content
            content = m.to_bytes(m.scales_memory, scales)
            data[part, k, scales_line * line_bytes :][: len(content)] = content
    return data.reshape(-1)


def _in_pieces(matrix: Matrix, rows: NDArray, blocks: int) -> NDArray:
    """Rows of a chunk piece by piece: in each, block after block of tiles."""
    if len(matrix.pieces) == 1:
        return rows
    grid = rows.reshape(blocks, matrix.groups, -1, rows.shape[-1])
    pieces = [grid[:, p.start : p.stop].reshape(-1, rows.shape[-1]) for p in matrix.pieces]
    return np.concatenate(pieces)


def _head(lines: Lines, head: Weights) -> Iterator[tuple[str, int, Bytes]]:
    """The head in pieces of some parts each: it is the largest matrix by far."""
    matrix = lines.plan.matrices["head"]
    step = max(1, _PIECE_WEIGHTS // (matrix.part * matrix.inputs))
    for number, first in enumerate(range(0, len(matrix.parts), step)):
        piece = _some(head, slice(first * matrix.part, (first + step) * matrix.part))
        line = lines.head + lines.matrix_lines(matrix, first)
        yield f"head.{number}", line, matrix_bytes(lines, matrix, piece, first)


def _embedded(lines: Lines, model: Model) -> Iterator[tuple[str, int, Bytes]]:
    """Vectors of the vocabulary, some at a time: of a lazy model no more are read."""
    m, width = lines.machine, lines.plan.shape.hidden_size
    step = max(1, _PIECE // (m.rows * width)) * m.rows
    for first in range(0, lines.plan.shape.vocab_size, step):
        vectors = encode(FP16, model.embedding[first : first + step].astype(np.float64))
        yield f"embedding.{first}", lines.embedding(first)[0], m.packed_bytes(vectors)


def _rotated(lines: Lines, model: Model) -> Iterator[tuple[str, int, Bytes]]:
    """For every position: cosines, and sines for each half of a head's channels."""
    m, shape = lines.machine, lines.plan.shape
    frequency = shape.rope_theta ** -(np.arange(0, shape.head_dim, 2) / shape.head_dim)
    if model.rope_factors is not None:
        frequency = frequency / model.rope_factors
    heads = lines.rotated // shape.head_dim
    scales = [1.0, m.query_scale or shape.head_dim**-0.5]
    for first in range(0, lines.plan.context, m.packed):
        angle = np.arange(first, first + m.packed)[:, np.newaxis] * frequency
        cosine, sine = np.cos(angle), np.sin(angle)
        none = np.zeros_like(sine)
        halves = ((cosine, cosine), (-sine, none), (none, sine))
        for table in range(lines.rotation_tables):
            scale, which = divmod(table, len(ROTATIONS))
            values = np.concatenate(halves[which], axis=1) * scales[scale]
            content = m.packed_bytes(np.tile(encode(FP16, values), heads))
            yield "rotations", lines.rotation(first, table)[0], content
