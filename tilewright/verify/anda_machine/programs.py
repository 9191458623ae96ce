"""Programs of Anda for benches: random ones, and one with every instruction."""

from random import Random
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.compiler.lowering import half
from tilewright.compiler.sizes import Matrix
from tilewright.golden.anda_machine.isa import Instruction, assemble
from tilewright.golden.anda_machine.layout import anda_rows
from tilewright.golden.params.anda_machine import FP16_ROWS, AndaParams, Memory, Opcode, group_rows
from tilewright.golden.params.machine import SCALARS, Kind
from tilewright.golden.params.vector import Operation
from tilewright.verify.anda_machine.builder import Builder, PlacedWeights, Scalar, Tensor
from tilewright.verify.stimuli.tensors import heavy_tailed, random_weights

STEPS = 4  # of a random program
GROUPS = 3  # of a tensor of the directed program that has several
MANTISSA = 5

BINARY = (Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, Operation.MAXIMUM)
UNARY = (Operation.COPY, Operation.EXPONENTIAL, Operation.RECIPROCAL, Operation.RECIPROCAL_ROOT)
REDUCTIONS = (Operation.SUM, Operation.DOT, Operation.LARGEST)


def random_program(params: AndaParams, seed: int) -> Builder:
    """Some random instructions, and stores of what they left."""
    choose, rng = Random(seed), np.random.default_rng(seed)
    b = Builder(params)

    def size() -> int:
        return choose.randint(1, 2 * params.group + params.group // 2)

    def values(elements: int) -> Tensor:
        return b.load(heavy_tailed(rng, choose.randint(1, params.rows), elements))

    x = values(size())
    # The first weights travel while other instructions run.
    ahead = b.weights(random_weights(rng, size(), x.elements, params.weight_bits))
    x = _multiply(b, choose, _vector_step(b, choose, rng, x), ahead)
    for _ in range(STEPS):
        match choose.randrange(6):
            case 0 | 1:
                x = _vector_step(b, choose, rng, x)
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
    if params.row_groups > 1:  # its banks may be gone across
        _attend(b, choose, rng)
    b.halt()
    return b


def _multiply(b: Builder, choose: Random, x: Tensor, weights: PlacedWeights) -> Tensor:
    result = choose.choice((0, 0, choose.randint(1, 16)))
    source = b.compress(x, choose.randint(1, 16))
    b.wait()
    if b.params.row_groups > 1 and choose.random() < 3 / 4:
        _share(b, choose, source, weights, result)
    y = b.gemm(source, weights, result)
    if result:
        b.store(y)
        y = b.gemm(source, weights)
    return y


def _share(b: Builder, choose: Random, x: Tensor, weights: PlacedWeights, result: int) -> None:
    """The product shared out over row groups, and its first pass in two parts."""
    p = b.params
    span = choose.choice(p.spans)
    fields: dict = {"opcode": Opcode.SHARED_GEMM, "span": span}
    b.store(b.gemm(x, weights, choose.choice((0, result)), **fields, continues=0, keeps=0))
    one = weights._replace(outputs=min(weights.outputs, (p.columns * p.row_groups) >> span))
    b.gemm(x, one, **fields, keeps=1, continues=0)
    b.store(b.gemm(x, one, result, **fields, continues=1, keeps=0))


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
    p, start = b.params, b.row
    group = p.group
    a = b.load(heavy_tailed(rng, p.rows, choose.randint(2, 4) * group))
    if choose.random() < 0.5:
        region = p.region_rows(Memory.ACTIVATIONS)
        most = max(b.row, p.activation_rows - 4 * FP16_ROWS)
        b.release(min(-(-b.row // region) * region, most))
    other = b.load(heavy_tailed(rng, p.rows, 2 * group))
    y = b.allocate(other.elements)
    b.apply(Operation.MAXIMUM, other, 0.0, into=y)  # what the results do not cover is defined too
    a_beats, b_beats, y_beats = (b.rows_of(x) // p.beat_words for x in (a, other, y))
    operation = choose.choice((Operation.DOTS, Operation.WEIGH))
    step, pitch = choose.randint(1, 3), choose.randint(1, 5)
    lanes = p.vector.row_lanes
    elements = choose.randint(1, b_beats * lanes // 4)
    beats = elements if operation is Operation.WEIGH else -(-elements // lanes)
    if operation is Operation.WEIGH:
        beats = elements = min(elements, a_beats // 4)
        most = (a_beats - (beats - 1) * step - 1) // pitch + 1
    else:
        most = (a_beats - beats) // pitch + 1
    results = choose.randint(1, max(1, min(most, y_beats)))
    fields = {"results": results, "step": step, "pitch": pitch, "scale": half(0.25)}
    fields |= {"a": a.row, "b": other.row, "destination": y.row, "elements": elements}
    if p.row_groups > 1 and choose.random() < 0.5:
        fields["across"] = 1
        if operation is Operation.DOTS:  # so many banks, and the first ones again
            fields["results"] = choose.randint(1, min(2 * p.rows, y_beats * lanes))
    kinds = {"a_kind": Kind.TENSOR, "b_kind": Kind.TENSOR}
    b.emit(Opcode.VECTOR, operation=operation, **kinds, **fields)
    b.store(y)
    b.release(start)


def directed_program(params: AndaParams, seed: int) -> tuple[list[Instruction], NDArray[np.uint8]]:
    """One with every instruction that has a size, on one row or group and on several.

    Random programs move tensors as programs do, and so never a single row, for example.
    """
    choose = Random(seed)
    tensor = GROUPS * FP16_ROWS
    a, b, result, small = (k * tensor for k in range(4))  # rows; the last holds compressed values
    rows = 4 * tensor
    lines = {memory: params.lines(memory, rows) for memory in Memory}
    back = 2 * max(lines.values())  # where results go, after the loaded lines
    text = [f"load activations, row=0, rows={rows}, line=0"]
    for memory in (Memory.WEIGHTS, Memory.SCALES):
        count = min(rows, params.weight_rows, params.scale_rows)
        text.append(f"load {memory.name.lower()}, row=0, rows={count}, line={choose.randrange(8)}")
    for memory in Memory:
        for count in (1, choose.randint(2, 5)):
            row, line = choose.randrange(rows - 100), choose.randrange(8)
            stride = ", stride=7" if memory is Memory.EXPONENTS else ""
            move = f"{memory.name.lower()}, row={row}, rows={count}"
            text.append(f"load {move}, line={line}{stride}")
            if memory.stores:
                text.append(f"store {move}, line={back}{stride}")
                back += params.lines(memory, count)
    for groups in (1, GROUPS):
        elements = groups * params.group - choose.randrange(params.group)
        for operation in params.vector.operations:
            name = operation.name.lower()
            if operation.attends:
                fields = f"elements={elements}, results=2, step=1, pitch=1"
                across = (0, 1) if params.row_groups > 1 else (0,)
                text += [f"{name} r{result}, r{a}, r{b}, {fields}, across={k}" for k in across]
            elif operation.reduces:
                second = f", r{b}" if operation is Operation.DOT else ""
                text.append(f"{name} s1, r{a}{second}, elements={elements}")
                text.append(f"add r{result}, r{a}, s1, elements={elements}")  # to be seen
            else:
                second = choose.choice((f", r{b}", ", #0.75")) if operation.takes_b else ""
                text.append(f"{name} r{result}, r{a}{second}, elements={elements}")
            text.append(f"store activations, row={result}, rows={tensor}, line={back}")
            back += lines[Memory.ACTIVATIONS]
        text += [
            f"configure source={MANTISSA}, result={MANTISSA}",
            f"compress source={b}, destination={small}, elements={elements}",
            f"store exponents, row={small}, rows={groups}, line={back},"
            f" stride={group_rows(MANTISSA)}",
            f"configure source={MANTISSA}, result=0",
            f"gemm source={small}, weights=0, scales=0, destination={result},"
            f" inputs={elements}, outputs={params.mxu.columns + 1}",
            f"store activations, row={result}, rows={tensor},"
            f" line={back + lines[Memory.EXPONENTS]}",
        ]
        back += 2 * max(lines.values())
    program = assemble("\nwait\n".join([*text, "halt"]))
    values = np.random.default_rng(seed).standard_normal(back * params.line_bytes // 2)
    return program, values.astype(np.float16).view(np.uint8)


def activation_rows(machine: Any, matrix: Matrix, values: NDArray[np.uint16]) -> list[NDArray]:
    """Rows of mantissas and of exponents of a token tile of a product's activations."""
    return list(anda_rows(machine.params, machine.mantissa(matrix), values))
