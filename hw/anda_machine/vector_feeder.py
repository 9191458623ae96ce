"""Which rows Anda's vector unit reads, and when: whole tensors, or the rows of several sums."""

from amaranth import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.anda_machine import RESULTS_FIELD, STEP_FIELD, AndaParams
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import ROW_FIELD, SIZE_FIELD, Kind
from tilewright.golden.params.vector import Operation
from tilewright.hw.machine.banks import ReadPort
from tilewright.hw.machine.vector_feeder import VectorFeeder, operand


class AttentionFeeder(VectorFeeder):
    """Operands of a vector instruction, of ``results`` sums of ``words`` beats each.

    Instructions that are no sums have one result. Rows of a sum follow each other, but in DOTS
    those of b, and in WEIGH those of a, are ``step`` apart; from sum to sum a goes on by ``pitch``
    rows and b begins again. In WEIGH a beat takes one element of every bank of b, in their order.

    ``across``, with row groups: in DOTS and WEIGH all banks take a from one bank, in DOTS that of
    the sum's number and in WEIGH that of the beat's, and a begins again with each, or stays.

    Both tensors have a read port. Where they are not ``apart``, that is, share a region, a beat
    takes two cycles, for the region has one.

    Timing: the first beat is offered two cycles after ``start``, three if they share a region.
    """

    def __init__(self, params: AndaParams):
        rows = data.ArrayLayout(params.vector.group, params.rows)
        self.beat_words, self.goes_across = params.beat_words, params.row_groups > 1
        super().__init__(
            params.vector,
            params.activation_rows,
            {
                "results": In(RESULTS_FIELD),
                "step": In(STEP_FIELD),
                "pitch": In(STEP_FIELD),
                "apart": In(1),
                **({"across": In(1)} if self.goes_across else {}),
                "read_b": Out(ReadPort(params.activation_rows, rows)),
            },
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, o = self.vector.row_lanes, self.beats
        active, second = Signal(), Signal()  # second: the other tensor of a beat is read
        step, complete = Signal(), Signal()
        dots, weighs = self.operation == Operation.DOTS, self.operation == Operation.WEIGH
        reads_a = self.a_kind == Kind.TENSOR
        reads_b = self.takes_b & (self.b_kind == Kind.TENSOR)
        in_turn = reads_a & reads_b & ~self.apart
        held = Signal.like(self.read.data)  # a, while b is read
        a_row, b_row, sum_row = Signal(ROW_FIELD), Signal(ROW_FIELD), Signal(ROW_FIELD)
        word, shown = Signal(SIZE_FIELD + 1), Signal(SIZE_FIELD + 1)  # of a sum; the one on offer
        slot, shown_slot = Signal(range(max(2, lanes))), Signal(range(max(2, lanes)))
        result = Signal(RESULTS_FIELD)
        last_slot = slot == lanes - 1
        m.d.comb += [
            step.eq(active & (~o.valid | o.ready)),
            complete.eq(step & (second | ~in_turn)),
            self.read.enable.eq(step & reads_a & ~second),
            self.read.address.eq(a_row),
            self.read_b.enable.eq(step & reads_b & (second | ~in_turn)),
            self.read_b.address.eq(b_row),
            self.busy.eq(active | o.valid),
            o.p.operation.eq(self.operation),
            o.p.first.eq(shown == 0),
            o.p.scale.eq(self.scale),
        ]
        pitch, a_step, b_step = self.pitch, Mux(weighs, self.step, 1), Mux(weighs, last_slot, 1)
        if self.goes_across:
            pitch = Mux(self.across & dots, 0, pitch)
            a_step = Mux(weighs, Mux(self.across, 0, self.step), 1)
        with m.If(o.ready):
            m.d.sync += o.valid.eq(0)
        with m.If(step):
            m.d.sync += second.eq(in_turn & ~second)
            with m.If(second):
                m.d.sync += held.eq(self.read.data)
        with m.If(complete):
            m.d.sync += [
                o.valid.eq(1),
                shown.eq(word),
                shown_slot.eq(slot),
                word.eq(word + 1),
                slot.eq(Mux(last_slot, 0, slot + 1)),
                a_row.eq(a_row + self._rows(a_step)),
                b_row.eq(b_row + self._rows(Mux(dots, self.step, b_step))),
            ]
            with m.If(word == self.words - 1):
                m.d.sync += [
                    word.eq(0),
                    slot.eq(0),
                    sum_row.eq(sum_row + self._rows(pitch)),
                    a_row.eq(sum_row + self._rows(pitch)),
                    b_row.eq(self.b),
                    result.eq(result + 1),
                ]
                with m.If(result == self.results - 1):
                    m.d.sync += active.eq(0)
        with m.If(self.start):
            m.d.sync += [
                *(active.eq(1), second.eq(0), word.eq(0), slot.eq(0), result.eq(0)),
                *(a_row.eq(self.a), sum_row.eq(self.a), b_row.eq(self.b)),
            ]

        element = Signal(SIZE_FIELD + 1)  # the first of the beat
        m.d.comb += element.eq(shown * lanes)
        for j in range(lanes):
            m.d.comb += o.p.active[j].eq(weighs | (element + j < self.elements))
        first = [
            [
                Mux(in_turn, kept.word_select(j, FP16.bits), read.word_select(j, FP16.bits))
                for j in range(lanes)
            ]
            for kept, read in zip(held, self.read.data, strict=True)
        ]
        if self.goes_across:
            bank = Signal(range(self.vector.rows))  # of the beat on offer
            with m.If(complete):
                m.d.sync += bank.eq(Mux(weighs, word, result))
            chosen = Array(Cat(words) for words in first)[bank]
            first = [
                [
                    Mux(self.across, chosen.word_select(j, FP16.bits), value)
                    for j, value in enumerate(words)
                ]
                for words in first
            ]
        for r in range(self.vector.rows):
            weight = self.read_b.data[r].word_select(shown_slot[: (lanes - 1).bit_length()], 16)
            for j in range(lanes):
                other = Mux(weighs, weight, self.read_b.data[r].word_select(j, FP16.bits))
                k = r * lanes + j
                m.d.comb += [
                    o.p.a[k].eq(operand(self.a_kind, first[r][j], self.a_scalar[r], self.a)),
                    o.p.b[k].eq(operand(self.b_kind, other, self.b_scalar[r], self.b)),
                ]
        return m

    def _rows(self, beats: Value) -> Value:
        """Rows of so many beats."""
        shift = (self.beat_words - 1).bit_length()
        return Cat(Const(0, shift), beats) if shift else beats
