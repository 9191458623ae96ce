"""GEMMs of any size as programs: results of the untiled GEMM, no hazards, all of a memory."""

import numpy as np
import pytest

from tilewright.golden import anda
from tilewright.golden.anda_machine import executor as anda_executor
from tilewright.golden.anda_machine.block import heavy_tailed
from tilewright.golden.anda_machine.deep_gemm import DeepGemm, any_gemm
from tilewright.golden.anda_machine.hazards import first_hazard as anda_hazard
from tilewright.golden.anda_machine.layout import anda_rows, from_bytes
from tilewright.golden.anda_machine.tiled_gemm import TiledGemm as AndaGemm
from tilewright.golden.bfp import encode
from tilewright.golden.harmonia_machine import executor as harmonia_executor
from tilewright.golden.harmonia_machine.builder import Builder
from tilewright.golden.harmonia_machine.hazards import first_hazard as harmonia_hazard
from tilewright.golden.harmonia_machine.tiled_gemm import TiledGemm as HarmoniaGemm
from tilewright.golden.machine.tiling import (
    Piece,
    Step,
    cut,
    packed,
    pipelined,
    places,
    steps,
)
from tilewright.golden.params.anda_machine import AndaParams, Memory, Opcode
from tilewright.golden.params.formats import BlockFormat
from tilewright.golden.params.harmonia_machine import Dataflow, HarmoniaParams
from tilewright.golden.weights import quantise

ANDA = AndaParams.preset("small", activation_rows=128, weight_rows=128, instructions=40)
SHORT = AndaParams.preset("small", activation_rows=64, weight_rows=128)
HARMONIA = HarmoniaParams.preset(
    "small", operand_rows=64, activation_rows=32, halves_rows=64, instructions=64
)
SHAPES = [(1, 16, 2), (2, 40, 70), (9, 20, 37), (15, 40, 33), (33, 17, 101)]


def operands(shape, group, seed=1):
    tokens, inputs, outputs = shape
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((outputs, inputs))
    whole = -(-inputs // group) * group
    return heavy_tailed(rng, tokens, inputs), quantise(weights, 4, group=whole)


def execute(machine, hazard, params, tiled, memory):
    for program in tiled.programs():
        assert hazard(params, program) is None
        assert len(program) <= params.instructions
        assert machine.run(program).error == 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stay", [False, True])
@pytest.mark.parametrize("large", [False, True])
def test_a_tiled_product_of_anda_is_the_product(shape, stay, large):
    tokens, inputs, outputs = shape
    values, weights = operands(shape, ANDA.group)
    size = {"params": ANDA, "tokens": tokens, "inputs": inputs, "outputs": outputs}
    tiled = AndaGemm(**size, mantissa=5, weights_stay=stay, large_blocks=large)
    memory = tiled.memory(values, weights)
    machine = anda_executor.Machine(ANDA, memory)
    execute(machine, anda_hazard, ANDA, tiled, memory)
    blocks = encode(BlockFormat(group=ANDA.group, mantissa_bits=5), values, saturate=True)
    want = anda.gemm(ANDA.mxu.numerics, 5, blocks, weights)
    assert np.array_equal(tiled.results(memory), want)


def test_results_are_compressed_where_asked():
    """One token tile and one part: what is stored is the untiled results in Anda format."""
    values, weights = operands((2, 16, 16), ANDA.group)
    size = {"params": ANDA, "tokens": 2, "inputs": 16, "outputs": 16, "mantissa": 5}
    stored = {}
    for result in (0, 3):
        tiled = AndaGemm(**size, result=result)
        memory = tiled.memory(values, weights)
        machine = anda_executor.Machine(ANDA, memory)
        execute(machine, anda_hazard, ANDA, tiled, memory)
        stored[result] = tiled, memory, machine
    tiled, memory, machine = stored[3]
    with pytest.raises(ValueError, match=r"^only fp16 results are read back as values$"):
        tiled.results(memory)
    plain, memory, _ = stored[0]
    want = anda_rows(ANDA, 3, plain.results(memory))
    (instruction,) = [
        x for program in tiled.programs() for x in program if "destination" in x.fields
    ]
    found = machine.activations[instruction["destination"] :][: len(want.rows)]
    assert np.array_equal(found, want.rows)


DEEP = AndaParams.preset("small", activation_rows=256, weight_rows=128, instructions=40)
DEEP_SHAPES = [(1, 200, 2), (3, 130, 37), (9, 70, 33), (2, 512, 17), (5, 200, 16)]


@pytest.mark.parametrize("shape", DEEP_SHAPES)
def test_a_product_of_more_inputs_than_the_weight_buffer_holds(shape):
    """fp16 results are those of the untiled GEMM; compressed ones are these in Anda format."""
    tokens, inputs, outputs = shape
    values, weights = operands(shape, DEEP.group)
    size = {"params": DEEP, "tokens": tokens, "inputs": inputs, "outputs": outputs, "mantissa": 5}
    for result in (0, 4):
        deep = any_gemm(**size, result=result)
        assert isinstance(deep, DeepGemm)
        memory = deep.memory(values, weights)
        machine = anda_executor.Machine(DEEP, memory)
        execute(machine, anda_hazard, DEEP, deep, memory)
        if result:
            continue
        blocks = encode(BlockFormat(group=DEEP.group, mantissa_bits=5), values, saturate=True)
        want = anda.gemm(DEEP.mxu.numerics, 5, blocks, weights)
        assert np.array_equal(deep.results(memory), want)
    stores = [x for program in deep.programs() for x in program if x.opcode is Opcode.STORE]
    found = [
        from_bytes(DEEP, Memory(x["memory"]), memory[x["line"] * DEEP.line_bytes :], x["rows"])
        for x in stores
    ]
    padded = np.zeros((-(-tokens // DEEP.rows) * DEEP.rows, outputs), np.uint16)
    padded[:tokens] = want
    tile = 0
    for block in deep.blocks:
        for first in range(0, outputs, DEEP.group):
            planes = [
                anda_rows(DEEP, 4, padded[k * DEEP.rows :][: DEEP.rows, first : first + DEEP.group])
                for k in range(tile, tile + block)
            ]
            for rows in (0, 1):
                wanted = np.concatenate([each[rows] for each in planes])
                assert np.array_equal(found.pop(0), wanted)
        tile += block
    assert not found


def test_any_gemm_takes_parts_of_whole_groups_where_it_can():
    size = {"params": ANDA, "tokens": 1, "outputs": 16, "mantissa": 5}
    assert type(any_gemm(**size, inputs=64)) is AndaGemm
    assert type(any_gemm(**size, inputs=65)) is DeepGemm
    with pytest.raises(ValueError, match=r"^inputs must be at most 512 on anda__.*, not 513$"):
        any_gemm(**size, inputs=513)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dataflow", Dataflow)
@pytest.mark.parametrize("large", [False, True])
def test_a_tiled_product_of_harmonia_is_that_of_its_instruction(shape, dataflow, large):
    tokens, inputs, outputs = shape
    values, weights = operands(shape, HARMONIA.group)
    size = {"params": HARMONIA, "tokens": tokens, "inputs": inputs, "outputs": outputs}
    tiled = HarmoniaGemm(**size, dataflow=dataflow, large_blocks=large)
    memory = tiled.memory(values, weights)
    machine = harmonia_executor.Machine(HARMONIA, memory)
    execute(machine, harmonia_hazard, HARMONIA, tiled, memory)
    builder = Builder(HARMONIA)
    line = builder.tiled_gemm(builder.place_activations(values), tokens, weights, dataflow, 1)
    builder.halt()
    other = builder.memory
    harmonia_executor.Machine(HARMONIA, other).run(builder.program)
    want = builder.product_results(other, line, tokens, outputs)
    assert np.array_equal(tiled.results(memory), want)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"inputs": 65}, r"^inputs must be at most 64 on anda__.*, not 65$"),
        ({"tokens": 0}, r"^tokens must be at least 1, not 0$"),
        ({"mantissa": 17}, r"^mantissa must be 1\.\.16, not 17$"),
        (
            {"inputs": 64, "mantissa": 16, "params": SHORT},
            r"^64 inputs and results of a part do not fit 64 rows$",
        ),
    ],
)
def test_refused_products_of_anda(sizes, message):
    given = {"params": ANDA, "tokens": 1, "inputs": 16, "outputs": 16, "mantissa": 5}
    with pytest.raises(ValueError, match=message):
        AndaGemm(**given | sizes)


def test_refused_products_of_harmonia():
    with pytest.raises(ValueError, match=r"^inputs must be at most 256 on harmonia__.*, not 257$"):
        HarmoniaGemm(params=HARMONIA, tokens=1, inputs=257, outputs=1)
    tiled = HarmoniaGemm(params=HARMONIA, tokens=1, inputs=8, outputs=4)
    values, weights = operands((1, 9, 4), HARMONIA.group)
    with pytest.raises(ValueError, match=r"^values \(1, 9\) and weights \(4, 9\) are not of this"):
        tiled.memory(values, weights)


def test_order_of_steps():
    assert list(steps(2, 2, weights_stay=False)) == [
        Step(0, 0, block_half=0, part_half=0, new_block=True, new_part=True),
        Step(0, 1, block_half=0, part_half=1, new_block=False, new_part=True),
        Step(1, 0, block_half=1, part_half=0, new_block=True, new_part=True),
        Step(1, 1, block_half=1, part_half=1, new_block=False, new_part=True),
    ]
    assert list(steps(2, 2, weights_stay=True)) == [
        Step(0, 0, block_half=0, part_half=0, new_block=True, new_part=True),
        Step(1, 0, block_half=1, part_half=0, new_block=True, new_part=False),
        Step(0, 1, block_half=0, part_half=1, new_block=True, new_part=True),
        Step(1, 1, block_half=1, part_half=1, new_block=True, new_part=False),
    ]
    # All weights are there: they come once.
    assert [step.new_part for step in steps(3, 1, weights_stay=False)] == [True, False, False]


def test_order_of_instructions():
    """Weights ahead of the work before theirs; stores behind the work after theirs, or at once."""
    pieces = [Piece(*(f"{kind}{k}" for kind in "wogs")) for k in range(3)]
    ordered = ["".join(piece) for piece in pipelined(pieces, results_stay=True)]
    assert ordered == ["w0o0", "w1g0o1", "w2g1s0o2", "g2s1", "s2"]
    ordered = ["".join(piece) for piece in pipelined(pieces, results_stay=False)]
    assert ordered == ["w0o0", "w1g0o1", "s0w2g1o2", "s1g2", "s2"]


def test_places_of_tensors():
    assert places(64, 16, (20, 1), (16, 2)) == [[0], [32, 48]]
    assert places(64, 16, (20, 2), (1, 1)) is None


def test_pieces_and_programs():
    assert cut(10, 4) == [4, 4, 2]
    programs = packed([[1, 2], [3, 4], [5, 6]], [0], 9, 6)
    assert programs == [[0, 1, 2, 3, 4, 9], [0, 5, 6, 9]]
