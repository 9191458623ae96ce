"""Results of Anda's vector unit on their way to the activation buffer or a scalar register."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.anda_machine import RESULTS_FIELD, AndaParams
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import ROW_FIELD, SIZE_FIELD
from tilewright.golden.params.vector import Operation
from tilewright.hw.machine.banks import WritePort


class VectorWriter(wiring.Component):
    """Writes the results of beats: all of them, or the last one of every sum.

    ``results`` sums of ``words`` beats each; an instruction that is no sum has one result and
    writes all beats. The sums of DOTS are one value in every bank; as many as a word holds are
    gathered before they are written, and the last word is filled up with +0. ``to_scalar``: the
    last beat goes to a scalar register, with ``scalar``. The numbers hold while it is ``busy``.

    Timing: writes in the cycle in which a beat ``arrives``.
    """

    def __init__(self, params: AndaParams):
        self.params = params
        words = data.ArrayLayout(params.vector.group, params.rows)
        super().__init__(
            {
                "start": In(1),
                "operation": In(Operation),
                "to_scalar": In(1),
                "destination": In(ROW_FIELD),
                "words": In(SIZE_FIELD + 1),
                "results": In(RESULTS_FIELD),
                "arrives": In(1),
                "values": In(data.ArrayLayout(FP16.bits, params.vector.lanes)),
                "busy": Out(1),
                "scalar": Out(1),
                "write": Out(WritePort(params.activation_rows, words)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = self.params.vector.row_lanes
        words_left, results_left = Signal.like(self.words), Signal.like(self.results)
        row = Signal.like(self.destination)
        slot = Signal(range(max(2, lanes)))
        dots, weighs = self.operation == Operation.DOTS, self.operation == Operation.WEIGH
        sum_ends, word_ends = Signal(), Signal()
        gathered = [Signal(lanes * FP16.bits, name=f"gathered{r}") for r in range(self.params.rows)]
        m.d.comb += [
            self.busy.eq(results_left.any()),
            sum_ends.eq(self.arrives & (words_left == 1)),
            word_ends.eq((slot == lanes - 1) | (results_left == 1)),
            self.scalar.eq(sum_ends & self.to_scalar),
            self.write.address.eq(row),
            self.write.enable.eq(
                ~self.to_scalar
                & Mux(dots, sum_ends & word_ends, Mux(weighs, sum_ends, self.arrives))
            ),
        ]
        with m.If(self.arrives):
            m.d.sync += words_left.eq(words_left - 1)
        with m.If(sum_ends):
            m.d.sync += [words_left.eq(self.words), results_left.eq(results_left - 1)]
            m.d.sync += slot.eq(Mux(word_ends, 0, slot + 1))
        with m.If(self.write.enable):
            m.d.sync += row.eq(row + self.params.beat_words)
        for r, word in enumerate(gathered):
            own = Cat(self.values[r * lanes + j] for j in range(lanes))
            value, filled = self.values[r * lanes], Signal.like(word, name=f"filled{r}")
            m.d.comb += filled.eq(word)
            for j in range(lanes):
                with m.If(slot == j):
                    m.d.comb += filled.word_select(j, FP16.bits).eq(value)
            m.d.comb += self.write.data[r].eq(Mux(dots, filled, own))
            with m.If(sum_ends):
                m.d.sync += word.eq(Mux(word_ends, 0, filled))
        with m.If(self.start):
            m.d.sync += [
                *(words_left.eq(self.words), results_left.eq(self.results)),
                *(row.eq(self.destination), slot.eq(0)),
                *(word.eq(0) for word in gathered),
            ]
        return m
