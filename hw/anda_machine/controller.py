"""Top controller: sizes and errors of the instructions."""

from functools import partial

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import Out

from tilewright.golden.params.anda import MAX_MANTISSA_BITS
from tilewright.golden.params.anda_machine import (
    FP16_ROWS,
    INSTRUCTION_FIELDS,
    MANTISSA_BITS,
    AndaParams,
    Memory,
    Opcode,
)
from tilewright.golden.params.machine import OPCODE_BITS, SIZE_FIELD, Error
from tilewright.hw.machine.sequencer import (
    END_BITS,
    InstructionSet,
    Sequencer,
    first_error,
    is_one_of,
    parts_of,
)
from tilewright.hw.machine.vector_operands import VectorOperands

__all__ = ["INSTRUCTIONS", "Controller", "fields_of"]

INSTRUCTIONS = InstructionSet(Opcode, INSTRUCTION_FIELDS, Memory)
fields_of = INSTRUCTIONS.fields_of


class Controller(Sequencer):
    """The sequencer of Anda's instructions.

    Members
    -------
    word, groups, tiles, result_groups, words : Out
        The instruction and its sizes: groups of inputs or elements, tiles of columns, groups of
        outputs, beats of the vector unit. They hold while it runs.
    """

    params: AndaParams

    def __init__(self, params: AndaParams):
        super().__init__(
            params,
            INSTRUCTIONS,
            {
                "source_mantissa": Out(MANTISSA_BITS),
                "result_mantissa": Out(MANTISSA_BITS),
                "groups": Out(SIZE_FIELD),
                "tiles": Out(SIZE_FIELD),
                "result_groups": Out(SIZE_FIELD),
                "words": Out(SIZE_FIELD + 1),
            },
        )

    def reset_formats(self) -> list:
        return [self.source_mantissa.eq(0), self.result_mantissa.eq(0)]

    def configure(self) -> list:
        configure = fields_of(Opcode.CONFIGURE, self.word)
        return [
            self.source_mantissa.eq(configure.source_mantissa),
            self.result_mantissa.eq(configure.result_mantissa),
        ]

    def check(self, m: Module) -> Value:
        """Sizes a cycle after the instruction is there, and in the cycle behind it the error."""
        p = self.params
        word = self.word
        opcode = word[:OPCODE_BITS]
        gemm, compress = fields_of(Opcode.GEMM, word), fields_of(Opcode.COMPRESS, word)
        vector = VectorOperands(self, fields_of(Opcode.VECTOR, word))
        move = fields_of(Opcode.LOAD, word)
        configure = fields_of(Opcode.CONFIGURE, word)

        elements, outputs = Signal(SIZE_FIELD), Signal(SIZE_FIELD)
        groups, tiles, result_groups = (
            Signal(SIZE_FIELD, name=n) for n in ("groups_now", "tiles_now", "result_groups_now")
        )
        result_rows = Mux(self.result_mantissa.any(), self.result_mantissa + 1, FP16_ROWS)
        m.d.comb += [
            outputs.eq(gemm.outputs),
            groups.eq(parts_of(elements, p.group)),
            tiles.eq(parts_of(outputs, p.columns)),
            result_groups.eq(parts_of(outputs, p.group)),
            *vector.meanings(),
        ]
        # The row behind the last one of every range, by memory; 0 where there is none.
        activations = [Signal(END_BITS, name=f"end{k}") for k in range(3)]
        weights_end, scales_end = Signal(END_BITS), Signal(END_BITS)
        move_end = Signal(END_BITS)
        m.d.sync += [
            self.groups.eq(groups),
            self.tiles.eq(tiles),
            self.result_groups.eq(result_groups),
            self.words.eq(groups * FP16_ROWS),
            *(end.eq(0) for end in (*activations, weights_end, scales_end)),
            move_end.eq(move.row + (move.rows - 1)[:SIZE_FIELD] * move.stride + 1),
        ]
        fp16_rows = groups * FP16_ROWS
        with m.Switch(opcode):
            with m.Case(Opcode.GEMM):
                m.d.comb += elements.eq(gemm.inputs)
                m.d.sync += [
                    activations[0].eq(gemm.source + groups * (self.source_mantissa + 1)),
                    activations[1].eq(gemm.destination + result_groups * result_rows),
                    weights_end.eq(gemm.weights + tiles * groups * p.mxu.weight_beats),
                    scales_end.eq(gemm.scales + tiles * groups),
                ]
            with m.Case(Opcode.COMPRESS):
                m.d.comb += elements.eq(compress.elements)
                m.d.sync += [
                    activations[0].eq(compress.source + fp16_rows),
                    activations[1].eq(compress.destination + groups * result_rows),
                    self.result_groups.eq(groups),
                ]
            with m.Case(Opcode.VECTOR):
                m.d.comb += elements.eq(vector.fields.elements)
                vector.measure(m, activations, fp16_rows)

        over = Cat(end > p.activation_rows for end in activations).any()
        over |= (weights_end > p.weight_rows) | (scales_end > p.scale_rows)
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
                limit = Signal(END_BITS)
                with m.Switch(move.memory):
                    for memory in Memory:
                        with m.Case(memory):
                            m.d.comb += limit.eq(p.depth(memory))
                allowed = Mux(
                    opcode == Opcode.LOAD,
                    is_one_of(move.memory, list(Memory)),
                    is_one_of(move.memory, [memory for memory in Memory if memory.stores]),
                )
                check(
                    (~allowed, Error.OPERAND),
                    ((move.rows == 0) | (move.stride == 0), Error.SIZE),
                    (move_end > limit, Error.ADDRESS),
                )
            with m.Case(Opcode.GEMM):
                check(
                    ((gemm.inputs == 0) | (gemm.outputs == 0), Error.SIZE),
                    (self.source_mantissa == 0, Error.MANTISSA),
                    (over, Error.ADDRESS),
                )
            with m.Case(Opcode.COMPRESS):
                check(
                    (compress.elements == 0, Error.SIZE),
                    (self.result_mantissa == 0, Error.MANTISSA),
                    (over, Error.ADDRESS),
                )
            with m.Case(Opcode.VECTOR):
                check(*vector.errors(over))
            with m.Case(Opcode.LOOP):
                check(*self.loop_errors())
            with m.Default():
                m.d.comb += error.eq(Error.OPCODE)
        return error
