"""Top controller: fetches, checks and dispatches instructions, one at a time."""

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from golden.params.anda import MAX_MANTISSA_BITS
from golden.params.anda_system import (
    FP16_ROWS,
    INSTRUCTION_BITS,
    INSTRUCTION_FIELDS,
    MANTISSA_BITS,
    OPCODE_BITS,
    SCALARS,
    SIZE_FIELD,
    STATUS_FIELDS,
    AndaParams,
    Error,
    Kind,
    Memory,
    Opcode,
)
from golden.params.anda_vector import Operation
from hw.anda_system.dma import MOVE
from hw.unit import field_shape

__all__ = ["STATUS", "Controller", "fields_of"]

END_BITS = 36  # holds the sum of a row and any product of sizes
STATUS = data.StructLayout({f.name: field_shape(f) for f in STATUS_FIELDS})
LAYOUTS = {
    opcode: data.StructLayout({"opcode": OPCODE_BITS, **{f.name: field_shape(f) for f in declared}})
    for opcode, declared in INSTRUCTION_FIELDS.items()
}


def fields_of(opcode: Opcode, word: Value) -> data.View:
    """The fields of an instruction word."""
    layout = LAYOUTS[opcode]
    return data.View(layout, word[: layout.size])


class Controller(wiring.Component):
    """Runs the program from instruction 0 until it halts or an instruction is wrong.

    Every instruction is fetched, decoded, measured and judged, a cycle each; one that is wrong
    (:class:`golden.params.anda_system.Error`) stops the program before it does anything. A load or
    store then goes to the memory port when that is idle; loads of weights and scales run on by
    themselves, and an error of the memory stops the program at the next instruction that needs the
    port, with the number of the load. Other instructions pulse ``go`` and run until ``running``
    falls.

    Members
    -------
    word, groups, tiles, result_groups, words : Out
        The instruction and its sizes: groups of inputs or elements, tiles of columns, groups of
        outputs, beats of the vector unit. They hold while it runs.
    """

    def __init__(self, params: AndaParams):
        self.params = params
        super().__init__(
            {
                "start": In(1),
                "status": Out(STATUS),
                "fetch": Out(1),
                "fetch_address": Out(range(params.instructions)),
                "fetched": In(INSTRUCTION_BITS),
                "move": Out(stream.Signature(MOVE)),
                "dma_idle": In(1),
                "dma_failed": In(1),
                "go": Out(1),
                "running": In(1),
                "word": Out(INSTRUCTION_BITS),
                "source_mantissa": Out(MANTISSA_BITS),
                "result_mantissa": Out(MANTISSA_BITS),
                "groups": Out(SIZE_FIELD),
                "tiles": Out(SIZE_FIELD),
                "result_groups": Out(SIZE_FIELD),
                "words": Out(SIZE_FIELD + 1),
                "scalars_only": Out(1),
                "takes_b": Out(1),
                "reduces": Out(1),
                "in_control": Out(1),  # what this cycle is spent on, for the counters
                "in_memory": Out(1),
                "finished": Out(1),  # an instruction is done
            }
        )

    def elaborate(self, platform):
        m = Module()
        p = self.params
        number = Signal(range(p.instructions + 1))
        move_number = Signal.like(number)
        word = self.word
        opcode = word[:OPCODE_BITS]
        status = self.status
        move = fields_of(Opcode.LOAD, word)
        configure = fields_of(Opcode.CONFIGURE, word)
        error = Signal(Error)
        background = Signal()
        m.d.comb += [
            error.eq(self._judge(m)),
            self.fetch_address.eq(number),
            background.eq(
                (opcode == Opcode.LOAD)
                & ((move.memory == Memory.WEIGHTS) | (move.memory == Memory.SCALES))
            ),
            self.move.p.store.eq(opcode == Opcode.STORE),
            *(
                self.move.p[name].eq(move[name])
                for name in ("memory", "stride", "row", "rows", "line")
            ),
        ]

        def end():
            m.d.sync += [status.busy.eq(0), status.done.eq(1)]
            m.next = "IDLE"

        def stop(code, where=number):
            m.d.sync += [status.error.eq(code), status.instruction.eq(where)]
            m.next = "STOP"

        def proceed():
            m.d.comb += self.finished.eq(1)
            m.d.sync += [number.eq(number + 1), status.instruction.eq(number + 1)]
            m.next = "FETCH"

        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.sync += [
                        number.eq(0),
                        self.source_mantissa.eq(0),
                        self.result_mantissa.eq(0),
                        status.eq(STATUS.const({"busy": 1})),
                    ]
                    m.next = "FETCH"
            with m.State("FETCH"):
                m.d.comb += [self.in_control.eq(1), self.fetch.eq(1)]
                m.next = "DECODE"
                with m.If(number == p.instructions):
                    stop(Error.END)
            with m.State("DECODE"):
                m.d.comb += self.in_control.eq(1)
                m.d.sync += word.eq(self.fetched)
                m.next = "MEASURE"
            with m.State("MEASURE"):
                m.d.comb += self.in_control.eq(1)
                m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.comb += self.in_control.eq(1)
                with m.If(error != Error.NONE):
                    stop(error)
                with m.Else():
                    with m.Switch(opcode):
                        with m.Case(Opcode.CONFIGURE):
                            m.d.sync += [
                                self.source_mantissa.eq(configure.source_mantissa),
                                self.result_mantissa.eq(configure.result_mantissa),
                            ]
                            proceed()
                        with m.Case(Opcode.LOAD, Opcode.STORE):
                            m.next = "ISSUE"
                        with m.Case(Opcode.WAIT, Opcode.HALT):
                            m.next = "SETTLE"
                        with m.Default():
                            m.d.comb += self.go.eq(1)
                            m.next = "RUN"
            with m.State("ISSUE"):
                m.d.comb += self.in_memory.eq(1)
                with m.If(self.dma_idle):
                    with m.If(self.dma_failed):
                        stop(Error.BUS, move_number)
                    with m.Else():
                        m.d.comb += self.move.valid.eq(1)
                        m.d.sync += move_number.eq(number)
                        with m.If(background):
                            proceed()
                        with m.Else():
                            m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.comb += self.in_memory.eq(1)
                with m.If(self.dma_idle):
                    with m.If(self.dma_failed):
                        stop(Error.BUS, move_number)
                    with m.Elif(opcode == Opcode.HALT):
                        m.d.comb += self.finished.eq(1)
                        end()
                    with m.Else():
                        proceed()
            with m.State("RUN"):
                with m.If(~self.running):
                    proceed()
            with m.State("STOP"):
                # A load in the background ends before the next program can start.
                with m.If(self.dma_idle):
                    end()
        return m

    def _judge(self, m):
        """Sizes a cycle after the instruction is there, and in the cycle behind it the error."""
        p = self.params
        word = self.word
        opcode = word[:OPCODE_BITS]
        gemm, compress = fields_of(Opcode.GEMM, word), fields_of(Opcode.COMPRESS, word)
        vector, move = fields_of(Opcode.VECTOR, word), fields_of(Opcode.LOAD, word)
        configure = fields_of(Opcode.CONFIGURE, word)

        elements, outputs = Signal(SIZE_FIELD), Signal(SIZE_FIELD)
        groups, tiles, result_groups = (
            Signal(SIZE_FIELD, name=n) for n in ("groups_now", "tiles_now", "result_groups_now")
        )
        result_rows = Mux(self.result_mantissa.any(), self.result_mantissa + 1, FP16_ROWS)
        tensor_a = vector.a_kind == Kind.TENSOR
        tensor_b = self.takes_b & (vector.b_kind == Kind.TENSOR)
        m.d.comb += [
            outputs.eq(gemm.outputs),
            groups.eq((elements + (p.group - 1)) >> _log2(p.group)),
            tiles.eq((outputs + (p.columns - 1)) >> _log2(p.columns)),
            result_groups.eq((outputs + (p.group - 1)) >> _log2(p.group)),
            self.takes_b.eq(_among(vector.operation, [o for o in Operation if o.takes_b])),
            self.reduces.eq(_among(vector.operation, [o for o in Operation if o.reduces])),
            self.scalars_only.eq(~tensor_a & ~tensor_b),
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
                m.d.comb += elements.eq(vector.elements)
                with m.If(tensor_a):
                    m.d.sync += activations[0].eq(vector.a + fp16_rows)
                with m.If(tensor_b):
                    m.d.sync += activations[1].eq(vector.b + fp16_rows)
                with m.If(~self.reduces & ~self.scalars_only):
                    m.d.sync += activations[2].eq(vector.destination + fp16_rows)
                with m.If(self.scalars_only):
                    m.d.sync += self.words.eq(1)

        over = Cat(end > p.activation_rows for end in activations).any()
        over |= (weights_end > p.weight_rows) | (scales_end > p.scale_rows)
        error = Signal(Error)

        def check(*wrong: tuple[Value, Error]) -> None:
            """The first that is wrong."""
            for condition, code in reversed(wrong):
                with m.If(condition):
                    m.d.comb += error.eq(code)

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
                    _among(move.memory, list(Memory)),
                    _among(move.memory, [memory for memory in Memory if memory.stores]),
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
                known = _among(vector.operation, list(Operation))
                kinds = [_among(kind, list(Kind)) for kind in (vector.a_kind, vector.b_kind)]
                scalar_destination = self.reduces | self.scalars_only
                bad_scalar = (
                    ((vector.a_kind == Kind.SCALAR) & (vector.a >= SCALARS))
                    | (self.takes_b & (vector.b_kind == Kind.SCALAR) & (vector.b >= SCALARS))
                    | (scalar_destination & (vector.destination >= SCALARS))
                )
                check(
                    (~known | ~kinds[0] | ~kinds[1], Error.OPERAND),
                    (self.reduces & ~tensor_a, Error.OPERAND),
                    ((vector.elements == 0) & ~self.scalars_only, Error.SIZE),
                    (over | bad_scalar, Error.ADDRESS),
                )
            with m.Default():
                m.d.comb += error.eq(Error.OPCODE)
        return error


def _among(value: Value, codes: list) -> Value:
    """Whether ``value`` is one of ``codes``."""
    return Cat(value == Const(int(code), len(Value.cast(value))) for code in codes).any()


def _log2(number: int) -> int:
    return number.bit_length() - 1
