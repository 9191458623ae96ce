"""Top controller: sizes and errors of the instructions."""

from collections.abc import Sequence
from enum import IntEnum
from functools import partial
from typing import Any

from amaranth import Cat, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data
from amaranth.lib.wiring import Out

from tilewright.golden.params.anda import MAX_MANTISSA_BITS
from tilewright.golden.params.anda_machine import (
    FP16_ROWS,
    INSTRUCTION_FIELDS,
    MANTISSA_BITS,
    RESULTS_FIELD,
    SPAN_FIELD,
    AndaParams,
    Memory,
    Opcode,
)
from tilewright.golden.params.machine import OPCODE_BITS, SIZE_FIELD, Error, UnitOfWork
from tilewright.golden.params.vector import Operation
from tilewright.hw.machine.ranges import Range, regions_of
from tilewright.hw.machine.sequencer import (
    InstructionSet,
    Sequencer,
    first_error,
    is_one_of,
    parts_of,
)
from tilewright.hw.machine.vector_operands import VectorOperands

UNITS = {
    UnitOfWork.LOAD: (Opcode.LOAD,),
    UnitOfWork.STORE: (Opcode.STORE,),
    UnitOfWork.MATRIX: (Opcode.GEMM, Opcode.SHARED_GEMM),
    UnitOfWork.VECTOR: (Opcode.VECTOR, Opcode.COMPRESS),
}
INSTRUCTIONS = InstructionSet(Opcode, INSTRUCTION_FIELDS, Memory, UNITS)
fields_of = INSTRUCTIONS.fields_of


def _instructions(params: AndaParams) -> InstructionSet:
    """The instructions of an accelerator of these parameters."""
    enumeration: Any = IntEnum
    opcodes = enumeration("Opcode", {x.name: int(x) for x in params.opcodes})
    fields = {x: INSTRUCTION_FIELDS[x] for x in params.opcodes}
    units = {
        unit: tuple(x for x in own if x in params.opcodes)
        for unit, own in INSTRUCTIONS.units.items()
    }
    return InstructionSet(opcodes, fields, Memory, units)


# Buffers whose regions are held, and how many ranges of each an instruction has at most.
ATTENTION = [operation for operation in Operation if operation.attends]
BUFFERS = {Memory.ACTIVATIONS: 3, Memory.WEIGHTS: 1, Memory.SCALES: 1}


class Controller(Sequencer):
    """The sequencer of Anda's instructions.

    Members
    -------
    word, groups, tiles, result_groups, words : Out
        The instruction and its sizes: groups of inputs or elements, tiles of columns, groups of
        outputs, beats of the vector unit for one of its results, and for several results their
        number (else 1).
    attends, apart : Out
        A vector instruction of attention; its two tensors have no region in common.
    shared, passes, collects : Out
        With row groups: a shared gemm and its passes; a gemm or compress that has results.
    """

    params: AndaParams

    def __init__(self, params: AndaParams):
        self._ranges = {
            memory: [Range(params, f"{memory.name.lower()}{k}") for k in range(count)]
            for memory, count in BUFFERS.items()
        }
        self._gemms = [x for x in UNITS[UnitOfWork.MATRIX] if x in params.opcodes]
        more = {"shared": 1, "passes": SIZE_FIELD, "collects": 1} if params.row_groups > 1 else {}
        super().__init__(
            params,
            _instructions(params),
            {
                **{name: Out(shape) for name, shape in more.items()},
                "source_mantissa": Out(MANTISSA_BITS),
                "result_mantissa": Out(MANTISSA_BITS),
                "groups": Out(SIZE_FIELD),
                "tiles": Out(SIZE_FIELD),
                "result_groups": Out(SIZE_FIELD),
                "words": Out(SIZE_FIELD + 1),
                "results": Out(RESULTS_FIELD),
                "attends": Out(1),
                "apart": Out(1),
            },
        )

    def reset_formats(self) -> list:
        kept = [self._kept.eq(0)] if self.params.row_groups > 1 else []
        return [self.source_mantissa.eq(0), self.result_mantissa.eq(0), *kept]

    def configure(self) -> list:
        configure = fields_of(Opcode.CONFIGURE, self.word)
        return [
            self.source_mantissa.eq(configure.source_mantissa),
            self.result_mantissa.eq(configure.result_mantissa),
        ]

    def needs(self) -> Value:
        """Regions, and the collector, through which gemm and compress write their results."""
        regions = [
            regions_of(self.params, memory, ranges) for memory, ranges in self._ranges.items()
        ]
        if self.params.row_groups > 1:
            return Cat(*regions, self.collects)
        collects = is_one_of(self.word[:OPCODE_BITS], (Opcode.GEMM, Opcode.COMPRESS))
        return Cat(*regions, collects)

    def check(self, m: Module) -> Value:
        """Sizes a cycle after the instruction is there, and in the next cycle the error."""
        vector = VectorOperands(self, fields_of(Opcode.VECTOR, self.word))
        if self.params.row_groups > 1:
            self._share(m)
        self._measure(m, vector)
        return self._error(m, vector)

    def _share(self, m: Module) -> None:
        """A shared gemm's passes, and the sums that the last one keeps."""
        p, opcode = self.params, self.word[:OPCODE_BITS]
        x = fields_of(Opcode.SHARED_GEMM, self.word)
        shared = opcode == Opcode.SHARED_GEMM
        self._kept = Signal(data.StructLayout({"outputs": SIZE_FIELD, "span": SPAN_FIELD}))
        m.d.comb += [
            self.shared.eq(shared),
            self.collects.eq(
                is_one_of(opcode, (Opcode.GEMM, Opcode.COMPRESS)) | (shared & ~x.keeps)
            ),
        ]
        with m.Switch(x.span):
            for span in p.spans:
                with m.Case(span):
                    blocks = (p.row_groups >> span) // p.block_tiles
                    m.d.comb += self.passes.eq(parts_of(self.result_groups, blocks))
        with m.If(self.issue(UnitOfWork.MATRIX)):
            m.d.sync += self._kept.eq(0)
            with m.If(shared & x.keeps):
                m.d.sync += [self._kept.outputs.eq(x.outputs), self._kept.span.eq(x.span)]

    def _sharing_errors(self, gemm: data.View) -> tuple[list, list, list]:
        """Errors of row groups: of the operand, the size, and the address."""
        p = self.params
        if p.row_groups == 1:
            return [], [], []
        x = fields_of(Opcode.SHARED_GEMM, self.word)
        others = (self._kept.outputs != x.outputs) | (self._kept.span != x.span)
        within = (gemm.weights % (p.block_tiles * p.mxu.weight_beats)).any()
        return (
            [(self.shared & ((x.span > p.spans[-1]) | (x.continues & others)), Error.OPERAND)],
            [(self.shared & (x.continues | x.keeps) & (self.passes > 1), Error.SIZE)],
            [(within | (gemm.scales % p.block_tiles).any(), Error.ADDRESS)],
        )

    def _measure(self, m: Module, vector: VectorOperands) -> None:
        """Sizes of the instruction, and the rows that it touches."""
        p = self.params
        word = self.word
        gemm, compress = fields_of(Opcode.GEMM, word), fields_of(Opcode.COMPRESS, word)
        move = fields_of(Opcode.LOAD, word)
        elements, outputs = Signal(SIZE_FIELD), Signal(SIZE_FIELD)
        groups, tiles, result_groups = (
            Signal(SIZE_FIELD, name=n) for n in ("groups_now", "tiles_now", "result_groups_now")
        )
        result_rows = Mux(self.result_mantissa.any(), self.result_mantissa + 1, FP16_ROWS)
        found = m.d.comb if p.measure_cycles == 1 else m.d.sync
        m.d.comb += outputs.eq(gemm.outputs)
        found += [
            groups.eq(parts_of(elements, p.group)),
            tiles.eq(parts_of(outputs, p.columns)),
            result_groups.eq(parts_of(outputs, p.group)),
        ]
        m.d.comb += vector.meanings()
        activations, (weights,), (scales,) = self._ranges.values()
        m.d.sync += [
            self.groups.eq(groups),
            self.tiles.eq(tiles),
            self.result_groups.eq(result_groups),
            self.words.eq(groups * p.group_beats),
            self.results.eq(1),
            *(x.is_empty() for ranges in self._ranges.values() for x in ranges),
            *(x.settles() for ranges in self._ranges.values() for x in ranges),
        ]
        both = [regions_of(p, Memory.ACTIVATIONS, [x]) for x in activations[:2]]
        m.d.comb += [
            self.attends.eq(is_one_of(vector.fields.operation, ATTENTION)),
            self.apart.eq(~(both[0] & both[1]).any()),
        ]
        fp16_rows = groups * FP16_ROWS
        # Weights lie in whole blocks.
        whole = tiles if p.row_groups == 1 else result_groups * p.block_tiles
        with m.Switch(word[:OPCODE_BITS]):
            with m.Case(*self._gemms):
                m.d.comb += elements.eq(gemm.inputs)
                m.d.sync += [
                    activations[0].covers(gemm.source, groups * (self.source_mantissa + 1)),
                    activations[1].covers(gemm.destination, result_groups * result_rows),
                    weights.covers(gemm.weights, whole * groups * p.mxu.weight_beats),
                    scales.covers(gemm.scales, whole * groups),
                ]
                if p.row_groups > 1:
                    with m.If(~self.collects):
                        m.d.sync += activations[1].is_empty()
            with m.Case(Opcode.COMPRESS):
                m.d.comb += elements.eq(compress.elements)
                m.d.sync += [
                    activations[0].covers(compress.source, fp16_rows),
                    activations[1].covers(compress.destination, groups * result_rows),
                    self.result_groups.eq(groups),
                ]
            with m.Case(Opcode.VECTOR):
                m.d.comb += elements.eq(vector.fields.elements)
                vector.measure(m, activations, fp16_rows)
                self._measure_attention(m, vector.fields, activations)
            with m.Case(Opcode.LOAD, Opcode.STORE):
                product = (move.rows - 1)[:SIZE_FIELD] * move.stride
                across = self.sized(m, "rows_across", product) + 1
                with m.Switch(move.memory):
                    for memory in Memory:
                        with m.Case(memory):
                            m.d.sync += self._ranges[memory.buffer][0].covers(move.row, across)

    def _error(self, m: Module, vector: VectorOperands) -> Signal:
        """The instruction's error, once its rows are known."""
        p = self.params
        word = self.word
        opcode = word[:OPCODE_BITS]
        gemm, compress = fields_of(Opcode.GEMM, word), fields_of(Opcode.COMPRESS, word)
        move = fields_of(Opcode.LOAD, word)
        configure = fields_of(Opcode.CONFIGURE, word)
        over = Cat(
            x.end > p.depth(memory) for memory, ranges in self._ranges.items() for x in ranges
        ).any()
        error = Signal(Error)
        check = partial(first_error, m, error)

        with m.Switch(opcode):
            with m.Case(Opcode.HALT, Opcode.WAIT):
                pass
            with m.Case(Opcode.CONFIGURE):
                largest = MAX_MANTISSA_BITS
                check(
                    (configure.source_mantissa > largest, Error.MANTISSA),
                    (configure.result_mantissa > largest, Error.MANTISSA),
                )
            with m.Case(Opcode.LOAD, Opcode.STORE):
                allowed = Mux(
                    opcode == Opcode.LOAD,
                    is_one_of(move.memory, list(Memory)),
                    is_one_of(move.memory, [memory for memory in Memory if memory.stores]),
                )
                check(
                    (~allowed, Error.OPERAND),
                    ((move.rows == 0) | (move.stride == 0), Error.SIZE),
                    (over, Error.ADDRESS),
                )
            with m.Case(*self._gemms):
                operand, size, address = self._sharing_errors(gemm)
                check(
                    *operand,
                    ((gemm.inputs == 0) | (gemm.outputs == 0), Error.SIZE),
                    *size,
                    (self.source_mantissa == 0, Error.MANTISSA),
                    (over, Error.ADDRESS),
                    *address,
                )
            with m.Case(Opcode.COMPRESS):
                check(
                    (compress.elements == 0, Error.SIZE),
                    (self.result_mantissa == 0, Error.MANTISSA),
                    (over, Error.ADDRESS),
                    *self._within_beat((1, compress.source)),
                )
            with m.Case(Opcode.VECTOR):
                x = vector.fields
                written = ~self.reduces & ~self.scalars_only
                tensors = (vector.tensor_a, x.a), (vector.tensor_b, x.b), (written, x.destination)
                check(
                    *vector.errors(over, (x.results == 0) | (x.step == 0) | (x.pitch == 0)),
                    *self._within_beat(*tensors),
                )
            with m.Case(Opcode.LOOP):
                check(*self.loop_errors())
            with m.Default():
                m.d.comb += error.eq(Error.OPCODE)
        return error

    def _within_beat(self, *tensors: tuple[ValueLike, Value]) -> list[tuple[Value, Error]]:
        """The error of tensors that are there and begin within a beat of the vector unit."""
        size = self.params.beat_words
        if size == 1:
            return []
        within = Cat(there & (row % size).any() for there, row in tensors)
        return [(within.any(), Error.ADDRESS)]

    def _measure_attention(self, m: Module, x: data.View, ranges: Sequence[Range]) -> None:
        """Beats and ranges of several sums: a, b, results."""
        lanes, size = self.params.vector.row_lanes, self.params.beat_words
        words = parts_of(x.elements, lanes)
        weighs = x.operation == Operation.WEIGH
        beats, result_rows = Mux(weighs, x.elements, words), parts_of(x.results, lanes)
        # Both are never 0 in an instruction that is right.
        across = self.sized(m, "across", (x.results - 1)[:RESULTS_FIELD] * x.pitch)
        along = self.sized(m, "along", (beats - 1)[:SIZE_FIELD] * x.step)
        pitched, rest = across, along
        if self.params.row_groups > 1:
            pitched, rest = Mux(x.across & ~weighs, 0, across), Mux(x.across, 0, along)

        def rows(beats: Value) -> Value:
            return beats if size == 1 else beats * size

        with m.If(self.attends):
            m.d.sync += [
                self.words.eq(beats),
                self.results.eq(x.results),
                ranges[0].covers(x.a, rows(pitched + Mux(weighs, rest + 1, beats))),
                ranges[1].covers(x.b, rows(Mux(weighs, words, along + 1))),
                ranges[2].covers(x.destination, rows(Mux(weighs, x.results, result_rows))),
            ]
