"""Random programs: every instruction, ragged sizes, results that feed what follows."""

from random import Random

import numpy as np
from numpy.random import Generator

from tilewright.golden.params.anda_machine import AndaParams, Memory
from tilewright.golden.params.machine import SCALARS
from tilewright.golden.params.vector import Operation
from tilewright.verify.anda_machine.builder import Builder, PlacedWeights, Scalar, Tensor
from tilewright.verify.stimuli.tensors import heavy_tailed, random_weights

__all__ = ["random_program"]

BINARY = (Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.MAXIMUM)
UNARY = (
    Operation.COPY,
    Operation.EXPONENTIAL,
    Operation.RECIPROCAL,
    Operation.RECIPROCAL_ROOT,
)
REDUCTIONS = (Operation.SUM, Operation.DOT, Operation.LARGEST)


def random_program(params: AndaParams, seed: int, steps: int = 4, gemm: bool = True) -> Builder:
    """``steps`` random instructions or recipes, and stores of what they left."""
    choose, rng = Random(seed), np.random.default_rng(seed)
    b = Builder(params)

    def size() -> int:
        return choose.randint(1, 2 * params.group + params.group // 2)

    def values(elements: int) -> Tensor:
        return b.load(heavy_tailed(rng, choose.randint(1, params.rows), elements))

    x = values(size())
    if gemm:
        # The first weights travel while other instructions run.
        ahead = b.weights(random_weights(rng, size(), x.elements, params.weight_bits))
        x = _multiply(b, choose, _vector_step(b, choose, rng, x), ahead)
    for _ in range(steps):
        match choose.randrange(6 if gemm else 4):
            case 0:
                x = _vector_step(b, choose, rng, x)
            case 1:
                x = _recipe(b, choose, rng, x)
            case 2:
                b.store(b.compress(x, choose.randint(1, 16)))
            case 3:
                _attend(b, choose, rng)
            case _:
                weights = random_weights(rng, size(), x.elements, params.weight_bits)
                b.release_weights()
                x = _multiply(b, choose, x, b.weights(weights))
        if choose.random() < 0.5:
            b.store(x)
    b.store(x)
    b.halt()
    return b


def _multiply(b: Builder, choose: Random, x: Tensor, weights: PlacedWeights) -> Tensor:
    result = choose.choice((0, 0, choose.randint(1, 16)))
    source = b.compress(x, choose.randint(1, 16))
    b.wait()
    y = b.gemm(source, weights, result)
    if result:
        b.store(y)
        y = b.gemm(source, weights)
    return y


def _vector_step(b: Builder, choose: Random, rng: Generator, x: Tensor) -> Tensor:
    """A few operations on a tensor, a scalar register and constants."""
    y, s = b.allocate(x.elements), Scalar(choose.randrange(SCALARS - 1))
    reduction = choose.choice(REDUCTIONS)
    b.apply(reduction, x, choose.choice((x, 0.5)), into=s, scale=1 / x.elements)
    b.apply(choose.choice(BINARY), s, choose.choice((s, -0.25, 1.5)), into=s)
    b.apply(choose.choice(BINARY), x, choose.choice((x, s, 0.75)), into=y)
    b.apply(choose.choice(BINARY), choose.choice((s, 0.125)), y, into=y)
    b.apply(choose.choice(UNARY), y, into=y)
    other = b.broadcast(rng.standard_normal(x.elements).astype(np.float16).view(np.uint16))
    b.apply(choose.choice(BINARY), y, other, into=y)
    return y


def _attend(b: Builder, choose: Random, rng: Generator) -> None:
    """Several sums of one tensor with another, in one region or in two."""
    p, start = b.params, b.mark()
    group = p.group
    a = b.load(heavy_tailed(rng, p.rows, choose.randint(2, 4) * group))
    if choose.random() < 0.5:
        region = p.region_rows(Memory.ACTIVATIONS)
        b.release(-(-b.mark() // region) * region)
    other = b.load(heavy_tailed(rng, p.rows, 2 * group))
    y = b.relu(other)  # what the results do not cover is defined too
    a_rows, b_rows = b.rows_of(a), b.rows_of(other)
    operation = choose.choice((Operation.DOTS, Operation.WEIGH))
    step, pitch = choose.randint(1, 3), choose.randint(1, 5)
    lanes = p.vector.row_lanes
    elements = choose.randint(1, b_rows * lanes // 4)
    beats = elements if operation is Operation.WEIGH else -(-elements // lanes)
    if operation is Operation.WEIGH:
        beats = elements = min(elements, a_rows // 4)
        most = (a_rows - (beats - 1) * step - 1) // pitch + 1
    else:
        most = (a_rows - beats) // pitch + 1
    results = choose.randint(1, max(1, min(most, b.rows_of(y))))
    b.attend(
        operation,
        a.row,
        other.row,
        into=y.row,
        elements=elements,
        results=results,
        step=step,
        pitch=pitch,
        scale=0.25,
    )
    b.store(y)
    b.release(start)


def _recipe(b: Builder, choose: Random, rng: Generator, x: Tensor) -> Tensor:
    def channel() -> Tensor:
        return b.broadcast(rng.standard_normal(x.elements).astype(np.float16).view(np.uint16))

    recipes = {
        "softmax": lambda: b.softmax(x),
        "relu": lambda: b.relu(x),
        "layer_norm": lambda: b.layer_norm(x, channel(), channel()),
    }
    return recipes[choose.choice(list(recipes))]()
