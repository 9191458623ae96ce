"""Programs of Harmonia for benches: random ones, and one with every instruction."""

from functools import partial
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.sizes import Matrix
from tilewright.golden.harmonia_machine import layout
from tilewright.golden.harmonia_machine.isa import CACHED, Instruction
from tilewright.golden.machine.instruction import ONE
from tilewright.golden.params.harmonia_machine import (
    Conversion,
    Dataflow,
    HarmoniaParams,
    Memory,
    Opcode,
    Operand,
)
from tilewright.golden.params.machine import SCALARS, Kind
from tilewright.golden.weights import quantise
from tilewright.verify.harmonia_machine.builder import Builder
from tilewright.verify.stimuli.tensors import with_outliers

GROUPS = 3  # of an instruction of the directed program on several

# Rows of every memory that a program starts with, works on and stores: on both sides of the border
# of two regions, so that instructions work in one of them or in both.
FILLED = 128
EXPONENTS = (8, 22)  # shared ones: results neither vanish nor overflow


def random_program(params: HarmoniaParams, seed: int, steps: int = 12) -> Builder:
    """Random contents of all memories, ``steps`` random instructions, and stores of it all."""
    b = Builder(params)
    writer = Writer(b, Random(seed), np.random.default_rng(seed))
    writer.fill()
    for _ in range(steps):
        writer.step()
    writer.keep()
    b.halt()
    return b


class Writer:
    """Instructions on some rows of every memory, in places that ``choose`` draws."""

    def __init__(self, builder: Builder, choose: Random, rng: np.random.Generator):
        self.b, self.choose, self.rng = builder, choose, rng
        self.params = builder.params
        self.lines: dict[Memory, int] = {}  # where rows of each memory are stored

    def rows(self, memory: Memory) -> int:
        return min(FILLED, self.params.depth(memory))

    def base(self, memory: Memory) -> int:
        """The first of these rows."""
        border = self.params.region_rows(memory)
        return max(0, min(border - FILLED // 2, self.params.depth(memory) - FILLED))

    def fill(self) -> None:
        for memory in Memory:
            self._fill(memory)

    def fill_values(self) -> None:
        """The memory of fp16 values again, with finite ones."""
        self._fill(Memory.FP16)

    def _fill(self, memory: Memory) -> None:
        rows = self.rows(memory)
        shape = (rows, *self.params.row_shape(memory))
        if memory in (Memory.EXPONENTS, Memory.OPERAND_EXPONENTS):
            content: NDArray = self.rng.integers(*EXPONENTS, shape)
        elif memory in (Memory.FP16, Memory.SCALES):
            content = with_outliers(self.rng, 1, int(np.prod(shape))).reshape(shape)
        else:
            content = self.rng.integers(0, 1 << memory.element_bits, shape)
        self.b.load(memory, self.base(memory), rows, self.b.place(memory, content, rows))

    def keep(self) -> None:
        for memory in Memory:
            if memory.stores:
                rows = self.rows(memory)
                line = self.b.reserve(self.params.lines(memory, rows))
                self.b.store(memory, self.base(memory), rows, line)
        self._keep_scalars()

    def _keep_scalars(self) -> None:
        """Scalar registers: each added to zeros."""
        rows, lines = SCALARS, self.params.lines(Memory.FP16, SCALARS)
        self.b.configure(lanes=range(self.params.rows))
        first = self.base(Memory.FP16)
        self.b.load(Memory.FP16, first, rows, self.b.reserve(lines))
        for k in range(first, first + SCALARS):
            self.b.write(f"add r{k}, r{k}, s{k - first}, elements={self.params.word_values}")
        self.b.store(Memory.FP16, first, rows, self.b.reserve(lines))

    def step(self) -> None:
        kinds = (self._gemm, self._vector, self._convert, self._move, self._overlap)
        rare = (self._learn, self._clear, self._product, self._configure, self.b.wait)
        self.choose.choice((*kinds, *kinds, *rare))()

    def row(self, memory: Memory, rows: int, part: tuple[float, float] = (0, 1)) -> int:
        """Where so many rows fit, in a part of the memory."""
        first, end = (int(share * self.rows(memory)) for share in part)
        return self.base(memory) + self.choose.randint(first, end - rows)

    def _configure(self) -> None:
        p, choose = self.params, self.choose
        some = [lane for lane in range(p.rows) if choose.random() < 0.6]
        self.b.configure(
            lanes=choose.choice((range(p.rows), some)),
            tokens=choose.randrange(3 * (p.initial + p.local)),
            dataflow=choose.choice(list(Dataflow)),
            causal_limit=choose.choice((0, choose.randint(1, 4 * p.columns))),
        )

    def _gemm(
        self, source: tuple = (0, 1), operands: tuple = (0, 1), results: tuple = (0, 1)
    ) -> None:
        """On these parts of the memories."""
        p, choose = self.params, self.choose
        operand = choose.choice(p.operands)
        groups, tiles, token_tiles = (choose.randint(1, 4) for _ in range(3))
        if operand is Operand.SHARED:
            tiles = p.whole_tiles(tiles)
            token_tiles = choose.choice((1, token_tiles))
        taken = (tiles if operand in CACHED else p.whole_tiles(tiles)) * groups
        low_halves = 0
        if operand in CACHED:
            self._configure()
            across = groups if operand is Operand.KEYS else tiles
            low_halves = self.row(Memory.OPERANDS, p.low_slots(operand) * across, operands)
        block = -p.row_groups if operand is Operand.SHARED else -1
        places = {
            "source": self.row(Memory.MANTISSAS, token_tiles * groups, source),
            "operands": self.row(Memory.OPERANDS, taken, operands) & block,
            "low_halves": low_halves,
            "metadata": self.row(Memory.OPERAND_SIGNS, taken, operands) & block,
            "destination": self.row(Memory.FP16, token_tiles * tiles * p.tile_words, results),
        }
        sizes = {"groups": groups, "tiles": tiles, "token_tiles": token_tiles}
        kept = choose.choice((None, choose.randrange(SCALARS)))
        if operand is Operand.SHARED:
            kept = None
        maxima = {"maxima": kept is not None, "register": kept or 0}
        if operand is Operand.SHARED and (tiles, token_tiles) == (p.row_groups, 1):
            for _ in range(choose.randint(0, 2)):  # sums that stay open; any gemm goes on from them
                self.b.emit(Opcode.GEMM, operand=operand, **places, **sizes, register=1)
        self.b.emit(Opcode.GEMM, operand=operand, **places, **sizes, **maxima)

    def _overlap(self) -> None:
        """A conversion and a gemm in different regions, concurrently with moves; then anything."""
        self._convert(source=(0, 0.5), highs=(0, 0.25), low_halves=(0.25, 0.5))
        self._gemm(source=(0.5, 1), operands=(0.5, 1), results=(0.5, 1))
        for _ in range(self.choose.randint(0, 3)):
            self._move()

    def _move(self) -> None:
        """Rows from one place to another, by way of external memory; loads wait for their lines."""
        choose = self.choose
        memory = choose.choice([memory for memory in Memory if memory.stores])
        if memory not in self.lines:
            self.lines[memory] = self.b.reserve(self.params.lines(memory, 48))
            self.b.store(memory, self.base(memory), 48, self.lines[memory])
        banks = [None, *range(self.params.rows)] if memory is Memory.FP16 else [None]
        for move in (self.b.store, partial(self.b.load, bank=choose.choice(banks))):
            rows = choose.randint(1, 24)
            line = self.lines[memory] + choose.randrange(self.params.lines(memory, 24))
            if choose.random() < 0.6:
                move(memory, self.row(memory, rows), rows, line)

    def _convert(
        self,
        source: tuple = (0, 1),
        highs: tuple = (0, 0.5),  # high and low halves must not overlap
        low_halves: tuple = (0.5, 1),
    ) -> None:
        p, choose = self.params, self.choose
        conversion = choose.choice(list(Conversion))
        elements = choose.randint(1, p.channels)
        if conversion is Conversion.VALUES:
            elements = min(elements, 2 * p.columns)
        rows = max(-(-elements // p.group), -(-elements // p.columns))
        loops = p.converter.loops if conversion is Conversion.VALUES else 1
        words = -(-elements // p.word_values) * loops
        if choose.random() < 0.3:
            self._configure()
        to_array = conversion is Conversion.ACTIVATIONS
        self.b.emit(
            Opcode.CONVERT,
            conversion=conversion,
            source=self.row(Memory.FP16, words, source),
            elements=elements,
            destination=self.row(Memory.MANTISSAS if to_array else Memory.OPERANDS, rows, highs),
            low_halves=self.row(Memory.OPERANDS, rows, low_halves),
            metadata=self.row(Memory.OPERAND_SIGNS, rows, highs),
            part=choose.randrange(p.parts),
            tokens=choose.randint(1, p.group),
            short=choose.random() < 0.3,
        )

    def _vector(self) -> None:
        p, choose = self.params, self.choose
        operation = choose.choice(p.vector.operations)
        elements = choose.randint(1, 4 * p.group)
        words = -(-elements // p.word_values)
        # Tensors in places of their own; the same one twice is allowed.
        first = self.base(Memory.FP16)
        places = range(first, first + self.rows(Memory.FP16) - words + 1, words)
        kinds = [choose.choice(list(Kind)) for _ in range(2)]
        if operation.reduces or operation.keeps_sum:
            kinds[0] = Kind.TENSOR
        a, b = (self._operand(kind, places) for kind in kinds)
        scalar = operation.reduces or (
            kinds[0] is not Kind.TENSOR and not (operation.takes_b and kinds[1] is Kind.TENSOR)
        )
        self.b.emit(
            Opcode.VECTOR,
            operation=operation,
            a_kind=kinds[0],
            b_kind=kinds[1],
            a=a,
            b=b,
            destination=choose.randrange(SCALARS) if scalar else choose.choice(places),
            elements=elements,
            scale=choose.choice((ONE, 0x2E66)),
            causal_limit=choose.choice((0, choose.randint(1, elements))),
            total=choose.randrange(SCALARS),
        )

    def _operand(self, kind: Kind, places: range) -> int:
        if kind is Kind.TENSOR:
            return self.choose.choice(places)
        if kind is Kind.SCALAR:
            return self.choose.randrange(SCALARS)
        return int(with_outliers(self.rng, 1, 1)[0, 0])

    def _learn(self) -> None:
        """A window of one or two token tiles of finite values, then keys less its offsets."""
        p, choose = self.params, self.choose
        elements = choose.randint(1, p.channels)
        words = -(-elements // p.word_values)
        tiles = choose.randint(1, 2)
        self.fill_values()
        for k in range(tiles):
            fields = {"elements": elements, "first": k == 0, "last": k == tiles - 1}
            self.b.emit(Opcode.LEARN, source=self.row(Memory.FP16, words), **fields)
        self.b.emit(
            Opcode.CONVERT,
            conversion=Conversion.KEYS,
            source=self.row(Memory.FP16, words),
            elements=choose.randint(1, elements),  # what lies beyond them has no offset
            destination=self.base(Memory.OPERANDS),
            low_halves=self.base(Memory.OPERANDS) + self.rows(Memory.OPERANDS) // 2,
            part=choose.randrange(p.parts),
        )

    def _clear(self) -> None:
        rows = self.choose.randint(1, 6)
        row, part = self.row(Memory.OPERANDS, rows), self.choose.randrange(self.params.parts)
        self.b.emit(Opcode.CLEAR, low_halves=row, rows=rows, part=part)

    def _product(self) -> None:
        if self.params.row_groups > 1:
            return  # there is none
        p, choose, rng = self.params, self.choose, self.rng
        tokens, inputs, outputs = (
            choose.randint(1, 3 * size) for size in (p.rows, p.group, p.columns)
        )
        weights = quantise(rng.standard_normal((outputs, inputs)), 4, group=2 * p.group)
        source = self.b.place_activations(with_outliers(rng, tokens, inputs))
        dataflow, keep = choose.choice(list(Dataflow)), choose.randint(1, 4)
        self.b.tiled_gemm(source, tokens, weights, dataflow, keep)


def directed_program(
    params: HarmoniaParams, seed: int
) -> tuple[list[Instruction], NDArray[np.uint8]]:
    """One with every instruction that has a size, on one row or group and on several.

    Random programs draw sizes, and some instructions seldom: this one has them all.
    """
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
        b.emit(Opcode.CLEAR, low_halves=writer.row(Memory.OPERANDS, groups), rows=groups)
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
        destination = 1 if operation.reduces else first + 2 * words
        fields = {"a_kind": Kind.TENSOR, "b_kind": Kind.TENSOR, "elements": elements, "total": 2}
        fields |= {"a": first, "b": first + words, "destination": destination}
        b.emit(Opcode.VECTOR, operation=operation, **fields)
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
            b.emit(
                Opcode.CONVERT,
                conversion=conversion,
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
    for operand in p.operands:
        low_halves, tiles = 0, p.whole_tiles(2)
        if operand in CACHED:
            across = groups if operand is Operand.KEYS else tiles
            low_halves = writer.row(Memory.OPERANDS, p.low_slots(operand) * across)
        b.emit(
            Opcode.GEMM,
            operand=operand,
            source=writer.row(Memory.MANTISSAS, groups),
            operands=writer.row(Memory.OPERANDS, tiles * groups) & -p.row_groups,
            low_halves=low_halves,
            metadata=writer.row(Memory.OPERAND_SIGNS, tiles * groups) & -p.row_groups,
            destination=writer.row(Memory.FP16, tiles * p.tile_words),
            groups=groups,
            tiles=tiles,
            token_tiles=1,
        )
        b.wait()


def activation_rows(machine: Any, matrix: Matrix, values: NDArray[np.uint16]) -> list[NDArray]:
    """Rows of mantissas, signs and exponents of a token tile of a product's activations."""
    return list(layout.activation_rows(machine.params, values))
