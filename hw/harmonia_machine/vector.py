"""The vector unit with its operands, scalar registers and results."""

from amaranth import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia_machine import SCALAR_FIELD, HarmoniaParams
from tilewright.golden.params.machine import ROW_FIELD, SCALARS, SIZE_FIELD, Kind
from tilewright.golden.params.vector import OPERATION_BITS, Operation
from tilewright.hw.harmonia_machine.buffers import MaskedWritePort, halves_row
from tilewright.hw.harmonia_machine.dataflow import maxima_layout
from tilewright.hw.machine.banks import ReadPort
from tilewright.hw.machine.lane_parts import MINUS_INFINITY, larger_half
from tilewright.hw.machine.vector_feeder import VectorFeeder
from tilewright.hw.machine.vector_unit import VectorUnit

# Operands of a vector instruction, constant while it runs.
VECTOR = data.StructLayout(
    {
        "operation": OPERATION_BITS,
        "takes_b": 1,
        "to_scalar": 1,
        "a_kind": Kind,
        "b_kind": Kind,
        "a": ROW_FIELD,
        "b": ROW_FIELD,
        "destination": ROW_FIELD,
        "words": SIZE_FIELD,
        "elements": SIZE_FIELD,
        "scale": FP16.bits,
        "causal_limit": SIZE_FIELD,
        "total": SCALAR_FIELD,
    }
)
FED = (
    "operation",
    "takes_b",
    "a_kind",
    "b_kind",
    "a",
    "b",
    "words",
    "elements",
    "scale",
    "causal_limit",
)


class CausalFeeder(VectorFeeder):
    """Shows, in bank r, the first ``causal_limit + r`` elements of tensor a; all if it is 0."""

    def __init__(self, params: HarmoniaParams):
        super().__init__(params.vector, params.halves_rows, {"causal_limit": In(SIZE_FIELD)})

    def visible(self, row: int, element: Value, value: Value) -> Value:
        hidden = (self.causal_limit != 0) & (element >= self.causal_limit + row)
        return Mux(hidden, MINUS_INFINITY, value)


class VectorPath(wiring.Component):
    """Runs one vector instruction on a token tile of the fp16 memory; has the scalar registers.

    ``maxima``: a gemm's results, of which a scalar register keeps the largest.

    Timing: that of Anda's: the unit takes a row a cycle, or one in two with two tensors.
    """

    def __init__(self, params: HarmoniaParams):
        self.params = params
        depth, row = params.halves_rows, halves_row(params)
        super().__init__(
            {
                "start": In(1),
                "command": In(VECTOR),
                "busy": Out(1),
                "read": Out(ReadPort(depth, row)),
                "write": Out(MaskedWritePort(depth, row)),
                "maxima": In(maxima_layout(params)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, x = self.params, self.command
        m.submodules.feeder = feeder = CausalFeeder(p)
        m.submodules.unit = unit = VectorUnit(p.vector)
        connect(m, feeder.beats, unit.i)
        connect(m, feeder.read, flipped(self.read))
        scalars = Array(
            Signal(data.ArrayLayout(FP16.bits, p.rows), name=f"scalar{k}") for k in range(SCALARS)
        )
        number_bits = (SCALARS - 1).bit_length()
        left = Signal.like(x.words)  # results due
        row = Signal.like(x.destination)
        m.d.comb += [
            feeder.start.eq(self.start),
            *(getattr(feeder, name).eq(x[name]) for name in FED),
            feeder.a_scalar.eq(scalars[x.a[:number_bits]]),
            feeder.b_scalar.eq(scalars[x.b[:number_bits]]),
            unit.o.ready.eq(1),
            self.busy.eq(feeder.busy | left.any()),
            self.write.enable.eq(unit.o.valid & ~x.to_scalar),
            self.write.address.eq(row),
            self.write.data.eq(unit.o.p["values"]),
        ]
        with m.If(self.maxima.enable):
            kept = scalars[self.maxima.register]
            for r, value in enumerate(self.maxima["values"]):
                start = Mux(self.maxima.restart, MINUS_INFINITY, kept[r])
                m.d.sync += kept[r].eq(larger_half(start, value))
        with m.If(self.start):
            m.d.sync += [left.eq(x.words), row.eq(x.destination)]
        with m.If(unit.o.valid):
            m.d.sync += [left.eq(left - 1), row.eq(row + 1)]
            with m.If(x.to_scalar & (left == 1)):
                lanes = p.vector.row_lanes
                firsts = Cat(unit.o.p.values[r * lanes] for r in range(p.rows))
                m.d.sync += scalars[x.destination[:number_bits]].eq(firsts)
            with m.If((x.operation == Operation.POWERS) & (left == 1)):
                m.d.sync += scalars[x.total].eq(unit.o.p.sums)
        return m
