"""Programs of the Anda accelerator: assembler, builder, golden machine."""

import numpy as np
import pytest

from tilewright.golden.anda.dot_products import gemm
from tilewright.golden.anda_machine.cycles import program_cycles
from tilewright.golden.anda_machine.executor import Machine
from tilewright.golden.anda_machine.isa import (
    Instruction,
    assemble,
    decode,
    disassemble,
    first_hazard,
)
from tilewright.golden.anda_machine.layout import (
    anda_rows,
    fp16_rows,
    fp16_values,
)
from tilewright.golden.bfp import encode
from tilewright.golden.machine.assembly import AssemblyError
from tilewright.golden.machine.layout import from_bytes, to_bytes
from tilewright.golden.machine.moves import Move, ReadPort, load_cycles, store_cycles
from tilewright.golden.params.anda_machine import AndaParams, Counter, Memory, Opcode
from tilewright.golden.params.machine import Error
from tilewright.golden.params.vector import Operation
from tilewright.verify.anda_machine.builder import Builder
from tilewright.verify.stimuli.tensors import heavy_tailed, random_weights

SMALL, PAPER = AndaParams.preset("small"), AndaParams.preset("paper")
PRESETS = pytest.mark.parametrize("params", [SMALL, PAPER], ids=["small", "paper"])

PROGRAM = """
configure source=5, result=0        ; formats
load activations, row=0, rows=12, line=0x40
load exponents, row=0, rows=2, line=128, stride=6
wait
gemm source=0, weights=0, scales=0, destination=64, inputs=32, outputs=20
sum s0, r64, elements=20, scale=0.0625
add s0, s0, #0.5
multiply r96, r64, s0, elements=20
compress source=96, destination=0, elements=20
store activations, row=96, rows=32, line=256
halt
"""


# Assembler.


def test_text_and_words_name_the_same_instructions():
    program = assemble(PROGRAM)
    assert "".join(x.opcode.name[0] for x in program) == "CLLWGVVVCSH"
    assert assemble(disassemble(program)) == program
    assert assemble(disassemble([x.encode() for x in program])) == program
    assert program[0].encode() == 2 | 5 << 4  # opcode, source, result
    assert program[1].encode() == 3 | 0 << 4 | 1 << 7 | 0 << 15 | 12 << 31 | 0x40 << 47


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nlod x", "line 2: unknown instruction 'lod'; known: halt, .*"),
        ("wait 5", "line 1: expected NAME=VALUE, not '5'"),
        ("halt now=1", "line 1: halt has no operand 'now'"),
        ("load caches, row=0", "line 1: unknown memory 'caches'; known: activations, .*"),
        ("load weights, row=0, rows=1", "line 1: load lacks line"),
        ("load weights, row=0, rows=70000, line=0", "line 1: load: rows must be 0..65535, not .*"),
        ("store exponents, row=x, rows=1, line=0", "line 1: row must be a whole number, not 'x'"),
        ("compress source=0, source=1", "line 1: source is given twice"),
        ("add r0, r1, elements=4", "line 1: add takes 3 operands, not 2"),
        ("add r0, r1, t2, elements=4", "line 1: an operand is rROW, sREGISTER or #VALUE, not 't2'"),
        ("add r0, r1, #x, elements=4", "line 1: 'x' is not a number"),
        ("add s0, r1, #1, elements=4", "line 1: add writes a tensor, not s0"),
        ("sum r0, r1, elements=4", "line 1: sum writes a scalar, not r0"),
        ("add r0, r1, #1", "line 1: add lacks elements"),
        ("add r0, r1, #1, elements=4, scale=2", "line 1: add has no operand 'scale'"),
    ],
)
def test_wrong_lines(text, message):
    with pytest.raises(AssemblyError, match=f"^{message}$"):
        assemble(text)


def test_wrong_instructions():
    with pytest.raises(ValueError, match=r"^halt has the fields \[\], not \['row'\]$"):
        Instruction(Opcode.HALT, {"row": 1})
    with pytest.raises(ValueError, match=r"^0xf has an unknown opcode$"):
        disassemble([15])
    with pytest.raises(ValueError, match="is not a word of 128 bits"):
        decode(1 << 128)
    assert decode(0) is None


# Layouts.


@PRESETS
def test_rows_and_lines_come_back(params):
    rng = np.random.default_rng(4)
    values = rng.integers(0, 1 << 16, (params.rows, params.group + 3)).astype(np.uint16)
    rows = fp16_rows(params, values)
    assert np.array_equal(fp16_values(params, rows, values.shape[1]), values)
    # Element 0 of token 0 is the lowest of row 0, and the next row has the next elements.
    lanes = params.vector.row_lanes
    assert int(rows[0, 0]) & 0xFFFF == values[0, 0]
    assert int(rows[1, params.rows - 1]) & 0xFFFF == values[params.rows - 1, lanes]
    data = to_bytes(params, Memory.ACTIVATIONS, rows)
    assert len(data) % params.line_bytes == 0
    assert np.array_equal(from_bytes(params, Memory.ACTIVATIONS, data, len(rows)), rows)


def test_a_tile_has_no_more_tokens_than_rows():
    with pytest.raises(ValueError, match=r"^a token tile is \(1..2, elements\) values, not"):
        fp16_rows(SMALL, np.zeros((3, 4), np.uint16))


# The machine.


def read_output(b, memory, output):
    """fp16 patterns (rows of the array, elements) of a stored fp16 tensor."""
    data = memory[output.line * b.params.line_bytes :]
    return b.machine.tile_values(data, output.tensor.elements)


@PRESETS
@pytest.mark.parametrize("mantissa", [1, 6, 16])
def test_gemm_is_that_of_golden_anda(params, mantissa):
    rng = np.random.default_rng(mantissa)
    inputs, outputs = 2 * params.group - 5, params.group + 3
    x = heavy_tailed(rng, params.rows, inputs)
    weights = random_weights(rng, outputs, inputs, params.weight_bits)
    b = Builder(params)
    placed = b.weights(weights)
    source = b.load(x, mantissa)
    b.wait()
    y = b.store(b.gemm(source, placed))
    packed = b.gemm(source, placed, result=4)
    b.halt()
    memory = b.memory
    machine = Machine(params, memory)
    outcome = machine.run(b.program)
    assert outcome.error is Error.NONE
    fmt = params.mxu.numerics.block_format(mantissa)
    want = gemm(params.mxu.numerics, mantissa, encode(fmt, x), weights)
    assert np.array_equal(read_output(b, memory, y), want)
    planes = anda_rows(params, 4, want)
    assert np.array_equal(machine.activations[packed.row :][: len(planes.rows)], planes.rows)
    exponents = machine.exponents[packed.row :][: len(planes.rows) : 5]
    assert np.array_equal(exponents, planes.exponents)


def test_loads_hide_behind_other_work():
    """Scales first, then the weights beside the vector unit, which waits for the loads before."""
    b = Builder(SMALL)
    x = b.load(heavy_tailed(np.random.default_rng(2), 2, 40))
    b.weights(random_weights(np.random.default_rng(1), 16, 32, 4))
    for _ in range(6):
        b.apply(Operation.EXPONENTIAL, x, into=x)
    b.halt()
    outcome = Machine(SMALL, b.memory).run(b.program)
    short, long = (program_cycles(SMALL, outcome, latency) for latency in (10, 20))
    assert long[Counter.CYCLES] - short[Counter.CYCLES] == 2 * 10  # x, and the scales


def test_moves_in_closed_form():
    """One line: asked, answered, queued, its rows one a cycle; a store: a cycle a row."""
    assert load_cycles(SMALL, Move(Memory.ACTIVATIONS, 16), 7) == 1 + 7 + 3 + 16 + 1
    assert load_cycles(PAPER, Move(Memory.ACTIVATIONS, 1), 7) == 1 + 7 + 3 + 1 + 1
    # Beats: one a cycle, or as many as requests are outstanding in their time.
    assert load_cycles(PAPER, Move(Memory.WEIGHTS, 400), 7) == 1 + 7 + 3 + 100
    assert load_cycles(PAPER, Move(Memory.WEIGHTS, 400, beats=False), 7) == 1 + 7 + 3 + 800 + 1
    few, many = (load_cycles(PAPER, Move(Memory.WEIGHTS, rows), 200) for rows in (2048, 4096))
    assert many - few == 2048 // 4 // PAPER.dma_lines * (200 + 3)
    # The next load asks a cycle after the last line of this one was asked for, and waits no more.
    port = ReadPort(PAPER, 40)
    ends = [port.load(Move(Memory.WEIGHTS, 400), 0, begin) for begin in (0, 101, 202)]
    assert port.asked == 302 and ends == [1 + 40 + 3 + 100 + 101 * k for k in range(3)]
    assert store_cycles(SMALL, Memory.ACTIVATIONS, 17, latency=7) == 17 + 2 + 7 + 2
    assert store_cycles(PAPER, Memory.ACTIVATIONS, 5, latency=7) == 5 + 1 + 7 + 2


@pytest.mark.parametrize(
    ("text", "hazard"),
    [
        ("gemm source=0, weights=0, scales=0, destination=9, inputs=32, outputs=2", None),
        (
            "gemm source=0, weights=0, scales=0, destination=7, inputs=32, outputs=2",
            "instruction 1, gemm, reads rows 0..7 of activations and writes rows 7..22"
            " of activations",
        ),
        ("add r0, r0, r16, elements=16", None),
        ("add r16, r0, r16, elements=16", None),
        (
            "copy r8, r0, elements=16",
            "instruction 1, vector, reads rows 0..15 of activations and writes rows 8..23"
            " of activations",
        ),
        ("sum s0, r0, elements=16", None),
        ("halt\ncopy r8, r0, elements=16", None),
        ("add r5000, r0, #1, elements=16\ncopy r8, r0, elements=16", None),  # stops before
    ],
)
def test_what_depends_on_timing_is_found(text, hazard):
    program = assemble(f"configure source=3, result=0\n{text}\nhalt")
    found = first_hazard(SMALL, program)
    assert (found and str(found)) == hazard
