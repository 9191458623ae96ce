"""What a decoder layer does between its products, on the Harmonia accelerator."""

import numpy as np
import pytest

from tilewright.golden.bits import encode
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.hazards import first_hazard
from tilewright.golden.harmonia_machine.layer_work import NORM_SHARE, LayerWork, beside
from tilewright.golden.harmonia_machine.layout import activation_rows, from_bytes
from tilewright.golden.harmonia_machine.tiled_gemm import TiledGemm
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.machine.vector import elementwise, reduce_tensor
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia_machine import HarmoniaParams, Memory
from tilewright.golden.params.machine import Error
from tilewright.golden.params.vector import Operation
from tilewright.golden.weights import quantise

SMALL = HarmoniaParams.preset("small")
ADD, SUBTRACT, MULTIPLY = Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY


def halves(rng, *shape):
    return rng.standard_normal(shape).astype(np.float16).view(np.uint16)


def fp16(value):
    return int(encode(FP16, value))


def run(work):
    memory = work.memory
    line = len(memory) // SMALL.line_bytes
    content = np.concatenate([memory, program_lines(SMALL, work.program)])
    outcome = Machine(SMALL, content).run_stream(line)
    assert outcome.error is Error.NONE
    return content[: len(memory)]


def reserved(work, tokens, elements):
    """Lines for activations of a tensor."""
    groups = -(-elements // SMALL.group)
    return work.reserve(-(-tokens // SMALL.rows) * work.activation_lines(groups))


def assert_activations(work, memory, line, values):
    """Those of fp16 patterns (tokens, elements), as a product finds them."""
    groups = -(-values.shape[1] // SMALL.group)
    want = activation_rows(SMALL, values)
    for tile in range(-(-len(values) // SMALL.rows)):
        for kind, rows in zip(
            (Memory.MANTISSAS, Memory.SIGNS, Memory.EXPONENTS), want, strict=True
        ):
            data = memory[line * SMALL.line_bytes :]
            found = from_bytes(SMALL, kind, data, groups)
            there = slice(0, min(SMALL.rows, len(values) - tile * SMALL.rows))
            want_rows = rows[tile * groups : (tile + 1) * groups]
            assert np.array_equal(found[:, there], want_rows[:, there])
            line += SMALL.lines(kind, groups)


@pytest.mark.parametrize("tokens", [1, 5, 8])
@pytest.mark.parametrize("elements", [32, 200, 512])
def test_conversions(tokens, elements):
    work, values = LayerWork(SMALL), halves(np.random.default_rng(1), tokens, elements)
    source, results = work.place_halves(values), reserved(work, tokens, elements)
    work.activations(tokens, elements, source=source, results=results)
    assert_activations(work, run(work), results, values)


@pytest.mark.parametrize("tokens", [1, 2])
@pytest.mark.parametrize(("heads", "channels"), [(2, 16), (40, 48)])
def test_heads_of_attention_come_beside_each_other(tokens, heads, channels):
    """From tiles in which each head has a bank; heads begin and end within chunks."""
    work, values = LayerWork(SMALL), halves(np.random.default_rng(7), tokens, heads, channels)
    places = []
    for head in range(heads):
        tiles = np.zeros((tokens, SMALL.rows, channels), np.uint16)
        tiles[:, head % SMALL.rows] = values[:, head]
        places.append([(work.place_halves(tile), head % SMALL.rows) for tile in tiles])
    results = reserved(work, tokens, heads * channels)
    work.gathered(places, channels, results=results)
    assert_activations(work, run(work), results, values.reshape(tokens, -1))


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize(("tokens", "elements"), [(1, 32), (2, 520), (7, 128), (9, 256)])
def test_norms(tokens, elements, added):
    """In the order in which chunks of a token add to its squares; and the sum stays."""
    rng, work = np.random.default_rng(2), LayerWork(SMALL)
    values, more, gain = (halves(rng, n, elements) for n in (tokens, tokens, 1))
    source = work.place_halves(values)
    other = work.place_halves(more) if added else None
    factors = work.place_halves(np.tile(gain, (SMALL.rows, 1)))
    results = reserved(work, tokens, elements)
    chunks = work._cut(elements, 2)
    work.norm(tokens, elements, source=source, gain=factors, results=results, added=other)
    memory = run(work)
    total = elementwise(ADD, values, more) if added else values
    assert np.array_equal(work.halves_results(memory, source, tokens, elements), total)
    square = None
    for first, size in chunks:
        piece = total[:, first : first + size]
        share = fp16(NORM_SHARE / elements)
        part = reduce_tensor(Operation.DOT, piece, piece, size, SMALL.word_values, share)
        square = part if square is None else elementwise(ADD, square, part)
    root = elementwise(Operation.RECIPROCAL_ROOT, elementwise(ADD, square, fp16(1e-5 * NORM_SHARE)))
    scaled = elementwise(MULTIPLY, elementwise(MULTIPLY, total, root[:, np.newaxis]), gain)
    assert_activations(work, memory, results, scaled)


@pytest.mark.parametrize("tokens", [1, 6])
def test_rotation(tokens):
    rng, work, channels, heads = np.random.default_rng(3), LayerWork(SMALL), 32, 19
    values = [halves(rng, tokens, channels) for _ in range(heads)]
    lines = [work.place_halves(v) for v in values]
    factors = halves(rng, 2, 2, tokens, channels // 2)  # tables, cosines and sines
    tables = []
    for table in factors:
        tables.append(work._line)
        for first in range(0, tokens, SMALL.rows):
            for part in table:
                work.place_halves(part[first : first + SMALL.rows])
    which = [int(head >= 13) for head in range(heads)]
    work.rotate(tokens, list(zip(lines, which, strict=True)), channels, tables)
    memory = run(work)
    for line, x, table in zip(lines, values, which, strict=True):
        cosine, sine = factors[table]
        low, high = x[:, : channels // 2], x[:, channels // 2 :]
        first = elementwise(
            SUBTRACT, elementwise(MULTIPLY, low, cosine), elementwise(MULTIPLY, high, sine)
        )
        second = elementwise(
            ADD, elementwise(MULTIPLY, high, cosine), elementwise(MULTIPLY, low, sine)
        )
        want = np.concatenate([first, second], axis=1)
        assert np.array_equal(work.halves_results(memory, line, tokens, channels), want)


@pytest.mark.parametrize(("tokens", "elements"), [(1, 40), (5, 344)])
def test_gates(tokens, elements):
    rng, work = np.random.default_rng(4), LayerWork(SMALL)
    gate, up = (halves(rng, tokens, elements) for _ in range(2))
    lines = work.place_halves(gate), work.place_halves(up)
    results = reserved(work, tokens, elements)
    work.gated(tokens, elements, gate=lines[0], up=lines[1], results=results)
    powers = elementwise(Operation.EXPONENTIAL, elementwise(MULTIPLY, gate, fp16(-1.0)))
    share = elementwise(Operation.RECIPROCAL, elementwise(ADD, powers, fp16(1.0)))
    silu = elementwise(MULTIPLY, gate, share)
    want = elementwise(MULTIPLY, silu, up)
    assert_activations(work, run(work), results, want)
    # In two parts, of which one need not wait for the other operand.
    first = LayerWork(SMALL)
    line = first.place_halves(gate)
    first.silu(tokens, elements, source=line)
    assert np.array_equal(first.halves_results(run(first), line, tokens, elements), silu)
    last = LayerWork(SMALL)
    a, b = last.place_halves(silu), last.place_halves(up)
    results = reserved(last, tokens, elements)
    last.multiplied(tokens, elements, a=a, b=b, results=results)
    assert_activations(last, run(last), results, want)


def test_work_beside_a_product():
    """Rotation in one half of the fp16 memory, results of a product in the other."""
    rng, tokens, channels = np.random.default_rng(5), 5, 32
    gemm = TiledGemm(params=SMALL, tokens=tokens, inputs=64, outputs=90)
    assert gemm.result_rows <= SMALL.halves_rows // 2
    activations = halves(rng, tokens, 64)
    weights = quantise(rng.standard_normal((90, 64)), 4, group=32)
    memory = gemm.memory(activations, weights)
    alone = memory.copy()
    Machine(SMALL, alone).run(gemm.program())

    work = LayerWork(SMALL, first_region=SMALL.regions // 2)
    work._place(memory)
    values = [halves(rng, tokens, channels) for _ in range(9)]
    lines = [work.place_halves(v) for v in values]
    table = work._line
    for _ in range(2 * -(-tokens // SMALL.rows)):
        work.place_halves(halves(rng, SMALL.rows, channels // 2))
    work.rotate(tokens, [(line, 0) for line in lines], channels, [table])
    rotated = run(work)
    both = work.memory
    program = beside(gemm.program(), work.program)
    assert first_hazard(SMALL, program) is None
    outcome = Machine(SMALL, both).run(program)
    assert outcome.error is Error.NONE
    assert np.array_equal(gemm.results(both), gemm.results(alone))
    for line in lines:
        want = work.halves_results(rotated, line, tokens, channels)
        assert np.array_equal(work.halves_results(both, line, tokens, channels), want)
