# amaranth: UnusedElaboratable=no
"""The conversion path at every width: what it writes, and when it is idle again."""

import random

import numpy as np
import pytest
from amaranth import Value

from tests.support.clocked import run
from tilewright.golden.harmonia_machine.cycles import convert_cycles, learn_cycles
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.isa import Instruction, groups_of, tiles_of, words_of
from tilewright.golden.params.harmonia_machine import Conversion, HarmoniaParams, Memory, Opcode
from tilewright.golden.params.machine import Error
from tilewright.hw.harmonia_machine.conversion import ConversionPath
from tilewright.hw.harmonia_machine.group_writer import COMMAND_NAMES
from tilewright.verify.stimuli.tensors import with_outliers

ROWS = 48  # of the fp16 memory that hold values


def bits_of(ctx, value):
    return ctx.get(Value.cast(value))


def random_convert(p, rng, conversion):
    elements = rng.randint(1, p.channels)
    return Instruction(
        Opcode.CONVERT,
        {
            "conversion": int(conversion),
            "source": rng.randrange(ROWS - words_of(p, elements) * p.converter.loops),
            "elements": elements,
            "destination": rng.randrange(16),
            "low_halves": 64 + rng.randrange(16),
            "metadata": rng.randrange(16),
            "part": rng.randrange(p.parts),
            "tokens": rng.randint(1, p.group),
            "short": rng.randrange(2),
        },
    )


def learns(p, rng):
    """A window of two token tiles."""
    elements = rng.randint(2, p.channels)
    for k in range(2):
        source = rng.randrange(ROWS - words_of(p, elements))
        fields = {"source": source, "elements": elements, "first": 1 - k, "last": k}
        yield Instruction(Opcode.LEARN, fields)


@pytest.mark.parametrize("width", [1, pytest.param(2, marks=pytest.mark.full), 4])
def test_conversions_are_goldens(width):
    """Keys less offsets that are learnt on the way, ragged sizes; to the bit and the cycle."""
    p = HarmoniaParams.preset("small", converter_width=width)
    rng = random.Random(width)
    program = [*learns(p, rng)]
    for conversion in list(Conversion) * 5:
        program.append(random_convert(p, rng, conversion))
        if rng.random() < 0.2:
            program.extend(learns(p, rng))
    shape = (ROWS, p.rows, p.word_values)
    values = with_outliers(np.random.default_rng(width), 1, int(np.prod(shape))).reshape(shape)
    machine = Machine(p, np.zeros(64, np.uint8))
    machine.memories[Memory.FP16][:ROWS] = values
    machine.run([Instruction(Opcode.HALT)])  # settings and counts of a program that has begun
    dut = ConversionPath(p)
    memories = {memory: rows.copy() for memory, rows in machine.memories.items()}

    def put(memory, row, column, bits, each):
        content = memories[memory]
        if content.ndim == 2:
            content[row, column] = bits
        else:
            count = content.shape[-1]
            mask = (1 << each) - 1
            content[row, column] = [bits >> each * k & mask for k in range(count)]

    def write(ctx):
        activations, operands = dut.write_activations, dut.write_operands
        if ctx.get(activations.enable):
            row, data = ctx.get(activations.row), activations.data
            octets = bits_of(ctx, data.exponents)
            for r in range(p.rows):
                put(Memory.SIGNS, row, r, bits_of(ctx, data.signs[r]), 1)
                put(Memory.MANTISSAS, row, r, bits_of(ctx, data.mantissas[r]), 8)
                put(Memory.EXPONENTS, row, r, octets >> 8 * r & 255, 8)
        for c, word in enumerate(operands.data):
            if ctx.get(operands.enable.operands) >> c & 1:
                bits = bits_of(ctx, word.operands)
                put(Memory.OPERANDS, ctx.get(operands.row.operands), c, bits, 4)
            if ctx.get(operands.enable.signs) >> c & 1:
                row = ctx.get(operands.row.facts)
                put(Memory.OPERAND_SIGNS, row, c, bits_of(ctx, word.signs), 1)
                put(Memory.OPERAND_EXPONENTS, row, c, ctx.get(word.exponent), 8)

    async def bench(ctx):
        for x in program:
            command = dut.command
            ctx.set(command.learn, x.opcode is Opcode.LEARN)
            for name, value in x.fields.items():
                if not name.endswith("_index"):
                    ctx.set(command[COMMAND_NAMES.get(name, name)], value)
            spatial = x.fields.get("conversion") == Conversion.VALUES
            blocks = tiles_of(p, x["elements"]) if spatial else groups_of(p, x["elements"])
            ctx.set(command.blocks, blocks)
            ctx.set(command.words, words_of(p, x["elements"]))
            ctx.set(command.lanes, (1 << p.rows) - 1)
            ctx.set(dut.start, 1)
            cycles, shown = 0, 0
            while cycles == 0 or ctx.get(dut.busy):
                write(ctx)
                if ctx.get(dut.read.enable):
                    row = memories[Memory.FP16][ctx.get(dut.read.address)]
                    bank = [sum(int(v) << 16 * k for k, v in enumerate(r)) for r in row]
                    shown = sum(b << 16 * p.word_values * r for r, b in enumerate(bank))
                await ctx.tick()
                ctx.set(Value.cast(dut.read.data), shown)
                ctx.set(dut.start, 0)
                cycles += 1
            assert machine._step(x) is Error.NONE
            want = learn_cycles(p, x) if x.opcode is Opcode.LEARN else convert_cycles(p, x)
            assert cycles == want, x
            for memory, rows in machine.memories.items():
                assert np.array_equal(memories[memory], rows), (x, memory)

    run(dut, bench)
