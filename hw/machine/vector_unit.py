"""Vector unit: fp16 lanes in rows."""

from itertools import pairwise

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.params.vector import OPERATION_BITS, Operation, VectorParams, levels
from tilewright.hw.machine.approximation import PLACE, SEGMENT, Approach, Finish, Table
from tilewright.hw.machine.fused_lane import FUSED_LANE, FUSED_STAGES, FusedLane
from tilewright.hw.machine.lane_parts import (
    MINUS_INFINITY,
    NARROW,
    PRODUCT,
    SCALED,
    SUM16,
    WIDEN,
    Paced,
    larger_half,
)
from tilewright.hw.shared import Shared
from tilewright.hw.unit import Unit

SUMS = (Operation.SUM, Operation.DOT)
ATTENTION = (Operation.DOTS, Operation.WEIGH)


class VectorUnit(Unit[VectorParams]):
    """Element by element, or a running reduction of every row.

    Numerics: :class:`tilewright.golden.params.vector.VectorParams` and
    tilewright.golden.machine.vector.
    Timing: one beat a cycle, latency ``params.latency``: products, sums and tables; products
    rounded, approximations finished, each lane's running sum and maximum; one cycle for each
    level of a row's tree; a row's sum times ``scale``. A unit that is fused has two cycles more:
    tables come after sums, and running sums after tables. A consumer that waits stops all of
    them. With ``params.beat_cycles`` stages move so many cycles apart; the first beat that finds
    the unit empty is taken at once.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        x = self.i.p
        step = Signal()
        offered = self.i.valid
        # Control bits of the beat in every stage but the last; the first stage follows the input.
        stages = range(1, p.stages)
        valid = [Signal(name=f"s{k}_valid") for k in stages]
        if p.beat_cycles == 1:
            m.d.comb += [step.eq(~self.o.valid | self.o.ready), self.i.ready.eq(step)]
        else:
            x, offered = self._pace(m, step, valid)
        operations = [Signal(OPERATION_BITS, name=f"s{k}_operation") for k in stages]
        scales = [Signal(FP16.bits, name=f"s{k}_scale") for k in stages]
        lane_stages = FUSED_STAGES if p.fused else 2
        firsts = [Signal(name=f"s{k}_first") for k in range(1, lane_stages)]
        with m.If(step):
            for entering, held in (
                (x.first, firsts),
                (offered, [*valid, self.o.valid]),
                (x.operation, operations),
                (x.scale, scales),
            ):
                m.d.sync += [new.eq(old) for old, new in pairwise([entering, *held])]
        lanes = []
        for k in range(p.lanes):
            if p.fused:
                lane = Shared(
                    f"anda_vector_fused_lane{p.suffix}",
                    FUSED_LANE,
                    lambda: FusedLane(p.beat_cycles),
                )
                told = zip(lane.operations, [x.operation, *operations], strict=False)
                control = [
                    *(of.eq(known) for of, known in told),
                    lane.s3_valid.eq(valid[2]),
                    lane.s3_first.eq(firsts[2]),
                ]
                running = []
            else:
                kind = "anda_vector_attending_lane" if p.attends else "anda_vector_lane"
                lane = Shared(f"{kind}{p.suffix}", LANE, self._lane)
                control = [lane.operation.eq(x.operation)]
                running = [
                    lane.s1_valid.eq(valid[0]),
                    lane.s1_operation.eq(operations[0]),
                    lane.s1_first.eq(firsts[0]),
                ]
            m.submodules[f"lane{k}"] = lane
            lanes.append(lane)
            m.d.comb += [
                *control,
                lane.active.eq(x.active[k % p.row_lanes]),
                lane.a.eq(x.a[k]),
                lane.b.eq(x.b[k]),
                lane.step.eq(step),
                *running,
            ]
        for r in range(p.rows):
            own = range(r * p.row_lanes, (r + 1) * p.row_lanes)
            kind = "anda_vector_fused_row" if p.fused else "anda_vector_row"
            kind = "anda_vector_attending_row" if p.attends else kind
            m.submodules[f"row{r}"] = row = Shared(
                f"{kind}{p.row_lanes}{p.suffix}", row_signature(p.row_lanes, p.fused), self._row
            )
            entering = operations[lane_stages - 1 :]
            m.d.comb += [row.step.eq(step), row.scale.eq(scales[-1])]
            m.d.comb += [
                told.eq(known) for told, known in zip(row.operations, entering, strict=True)
            ]
            for j, k in enumerate(own):
                m.d.comb += [
                    row.values[j].eq(lanes[k].value),
                    row.totals[j].eq(lanes[k].total),
                    row.largest[j].eq(lanes[k].largest),
                ]
            with m.If(step):
                m.d.sync += [self.o.p.values[k].eq(row.results[j]) for j, k in enumerate(own)]
                if p.fused:
                    m.d.sync += self.o.p.sums[r].eq(row.sum)
        return m

    def _pace(self, m: Module, step: Signal, valid: list[Signal]) -> tuple[data.View, Value]:
        """Let stages move at most every ``beat_cycles`` cycles; the beat before the first one."""
        left = Signal(range(self.params.beat_cycles), name="cycles_left")
        x = Signal(self.i.p.shape(), name="s0", reset_less=True)
        taken = Signal(name="s0_valid")
        works = self.i.valid | taken | Cat(valid).any()
        m.d.comb += [
            step.eq((left == 0) & works & (~self.o.valid | self.o.ready)),
            self.i.ready.eq((left == 0) & (~self.o.valid | self.o.ready)),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(step):
            m.d.sync += [left.eq(self.params.beat_cycles - 1), taken.eq(self.i.valid)]
            m.d.sync += x.eq(self.i.p)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return x, taken

    def _row(self) -> "Row":
        p = self.params
        return Row(p.row_lanes, p.fused, p.attends, p.beat_cycles)

    def _lane(self) -> "Lane":
        return Lane(self.params.attends, self.params.beat_cycles)


LANE = wiring.Signature(
    {
        "operation": In(OPERATION_BITS),
        "active": In(1),
        "a": In(FP16.bits),
        "b": In(FP16.bits),
        "step": In(1),
        "s1_valid": In(1),
        "s1_operation": In(OPERATION_BITS),
        "s1_first": In(1),
        "value": Out(FP16.bits),
        "total": Out(FP32.bits),
        "largest": Out(FP16.bits),
    }
)


def row_signature(lanes: int, fused: bool) -> wiring.Signature:
    return wiring.Signature(
        {
            "step": In(1),
            "operations": In(OPERATION_BITS).array(levels(lanes) + 1),  # of the beat at each level
            "scale": In(FP16.bits),
            "values": In(FP16.bits).array(lanes),
            "totals": In(FP32.bits).array(lanes),
            "largest": In(FP16.bits).array(lanes),
            "results": Out(FP16.bits).array(lanes),
            **({"sum": Out(FP16.bits)} if fused else {}),  # of powers
        }
    )


class Lane(wiring.Component):
    """The first two stages of one lane: ``value``, and the running sum and maximum.

    All registers move with ``step``; the running ones only for a valid beat of their operation.
    One that ``attends`` sums products for DOTS and WEIGH as for DOT. ``step`` is set at most every
    ``cycles`` cycles.
    """

    def __init__(self, attends: bool = False, cycles: int = 1) -> None:
        self.attends, self.cycles = attends, cycles
        super().__init__(LANE)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        paced = Paced(self.cycles)
        m.submodules.approach = approach = Approach(paced.registers)
        m.submodules.table = table = Table()
        m.submodules.finish = finish = Finish(paced.registers)
        subtract = self.operation == Operation.SUBTRACT
        b = Cat(self.b[:-1], self.b[-1] ^ subtract)
        sum16 = paced.apply(m, "sum", SUM16, a=self.a, b=b)
        product = paced.apply(m, "product", PRODUCT, a=self.a, b=self.b)
        widened = paced.apply(m, "widen", WIDEN, a=self.a)
        m.d.comb += [
            approach.operation.eq(self.operation),
            approach.x.eq(self.a),
            table.operation.eq(self.operation),
            table.number.eq(approach.place.argument[-len(table.number) :]),
        ]
        s1_simple, s1_term, s1_active = Signal(FP16.bits), Signal(FP32.bits), Signal()
        s1_place, s1_segment = Signal(PLACE), Signal(SEGMENT)
        term = Mux(self.operation == Operation.SUM, widened, product)
        with m.If(self.step):
            with m.Switch(self.operation):
                with m.Case(Operation.COPY):
                    m.d.sync += s1_simple.eq(self.a)
                with m.Case(Operation.MAXIMUM):
                    m.d.sync += s1_simple.eq(larger_half(self.a, self.b))
                with m.Case(Operation.LARGEST):
                    m.d.sync += s1_simple.eq(Mux(self.active, self.a, MINUS_INFINITY))
                with m.Default():
                    m.d.sync += s1_simple.eq(sum16)
            m.d.sync += [
                s1_term.eq(Mux(self.active, term, 0)),
                s1_active.eq(self.active),
                s1_place.eq(approach.place),
                s1_segment.eq(table.segment),
            ]

        narrow = paced.apply(m, "narrow", NARROW, a=s1_term)
        value = Signal(FP16.bits)
        m.d.comb += [finish.place.eq(s1_place), finish.segment.eq(s1_segment)]
        grown = paced.sum(m, "add_term", self.total, s1_term, self.s1_first)
        with m.Switch(self.s1_operation):
            with m.Case(Operation.MULTIPLY):
                m.d.comb += value.eq(narrow)
            with m.Case(Operation.EXPONENTIAL, Operation.RECIPROCAL, Operation.RECIPROCAL_ROOT):
                m.d.comb += value.eq(finish.y)
            with m.Default():
                m.d.comb += value.eq(s1_simple)
        with m.If(self.step):
            m.d.sync += self.value.eq(Mux(s1_active, value, 0))
            with m.If(self.s1_valid):
                with m.Switch(self.s1_operation):
                    with m.Case(*SUMS, *(ATTENTION if self.attends else ())):
                        m.d.sync += self.total.eq(grown)
                    with m.Case(Operation.LARGEST):
                        start = Mux(self.s1_first, MINUS_INFINITY, self.largest)
                        m.d.sync += self.largest.eq(larger_half(start, s1_simple))
        return m


class Row(wiring.Component):
    """The lanes' values, or in each lane their sum times ``scale``, or their largest value.

    Timing: latency is the levels of the tree, neighbours first; registers move with ``step``. A
    level has one register, as long as all values: half as many sums of twice their length fit.
    Where it is ``fused``, sums and values are both there, and sums have registers of their own.
    Where it ``attends``, a lane's value is its own sum in WEIGH. ``step`` is set at most every
    ``cycles`` cycles.
    """

    def __init__(self, lanes: int, fused: bool, attends: bool = False, cycles: int = 1):
        self.lanes, self.fused, self.attends = lanes, fused, attends
        self.paced = Paced(cycles)
        super().__init__(row_signature(lanes, fused))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        values, totals, largest = list(self.values), list(self.totals), list(self.largest)
        of_tree: tuple[Operation, ...] = SUMS
        if self.attends:
            of_tree = (*SUMS, Operation.DOTS)
            own = self.operations[0] == Operation.WEIGH
            values = [
                Mux(own, self.paced.apply(m, f"narrow{k}", NARROW, a=total), value)
                for k, (value, total) in enumerate(zip(values, totals, strict=True))
            ]
        for level in range(levels(self.lanes)):
            held = Signal(self.lanes * FP16.bits, name=f"level{level}")
            sums = [
                self.paced.sum(m, f"add{level}_{k}", *pair)
                for k, pair in enumerate(zip(totals[0::2], totals[1::2], strict=True))
            ]
            maxima = [larger_half(*pair) for pair in zip(largest[0::2], largest[1::2], strict=True)]
            if self.fused:
                held_sums = Signal(len(sums) * FP32.bits, name=f"level{level}_sums")
                with m.If(self.step):
                    m.d.sync += held_sums.eq(Cat(sums))
            else:
                held_sums = held
            with m.If(self.step):
                with m.Switch(self.operations[level]):
                    if not self.fused:
                        with m.Case(*of_tree):
                            m.d.sync += held.eq(Cat(sums))
                    with m.Case(Operation.LARGEST):
                        m.d.sync += held.eq(Cat(maxima))
                    with m.Default():
                        m.d.sync += held.eq(Cat(values))
            values = [held.word_select(k, FP16.bits) for k in range(len(values))]
            totals = [held_sums.word_select(k, FP32.bits) for k in range(len(sums))]
            largest = values[: len(maxima)]
        scaled = self.paced.apply(m, "times_scale", SCALED, a=totals[0], b=self.scale)
        if self.fused:
            m.d.comb += self.sum.eq(Mux(self.operations[-1] == Operation.POWERS, scaled, 0))
        for result, value in zip(self.results, values, strict=True):
            with m.Switch(self.operations[-1]):
                with m.Case(*of_tree):
                    m.d.comb += result.eq(scaled)
                with m.Case(Operation.LARGEST):
                    m.d.comb += result.eq(largest[0])
                with m.Default():
                    m.d.comb += result.eq(value)
        return m
