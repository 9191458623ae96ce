"""The reconfigurable PE: sub-PEs in two wrappers, one accumulator for all."""

from types import SimpleNamespace

from amaranth import Module, Mux, Signal, Value, signed
from amaranth.lib import data

from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import ACTIVATION_BITS, OPERAND_BITS, HarmoniaPeParams, Mode
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.harmonia.sub_pe import Wrapper
from tilewright.hw.pe.aligned import rounded_sum
from tilewright.hw.pe.common import ProcessingElement

WRAPPERS = 2
ONE = FP16.bias << FP16.mantissa_bits
# Smallest and largest sum of shared exponents, of one operand or of two.
LOWEST_EXPONENT, HIGHEST_EXPONENT = 1, FP16.max_exponent + FP16.bias


class HarmoniaPE(ProcessingElement[HarmoniaPeParams]):
    """Dot products of block floating point in three modes.

    Numerics: :class:`tilewright.golden.params.harmonia.HarmoniaNumerics`.
    Timing: ``fold`` beats a step, ``sub_elements`` cycles a step, so one sum a cycle reaches the
    accumulator. A result follows ``params.latency`` cycles after its last beat.
    """

    def datapath(self, m: Module, valid: Value) -> None:
        beat = self.beat
        step_end = self._count_beats(m, valid)
        complete, sums = self._sub_elements(m, valid, step_end)
        mode, last, exponents, scale = self._step_facts(m, valid & step_end, beat)
        serial = self._serialise(m, complete, sums, exponents, mode, last, scale)
        group = self._fuse(m, serial)
        partial = self._partial(m, *self._apart(m, group.total, group.exponent))
        self.give_groups(m, group.valid, partial, group.scale, group.last)

    def give(self, m: Module, valid: Value, total: Value, *, held: bool = True) -> None:
        """The complete fp32 sum in the result format to ``o``."""
        result = self.rounded(m, valid, total, self.params.result)
        if not held:
            m.d.comb += [self.o.valid.eq(valid), self.o.p.y.eq(result)]
            return
        with m.If(self.step):
            m.d.sync += self.o.valid.eq(valid)
            with m.If(valid):
                m.d.sync += self.o.p.y.eq(result)

    def hold(self, m: Module, held: data.View) -> list:
        """Isolated: products' signs, and what belongs to a step with its last beat alone."""
        given, p = self.i.p, self.params
        if not p.isolated:
            return super().hold(m, held)
        arriving = Signal(range(p.fold))
        late = ("mode", "last", "a_exponents", "b_exponents")
        with m.If(arriving == p.fold - 1):
            m.d.sync += [arriving.eq(0), *(held[name].eq(given[name]) for name in late)]
            with m.If(held.scale != given.scale):  # that of many groups: it hardly ever moves
                m.d.sync += held.scale.eq(given.scale)
        with m.Else():
            m.d.sync += arriving.eq(arriving + 1)
        signs = given.a_signs.as_value() ^ given.b_signs.as_value()  # the other one stays positive
        own = [held[name].eq(given[name]) for name in ("a", "b")]
        return [*own, held.b_signs.as_value().eq(signs)]

    def _count_beats(self, m: Module, valid: Value) -> Value:
        """Whether this beat ends its step; a step with fewer beats than cycles waits after it."""
        p = self.params
        cycle = Signal(range(p.sub_elements))
        step_end = wire(m, "step_end", cycle == p.fold - 1)
        pause = wire(m, "pause", cycle >= p.fold)
        # In place of the base's, which has none.
        m.d.comb += self.i.ready.eq((self.step if self.cycles == 1 else self.moves) & ~pause)
        with m.If(self.step & (valid | pause)):
            m.d.sync += cycle.eq(Mux(cycle == p.sub_elements - 1, 0, cycle + 1))
        return step_end

    def _sub_elements(self, m: Module, valid: Value, step_end: Value) -> tuple[Value, list[Value]]:
        """Whether a step is complete, and its sums."""
        p, beat = self.params, self.beat
        taken = wire(m, "taken", valid & self.i.ready)
        wrappers = [
            Wrapper(p, len(range(w, p.sub_elements, WRAPPERS)))
            for w in range(min(WRAPPERS, p.sub_elements))
        ]
        for w, wrapper in enumerate(wrappers):
            m.submodules[f"wrapper_{w}"] = wrapper
        complete, sums = None, []
        for k in range(p.sub_elements):
            port = wrappers[k % WRAPPERS].sub[k // WRAPPERS]
            for lane in range(p.lanes):
                pair = k * p.lanes + lane
                m.d.comb += [
                    port.a_signs[lane].eq(beat.a_signs[pair]),
                    port.a[lane].eq(beat.a[pair]),
                    port.b_signs[lane].eq(beat.b_signs[pair]),
                    port.b[lane].eq(beat.b[pair]),
                ]

            def grown(carried: Value, product_sum: Value = port.sum) -> Value:
                return carried + product_sum

            complete, total = self.accumulated(
                m, f"sub_{k}", taken, step_end, signed(p.half_sum_bits), grown
            )
            sums.append(total)
        return complete, sums

    def _step_facts(self, m: Module, ends: Value, beat: data.View) -> tuple:
        """Control and exponents of a step, registered with its sums."""
        p = self.params
        integer = wire(m, "integer", beat.mode == Mode.M8W4.code)
        units = {
            f"exponent_{k}": _unit_exponent(beat.a_exponents[k], beat.b_exponents[k], integer)
            for k in range(p.sub_elements)
        }
        # Other modes have no scale: one is exact.
        scale = {} if p.isolated else {"scale": Mux(integer, beat.scale, ONE)}
        flag = {"integer": integer} if p.isolated else {}
        ends = ends & self.i.ready
        pairs = beat.mode == Mode.M8M8.code
        _, pairs, last, fact, *exponents = self.registered(
            m, "step", ends, pairs=pairs, last=beat.last, **scale, **flag, **units
        )
        if not p.isolated:
            return pairs, last, exponents, fact
        moving = Signal(FP16.bits, name="step_scale", reset_less=True)
        with m.If(self.step & ends & integer & (moving != beat.scale)):
            m.d.sync += moving.eq(beat.scale)
        return pairs, last, exponents, Mux(fact, moving, ONE)

    def _serialise(
        self,
        m: Module,
        complete: Value,
        sums: list[Value],
        exponents: list[Value],
        pairs: Value,
        last: Value,
        scale: Value,
    ) -> SimpleNamespace:
        """One sum a cycle: the first as it is complete, the others from a queue."""
        p = self.params
        waiting = Signal(range(p.sub_elements))
        queue = [
            (
                Signal(signed(p.half_sum_bits), name=f"queued_{k}"),
                Signal.like(e, name=f"queued_exponent_{k}"),
            )
            for k, e in list(enumerate(exponents))[1:]
        ]
        facts = {"pairs": pairs, "last": last, "scale": scale}
        if queue:
            # The next step's facts may arrive before the queue is empty.
            held = {n: Signal.like(v, name=f"held_{n}") for n, v in facts.items()}
            following = [*queue[1:], queue[-1]]
            with m.If(self.step):
                with m.If(complete):
                    m.d.sync += waiting.eq(p.sub_elements - 1)
                    m.d.sync += [held[n].eq(v) for n, v in facts.items()]
                    for (q, qe), total, e in zip(queue, sums[1:], exponents[1:], strict=True):
                        m.d.sync += [q.eq(total), qe.eq(e)]
                with m.Elif(waiting != 0):
                    m.d.sync += waiting.eq(waiting - 1)
                    for (q, qe), (n, ne) in zip(queue, following, strict=True):
                        m.d.sync += [q.eq(n), qe.eq(ne)]
            facts = {n: wire(m, f"serial_{n}", Mux(complete, v, held[n])) for n, v in facts.items()}
            head, head_exponent = queue[0]
            total = wire(m, "serial_sum", Mux(complete, sums[0], head))
            exponent = wire(m, "serial_exponent", Mux(complete, exponents[0], head_exponent))
            final = wire(m, "serial_final", ~complete & (waiting == 1))
        else:
            total, exponent, final = sums[0], exponents[0], complete
        return SimpleNamespace(
            valid=wire(m, "serial_valid", complete | (waiting != 0)),
            total=total,
            exponent=exponent,
            pairs=facts["pairs"],
            last=facts["last"] & final,
            scale=facts["scale"],
        )

    def _fuse(self, m: Module, serial: SimpleNamespace) -> SimpleNamespace:
        """16 * high + low; a sum that stands alone is a high one, in units 16 times finer."""
        low = Signal()  # the second of a pair is next
        high = Signal.like(serial.total)
        with m.If(self.step & serial.valid & serial.pairs):
            m.d.sync += low.eq(~low)
            with m.If(~low):
                m.d.sync += high.eq(serial.total)
        upper = Mux(low, high, serial.total)
        lower = Mux(low, serial.total, 0)
        return SimpleNamespace(
            valid=wire(m, "group_valid", serial.valid & (~serial.pairs | low)),
            total=wire(m, "group_sum", (upper << OPERAND_BITS) + lower),
            exponent=serial.exponent,
            last=serial.last,
            scale=serial.scale,
        )

    def _partial(self, m: Module, total: Value, exponent: Value) -> Value:
        """``total`` in the partial format, rounded once."""
        p = self.params
        bits = p.numerics.group_sum_bits - 1
        # The exponent says the weight of the sum's lowest bit, biased by the two units.
        offset = bits - 1 + p.partial.bias + _UNIT
        exponents = 2 * LOWEST_EXPONENT, 2 * HIGHEST_EXPONENT
        registers = max(0, self.cycles - 2)
        return rounded_sum(m, p.partial, bits, total, exponent, offset, exponents, registers)

    def _apart(self, m: Module, *values: Value) -> list[Value]:
        """A sum and its exponent, a cycle later where there are cycles between steps."""
        if self.cycles == 1:
            return list(values)
        held = [Signal.like(v, name=f"apart_{k}", reset_less=True) for k, v in enumerate(values)]
        m.d.sync += [old.eq(new) for old, new in zip(held, values, strict=True)]
        return held


# A mantissa of 8 bits counts in 2^(e - 15 - 7); the product of two in the sum of both.
_UNIT = -2 * (FP16.bias + ACTIVATION_BITS - 1)
# An integer weight as a mantissa shifted by four: as if its shared exponent said 2^-4.
_INTEGER_EXPONENT = FP16.bias + ACTIVATION_BITS - 1 - OPERAND_BITS


def _unit_exponent(a: Value, b: Value, integer: Value) -> Value:
    return a + Mux(integer, _INTEGER_EXPONENT, b)
