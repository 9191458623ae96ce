"""A transformer block as a program: its four linear modules and everything between them.

The block decodes one token of each of up to ``params.rows`` sequences whose context is that token
alone, so that attention hands on the values. The matrix unit multiplies activations of four
formats: the inputs of the query, key and value projections (A_qkv), of the output projection
(A_o), of gate and up (A_u) and of the down projection (A_d).
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.anda_machine.builder import Builder, Output
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.vector import Operation
from tilewright.golden.weights import Weights, quantise


@dataclass(frozen=True)
class Mantissas:
    """Mantissa bits of the four modules' activations."""

    qkv: int = 8
    o: int = 5
    u: int = 7
    d: int = 6


DEFAULT_MANTISSAS = Mantissas()


@dataclass(frozen=True)
class Block:
    """A program, what it starts with and where its results are."""

    builder: Builder
    query: Output
    key: Output
    result: Output

    @property
    def memory(self) -> NDArray[np.uint8]:
        return self.builder.memory


def heavy_tailed(rng: Generator, tokens: int, width: int) -> NDArray[np.uint16]:
    """fp16 patterns like activations of language models: a few channels are far larger."""
    values = rng.standard_t(4, (tokens, width))
    values *= np.where(rng.random(width) < 0.02, 30.0, 1.0)
    return values.astype(np.float16).view(np.uint16)


def random_weights(rng: Generator, outputs: int, inputs: int, bits: int) -> Weights:
    return quantise(rng.standard_t(6, (outputs, inputs)) / np.sqrt(inputs), bits)


def transformer_block(
    params: AndaParams,
    rng: Generator,
    *,
    tokens: int,
    width: int,
    hidden: int,
    mantissas: Mantissas = DEFAULT_MANTISSAS,
) -> Block:
    """Random weights and heavy-tailed activations of the given sizes."""

    def linear(outputs: int, inputs: int) -> Weights:
        return random_weights(rng, outputs, inputs, params.weight_bits)

    b = Builder(params)
    x = b.load(heavy_tailed(rng, tokens, width))
    gains = [
        b.broadcast((1 + 0.1 * rng.standard_normal(width)).astype(np.float16).view(np.uint16))
        for _ in range(2)
    ]
    start = b.mark()
    # Weights come in behind the norm.
    query, key, value = (b.weights(linear(width, width)) for _ in range(3))
    normed = b.compress(b.rms_norm(x, gains[0]), mantissas.qkv)
    b.wait()
    q, k = b.gemm(normed, query), b.gemm(normed, key)
    values = b.gemm(normed, value, result=mantissas.o)  # compressed on its way back
    stored = b.store(q), b.store(k)
    b.release_weights()
    output = b.weights(linear(width, width))
    b.wait()
    attended = b.gemm(values, output)
    b.apply(Operation.ADD, x, attended, into=x)

    b.release(start)
    b.release_weights()
    gate, up = (b.weights(linear(hidden, width)) for _ in range(2))
    normed = b.compress(b.rms_norm(x, gains[1]), mantissas.u)
    b.wait()
    gated, raised = b.gemm(normed, gate), b.gemm(normed, up)
    b.release_weights()
    down = b.weights(linear(width, hidden))
    active = b.silu(gated)
    b.apply(Operation.MULTIPLY, active, raised, into=active)
    inner = b.compress(active, mantissas.d)
    b.wait()
    b.apply(Operation.ADD, x, b.gemm(inner, down), into=x)
    result = b.store(x)
    b.halt()
    return Block(b, *stored, result)
