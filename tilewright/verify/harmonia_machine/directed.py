"""One program with every instruction that has a size, on one row or group and on several.

Random programs draw sizes, and some instructions seldom: this one has them all.
"""

from random import Random

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.harmonia_machine.isa import Instruction
from tilewright.golden.machine.assembly import ONE
from tilewright.golden.params.harmonia_machine import (
    Conversion,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from tilewright.golden.params.machine import Kind
from tilewright.verify.harmonia_machine.builder import Builder
from tilewright.verify.harmonia_machine.workload import Writer

__all__ = ["directed_program"]

GROUPS = 3  # of an instruction on several


def directed_program(
    params: HarmoniaParams, seed: int
) -> tuple[list[Instruction], NDArray[np.uint8]]:
    """The program and the external memory that it starts with."""
    b = Builder(params)
    writer = Writer(b, Random(seed), np.random.default_rng(seed))
    writer.fill()
    b.configure(lanes=range(params.rows))
    for memory in Memory:
        for rows in (1, writer.choose.randint(2, 5)):
            line = b.reserve(params.lines(memory, rows))
            if memory.stores:
                b.store(memory, writer.row(memory, rows), rows, line)
            b.load(memory, writer.row(memory, rows), rows, line)
            b.wait()
    for groups in (1, GROUPS):
        _vectors(b, writer, groups)
        _conversions(b, writer, groups)
        _products(b, writer, groups)
        b.emit(Opcode.CLEAR, low_halves=writer.row(Memory.OPERANDS, groups), rows=groups, part=0)
        b.wait()
        writer.keep()
        b.wait()
    b.halt()
    return b.program, b.memory


def _vectors(b: Builder, writer: Writer, groups: int) -> None:
    p, choose = b.params, writer.choose
    for operation in p.vector.operations:
        elements = groups * p.group - choose.randrange(p.group)
        words = -(-elements // p.word_values)
        first = writer.base(Memory.FP16)
        b.emit(
            Opcode.VECTOR,
            operation=int(operation),
            a_kind=int(Kind.TENSOR),
            b_kind=int(Kind.TENSOR),
            a=first,
            b=first + words,
            destination=1 if operation.reduces else first + 2 * words,
            elements=elements,
            scale=ONE,
            causal_limit=0,
            total=2,
        )
        b.wait()


def _conversions(b: Builder, writer: Writer, groups: int) -> None:
    p, choose = b.params, writer.choose
    most = min(groups * p.group, p.channels)
    for conversion in (None, *Conversion):
        writer.fill_values()  # conversions of finite values; results of vectors need not be
        elements = most - choose.randrange(min(p.group, most) // 2)
        rows = max(-(-elements // p.group), -(-elements // p.columns))
        words = -(-elements // p.word_values) * p.converter.loops
        source = writer.row(Memory.FP16, words)
        if conversion is None:
            b.emit(Opcode.LEARN, source=source, elements=elements, first=1, last=1)
        else:
            b.convert(
                conversion,
                source=source,
                elements=elements,
                destination=writer.row(Memory.OPERANDS, rows, (0, 0.5)),
                low_halves=writer.row(Memory.OPERANDS, rows, (0.5, 1)),
                metadata=writer.row(Memory.OPERAND_SIGNS, rows, (0, 0.5)),
                tokens=p.group,
            )
        b.wait()


def _products(b: Builder, writer: Writer, groups: int) -> None:
    p = b.params
    for operand in Operand:
        low_halves, tiles = 0, 2
        if operand is not Operand.WEIGHTS:
            across = groups if operand is Operand.KEYS else tiles
            low_halves = writer.row(Memory.OPERANDS, p.low_slots(operand) * across)
        b.gemm(
            operand,
            source=writer.row(Memory.MANTISSAS, groups),
            operands=writer.row(Memory.OPERANDS, tiles * groups),
            low_halves=low_halves,
            metadata=writer.row(Memory.OPERAND_SIGNS, tiles * groups),
            destination=writer.row(Memory.FP16, tiles * p.tile_words),
            groups=groups,
            tiles=tiles,
        )
        b.wait()
