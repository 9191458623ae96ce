"""What a decoder layer does between its products, on the Anda accelerator."""

from dataclasses import replace

import numpy as np
import pytest

from tilewright.golden.anda_machine.executor import Machine
from tilewright.golden.anda_machine.layer_work import LayerWork, bank_constants
from tilewright.golden.anda_machine.layout import (
    anda_rows,
    fp16_rows,
    fp16_values,
    from_bytes,
    to_bytes,
)
from tilewright.golden.bits import encode
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.machine.vector import elementwise, reduce_tensor
from tilewright.golden.params.anda_machine import AndaParams, Memory
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import Error
from tilewright.golden.params.vector import Operation

SMALL = AndaParams.preset("small")
CHUNKS = replace(SMALL, line_bytes=32)  # long token tiles are cut
ADD, MULTIPLY = Operation.ADD, Operation.MULTIPLY
MANTISSA = 5


def halves(rng, *shape):
    return rng.standard_normal(shape).astype(np.float16).view(np.uint16)


def fp16(value):
    return int(encode(FP16, value))


class Memories:
    """External memory: tensors one behind the other."""

    def __init__(self, params=SMALL):
        self.params, self.parts, self.line = params, [], 0

    def place(self, data):
        line, self.line = self.line, self.line + len(data) // self.params.line_bytes
        self.parts.append(data)
        return line

    def reserve(self, lines):
        return self.place(np.zeros(lines * self.params.line_bytes, np.uint8))

    def tensor(self, values):
        """fp16 patterns (tokens, elements), a token tile after the other."""
        tiles = range(0, len(values), self.params.rows)
        rows = [fp16_rows(self.params, values[t : t + self.params.rows]) for t in tiles]
        return self.place(
            np.concatenate([to_bytes(self.params, Memory.ACTIVATIONS, tile) for tile in rows])
        )

    def gain(self, values):
        return self.place(
            to_bytes(self.params, Memory.BROADCAST, fp16_rows(self.params, values)[:, :1])
        )

    def run(self, work):
        memory = np.concatenate([*self.parts, program_lines(self.params, work.program)])
        assert Machine(self.params, memory).run_stream(self.line).error is Error.NONE
        return memory

    def read(self, memory, line, tokens, elements):
        tiles, size = -(-tokens // self.params.rows), LayerWork(self.params).tensor_lines(elements)
        found = []
        for tile in range(tiles):
            data = memory[(line + tile * size) * self.params.line_bytes :]
            rows = from_bytes(
                self.params, Memory.ACTIVATIONS, data, LayerWork(self.params).rows_of(elements)
            )
            found.append(fp16_values(self.params, rows, elements))
        return np.concatenate(found)[:tokens]


def assert_activations(memory, line, values, params=SMALL):
    """Those of fp16 patterns (tokens, elements), as a product finds them; whole token tiles."""
    for tile in range(0, len(values), params.rows):
        want = anda_rows(params, MANTISSA, values[tile : tile + params.rows])
        for kind, rows in ((Memory.ACTIVATIONS, want.rows), (Memory.EXPONENTS, want.exponents)):
            found = from_bytes(params, kind, memory[line * params.line_bytes :], len(rows))
            assert np.array_equal(found, rows)
            line += params.lines(kind, len(rows))


@pytest.mark.parametrize(
    ("params", "tokens", "elements", "run"),
    [(SMALL, 2, 32, None), (SMALL, 6, 90, 32), (CHUNKS, 4, 600, 32), (CHUNKS, 2, 512, None)],
)
def test_norm(params, tokens, elements, run):
    """With the residual sum before it; each element as the vector unit rounds it."""
    rng, space, work = np.random.default_rng(1), Memories(params), LayerWork(params, run)
    x, added, gain = (halves(rng, n, elements) for n in (tokens, tokens, 1))
    source, other, factors = space.tensor(x), space.tensor(added), space.gain(gain)
    size = work.activation_lines(elements, MANTISSA) * -(-tokens // SMALL.rows)
    results = space.reserve(size)
    work.norm(
        tokens,
        elements,
        mantissa=MANTISSA,
        source=source,
        gain=factors,
        results=results,
        added=other,
    )
    memory = space.run(work)
    total = elementwise(ADD, x, added)
    assert np.array_equal(space.read(memory, source, tokens, elements), total)
    values = total.view(np.float16).astype(np.float64)
    root = 1 / np.sqrt((values**2).mean(axis=1, keepdims=True) + 1e-5)
    want = values * root * gain.view(np.float16).astype(np.float64)
    shares = np.zeros(tokens, np.uint16)
    size = 256 if params is CHUNKS else elements  # of a chunk: lines of exponents
    for first in range(0, elements, size):
        part = total[:, first : first + size]
        scale = fp16(1 / elements)
        dot = reduce_tensor(Operation.DOT, part, part, part.shape[1], 1, scale)
        shares = elementwise(ADD, shares, dot) if first else dot
    scale = elementwise(
        Operation.RECIPROCAL_ROOT, elementwise(ADD, shares, np.uint16(fp16(1e-5))), shares
    )
    normed = elementwise(MULTIPLY, elementwise(MULTIPLY, total, scale[:, np.newaxis]), gain)
    assert np.abs(normed.view(np.float16) - want).max() < 0.02
    assert_activations(memory, results, normed, params)


def test_rotation_into_the_cache():
    rng, space, work = np.random.default_rng(2), Memories(), LayerWork(SMALL)
    tokens, heads, channels = 10, 3, 32
    x = halves(rng, tokens, heads * channels)
    angles = rng.uniform(-1, 1, (tokens, channels // 2))
    cosines = np.tile(np.cos(angles), (1, 2 * heads)).astype(np.float16).view(np.uint16)
    sines = np.concatenate([-np.sin(angles), np.sin(angles)], axis=1)
    sines = np.tile(sines, (1, heads)).astype(np.float16).view(np.uint16)
    source = space.tensor(x)
    table = space.line
    for tile in range(0, tokens, SMALL.rows):
        for part in (cosines, sines):
            space.tensor(part[tile : tile + SMALL.rows])
    tile_lines = SMALL.lines(Memory.ACTIVATIONS, channels)
    cache = [space.reserve(tokens // SMALL.rows * tile_lines) for _ in range(heads)]
    work.rotate(tokens, heads, channels, source=source, table=table, cache=cache)
    memory = space.run(work)
    swapped = x.reshape(tokens, heads, 2, -1)[:, :, ::-1].reshape(x.shape)
    want = elementwise(
        ADD, elementwise(MULTIPLY, x, cosines), elementwise(MULTIPLY, swapped, sines)
    )
    for head, line in enumerate(cache):
        found = space.read(memory, line, tokens, channels)
        assert np.array_equal(found, want[:, head * channels : (head + 1) * channels])
    again = LayerWork(SMALL)
    again.rotate(tokens, heads, channels, source=source, table=table)
    found = space.read(space.run(again), source, tokens, heads * channels)
    assert np.array_equal(found, want)


def test_values_of_a_prompt_go_to_the_cache():
    rng, space, work = np.random.default_rng(3), Memories(), LayerWork(SMALL, 16)
    tokens, heads, channels = 10, 2, 48
    x = halves(rng, tokens, heads * channels)
    source = space.tensor(x)
    size = tokens // SMALL.rows * SMALL.lines(Memory.ACTIVATIONS, channels)
    cache = [space.reserve(size) for _ in range(heads)]
    work.place(tokens, channels, source=source, cache=cache)
    memory = space.run(work)
    for head, line in enumerate(cache):
        found = space.read(memory, line, tokens, channels)
        assert np.array_equal(found, x[:, head * channels : (head + 1) * channels])


def test_decoded_tokens_change_their_banks():
    """Queries go into every bank, keys into that of their position, results back into their own."""
    rng, space = np.random.default_rng(4), Memories()
    heads, channels = 5, 16
    x = halves(rng, SMALL.rows, heads * channels)
    source, ones = space.tensor(x), space.place(bank_constants(SMALL))
    lines = SMALL.lines(Memory.ACTIVATIONS, channels)
    spread = [[space.reserve(lines) for _ in range(SMALL.rows)] for _ in range(heads)]
    work = LayerWork(SMALL)
    work.spread(channels, source=source, ones=ones, results=spread)
    memory = space.run(work)
    for head, banks in enumerate(spread):
        for bank, line in enumerate(banks):
            own = x[bank, head * channels : (head + 1) * channels]
            found = space.read(memory, line, SMALL.rows, channels)
            assert np.array_equal(found, np.broadcast_to(own, found.shape))

    places = (1, 0)
    before = [[halves(rng, SMALL.rows, channels) for _ in range(SMALL.rows)] for _ in range(heads)]
    for tiles in before:
        for tile, place in zip(tiles, places, strict=True):
            tile[place] = 0
    cache = [[space.tensor(tile) for tile in tiles] for tiles in before]
    work = LayerWork(SMALL)
    work.append(channels, source=source, ones=ones, cache=cache, places=places)
    memory = space.run(work)
    for head in range(heads):
        for bank, place in enumerate(places):
            want = before[head][bank].copy()
            want[place] = x[bank, head * channels : (head + 1) * channels]
            found = space.read(memory, cache[head][bank], SMALL.rows, channels)
            assert np.array_equal(found, want)

    elements, work = heads * channels, LayerWork(SMALL)
    sources = [space.tensor(np.broadcast_to(row, (SMALL.rows, elements))) for row in x]
    results = space.reserve(work.activation_lines(elements, MANTISSA))
    work.gather(elements, mantissa=MANTISSA, sources=sources, ones=ones, results=results)
    assert_activations(space.run(work), results, x)


@pytest.mark.parametrize("elements", [16, 100])
def test_gated(elements):
    rng, space, work = np.random.default_rng(5), Memories(), LayerWork(SMALL, 16)
    tokens = 8
    gate, up = (halves(rng, tokens, elements) for _ in range(2))
    lines = space.tensor(gate), space.tensor(up)
    results = space.reserve(work.activation_lines(elements, MANTISSA) * 4)
    work.gated(tokens, elements, mantissa=MANTISSA, gate=lines[0], up=lines[1], results=results)
    memory = space.run(work)
    one, minus = np.uint16(fp16(1.0)), np.uint16(fp16(-1.0))
    power = elementwise(Operation.EXPONENTIAL, elementwise(MULTIPLY, gate, minus), gate)
    share = elementwise(Operation.RECIPROCAL, elementwise(ADD, power, one), gate)
    want = elementwise(MULTIPLY, elementwise(MULTIPLY, gate, share), up)
    x = gate.view(np.float16).astype(np.float64)
    exact = x / (1 + np.exp(-x)) * up.view(np.float16)
    assert np.abs(want.view(np.float16) - exact).max() < 0.02
    assert_activations(memory, results, want)


def test_results_of_a_prompt_are_compressed():
    rng, space, work = np.random.default_rng(6), Memories(), LayerWork(SMALL)
    x = halves(rng, 8, 100)
    source = space.tensor(x)
    results = space.reserve(work.activation_lines(100, MANTISSA) * 4)
    work.activations(8, 100, mantissa=MANTISSA, source=source, results=results)
    assert_activations(space.run(work), results, x)


def test_what_does_not_fit_is_refused():
    work = LayerWork(SMALL)
    with pytest.raises(ValueError, match=r"^600 values of a token tile do not fit 1024 rows$"):
        work.gated(2, 600, mantissa=MANTISSA, gate=0, up=0, results=0)
    with pytest.raises(ValueError, match=r"^halves of 8 channels do not fill lines of 64 bytes$"):
        work.rotate(2, 1, 8, source=0, table=0)
