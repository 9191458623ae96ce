"""The one rounder: every float unit ends in its stages."""

from collections.abc import Callable
from types import SimpleNamespace

from amaranth import Cat, Const, Module, Mux, Value

from tilewright.golden.params.arith import FloatRoundParams, FloatRules
from tilewright.golden.params.formats import FloatFormat, Overflow, Rounding, Specials, Subnormals
from tilewright.hw.arith.float_unpack import either, present, wire
from tilewright.hw.arith.lanes import joined
from tilewright.hw.arith.leading_zeros import count_leading_zeros
from tilewright.hw.arith.shifter import shift_left, shift_right_sticky
from tilewright.hw.stream.pipeline import PipelinedUnit, Stage


class Rounder:
    """Normalise, round and pack, as one to three pipeline stages.

    The first stage takes ``sign``, ``significand`` (``width`` bits), ``biased`` (signed: the
    exponent field of the result if the significand's top bit is set) and, where they can occur,
    ``sticky``, ``zero``, ``infinite`` and ``nan``, with the meaning that
    :class:`tilewright.golden.params.arith.FloatRoundParams` gives them; the last gives ``y``.
    ``zero`` is needed only where a significand is not 0 although the value is.

    Cases that cannot occur are not built. The caller promises, for finite nonzero values, that
    ``biased`` lies in [``lowest``, ``highest``] and that there are at most ``leading_zeros``,
    and those only where ``biased`` is at most ``ragged_up_to`` (by default anywhere).

    A caller with time in an earlier stage gives :meth:`ends` of ``biased`` instead.
    """

    def __init__(
        self,
        fmt: FloatFormat,
        rules: FloatRules,
        *,
        width: int,
        lowest: int,
        highest: int,
        leading_zeros: int,
        ragged_up_to: int | None = None,
        sticky: bool = False,
    ):
        self.fmt, self.rules, self.width = fmt, rules, width
        # Zeros at field 1 or below are those of a subnormal result and stay where they are.
        room = (highest if ragged_up_to is None else ragged_up_to) - 1
        self.max_left = min(leading_zeros, max(0, room))
        self.flush = rules.result_subnormals is Subnormals.FLUSH
        self.nearest = rules.rounding is Rounding.NEAREST_EVEN
        # A shifter moves to the top what will be flushed, too; a one-place shift may not.
        self.stays_ragged = leading_zeros > self.max_left and not (self.flush and self.max_left > 1)
        # Whether a leading one can lie below the normal range.
        self.below_range = lowest - leading_zeros < 1
        self.denormalises = not self.flush and lowest < 1
        inexact = sticky or width > fmt.significand_bits or self.denormalises
        self.rounds_up = self.nearest and inexact
        # The first pattern too large: its field, and its fraction where e4m3's NaN is.
        self.limit, self.limit_fraction = divmod(fmt.max_finite_bits + 1, 1 << fmt.mantissa_bits)
        self.overflows = highest + self.rounds_up >= self.limit

    def stages(self) -> list[Stage]:
        if self.max_left > 1:
            return [self._measure, self._shift, self._round]
        if self.denormalises:
            return [joined(self._measure, self._shift), self._round]
        return [joined(self._measure, self._shift, self._round)]

    def _measure(self, m: Module, x: SimpleNamespace) -> dict[str, Value]:
        """How far to shift, and the exponent field of a leading one."""
        results = vars(x).copy()
        if self.max_left == 1:
            results["zeros"] = zeros = wire(m, "zeros", ~x.significand[-1])
            clamped = self.below_range and not self.flush
            results["left"] = zeros & (x.biased > 1) if clamped else zeros
        elif self.max_left:
            zeros = wire(m, "zeros", count_leading_zeros(x.significand))
            del results["biased"]
            results["base"] = base = wire(m, "base", x.biased - zeros)
            results["left"] = zeros
            if self.below_range and not self.flush:
                # A leading one below the normal range: stop at the weight of the subnormals.
                results["left"] = Mux(base < 1, (x.biased - 1)[: len(zeros)], zeros)
        if self.denormalises:
            results["below"] = x.biased < 1
            results["right"] = _saturate(1 - x.biased, self._narrow_bits.bit_length())
        return results

    @property
    def _narrow_bits(self) -> int:
        """The result's significand and a guard bit."""
        return self.fmt.significand_bits + 1

    def _shift(self, m: Module, x: SimpleNamespace) -> dict[str, Value]:
        """Significand of the result before rounding, and all that rounding needs to know."""
        narrow, sticky = self._narrow(x.significand, x)
        ones = None
        if self.denormalises:
            # In parallel with the left shift: what moves down is never also moved up.
            down, lost = shift_right_sticky(narrow, x.right)
            down_sticky = either(lost, sticky)
        if self.max_left == 1:
            moved, moved_sticky = self._narrow(Cat(Const(0, 1), x.significand[:-1]), x)
            ones = Mux(x.left, moved[1:-1].all(), narrow[1:-1].all())
            narrow = Mux(x.left, moved, narrow)
            sticky = None if sticky is None else Mux(x.left, moved_sticky, sticky)
        elif self.max_left:
            moved = wire(m, "moved", shift_left(x.significand, x.left))
            narrow, sticky = self._narrow(moved, x)
        if self.denormalises:
            narrow, ones = Mux(x.below, down, narrow), None
            sticky = Mux(x.below, down_sticky, 0 if sticky is None else sticky)
        return present(
            kept=narrow[1:],
            ones=ones,
            guard=narrow[0] if self.rounds_up else None,
            sticky=sticky if self.rounds_up else None,
            second_guard=self._second_guard(x),
            sign=x.sign,
            **{name: v for name, v in vars(x).items() if name in ("zero", "infinite", "nan")},
            **self._exponent_field(x),
        )

    def _narrow(self, significand: Value, x: SimpleNamespace) -> tuple[Value, Value | None]:
        """Top bits down to the guard bit, and whether anything is set below it."""
        surplus = self.width - self._narrow_bits
        if surplus <= 0:
            return Cat(Const(0, -surplus), significand), getattr(x, "sticky", None)
        tail = significand[:surplus].any()
        return significand[surplus:], either(tail, getattr(x, "sticky", None))

    def _second_guard(self, x: SimpleNamespace) -> Value | None:
        """The bit below the guard bit, where a leading one below the normal range stays in place.

        Such a value is rounded to full precision like any other, and its own guard bit is this one.
        """
        if not (self.flush and self.stays_ragged and self.rounds_up):
            return None
        place = self.width - self._narrow_bits - 1 - self.max_left
        return x.significand[place] if place >= 0 else Const(0)

    def ends(self, biased: Value) -> dict[str, Value]:
        """An exponent field for the first stage in another form: its low bits, and where it lies.

        Whether it is at an end of the range or beyond, two bits tell where the field's own say the
        rest: no comparison is left for the stage that rounds. Only for what a product needs: at
        most one leading zero, flushed results, a format whose last field is that of infinity.
        """
        bits = self.fmt.exponent_bits
        assert self.max_left == 1 and self.flush and self.rounds_up and not self.limit_fraction
        assert self.limit == 2**bits - 1 and not (self.denormalises or self.stays_ragged)
        return {
            "biased": biased[:bits],
            "low_end": biased <= 1,
            "high_end": biased >= self.limit - 1,
        }

    def _field_by_its_end(self, x: SimpleNamespace) -> dict[str, Value]:
        """As :meth:`_exponent_field`, for the output of :meth:`ends`.

        Where it is at the low end, fields 0 and 1 are the only ones whose top bit is not set; at
        the high end the last two below infinity's, 2**n - 2 and 2**n - 1, are the only ones whose
        top bit is set. The lowest bit tells them apart.
        """
        bits = self.fmt.exponent_bits
        low, high = x.low_end, x.high_end
        top, odd = x.biased[-1], x.biased[0]
        return {
            "field": Mux(x.zeros, x.biased - 1, x.biased)[:bits],
            "next_field": Mux(x.zeros, x.biased, x.biased + 1)[:bits],
            "over": high & ~(top & (x.zeros | ~odd)),
            "last": high & top & (odd == x.zeros),
            "under": low & (x.zeros | top | ~odd),
            "first": low & ~top & (odd == x.zeros),
        }

    def _exponent_field(self, x: SimpleNamespace) -> dict[str, Value]:
        """Exponent field of the result, and where it lies: in range, at an end, or beyond."""
        if hasattr(x, "low_end"):
            return self._field_by_its_end(x)

        def settled(place: Callable[[Value], Value]) -> Value:
            if self.max_left == 1:  # decided late, by a product's top bit: both answers wait for it
                return Mux(x.zeros, place(x.biased - 1), place(x.biased))
            return place(x.base if self.max_left else x.biased)

        bits = self.fmt.exponent_bits
        results = {"field": settled(lambda field: _low_bits(field, bits))}
        if self.max_left == 1 and not (self.denormalises or self.stays_ragged):
            results["next_field"] = settled(lambda field: _low_bits(field + 1, bits))
        if self.overflows:
            last = self.limit if self.limit_fraction else self.limit - 1
            results["over"] = settled(lambda field: field > last)
            results["last"] = settled(lambda field: field == last)
        if self.flush and self.below_range:
            results["under"] = settled(lambda field: field < 1)
            if self.rounds_up:
                results["first"] = settled(lambda field: field == 0)
        return results

    def _round(self, m: Module, x: SimpleNamespace) -> dict[str, Value]:
        fraction, hidden = x.kept[:-1], x.kept[-1]
        ones = getattr(x, "ones", fraction.all())
        zero = getattr(x, "zero", None)
        # Where zero is a flag and leading zeros are gone, the hidden bit is always set.
        always_normal = zero is not None and not (self.denormalises or self.stays_ragged)
        field = x.field if always_normal else Mux(hidden, x.field, 0)
        up, carry = None, Const(0)
        rounded = Cat(fraction, field)
        if self.rounds_up:
            up = wire(m, "up", x.guard & either(fraction[0], getattr(x, "sticky", None)))
            carry = wire(m, "carry", up & ones)
            next_field = getattr(x, "next_field", field + 1)
            rounded = Cat(
                Mux(up, fraction + 1, fraction)[: len(fraction)],
                Mux(carry, next_field, field)[: len(field)],
            )
        overflow = tiny = tiny_pattern = None
        if self.overflows:
            limit = self.limit_fraction
            too_large = carry
            if limit:
                too_large = fraction >= limit
                too_large = too_large if up is None else Mux(up, fraction >= limit - 1, too_large)
            overflow = x.over | (x.last & too_large)
            overflow = overflow if always_normal else overflow & hidden
        if self.flush and self.below_range:
            # One binade below the normal range, what carries into the exponent is the smallest
            # normal; everything else below is zero.
            tiny, tiny_pattern = x.under, Const(0)
            if self.rounds_up:
                border = x.first & carry
                border = border & hidden if self.stays_ragged else border
                tiny_pattern = Cat(Const(0, len(fraction)), border)
            if self.stays_ragged:
                tiny |= ~hidden & ~(carry & getattr(x, "second_guard", 0))
        return {"y": self._select(x, rounded, overflow, tiny, tiny_pattern)}

    def _select(
        self,
        x: SimpleNamespace,
        rounded: Value,
        overflow: Value | None,
        tiny: Value | None,
        tiny_pattern: Value | None,
    ) -> Value:
        """The pattern: number, overflow, tiny, zero, infinity or NaN, the last that is so."""
        fmt = self.fmt
        zero, infinite, nan = (getattr(x, name, None) for name in ("zero", "infinite", "nan"))
        infinity = fmt.max_finite_bits if fmt.infinity_bits is None else fmt.infinity_bits
        saturates = self.rules.overflow is Overflow.SATURATE
        if fmt.specials is Specials.NAN_ONLY and not saturates:
            nan, infinite = either(nan, infinite), None
            if self.nearest:
                number = either(zero, tiny)
                real = overflow if number is None or overflow is None else overflow & ~number
                nan, overflow = either(nan, real), None
        saturates |= not self.nearest  # toward zero: no finite value becomes infinite
        magnitude = rounded[: fmt.bits - 1]
        for flag, value in (
            (overflow, fmt.max_finite_bits if saturates else infinity),
            (tiny, tiny_pattern),
            (zero, 0),
            (infinite, infinity),
            (nan, fmt.nan_bits or 0),
        ):
            magnitude = magnitude if flag is None else Mux(flag, value, magnitude)
        sign = x.sign
        if nan is not None:
            # The canonical NaN is positive; a format without NaN says -0.
            sign = sign | nan if fmt.nan_bits is None else sign & ~nan
        return Cat(magnitude[: fmt.bits - 1], sign)


def _low_bits(value: Value, bits: int) -> Value:
    """The lowest bits of a value that is not negative, as many as asked for."""
    return Cat(value, Const(0, bits))[:bits]


def _saturate(value: Value, bits: int) -> Value:
    """A value that is not negative in ``bits`` bits; all ones if it does not fit."""
    return value[:bits] | value[bits:].any().replicate(bits)


class FloatRound(PipelinedUnit[FloatRoundParams]):
    """An exact value with a sticky tail, rounded once into ``params.format``.

    Numerics: rounding, overflow and subnormal results as the parameters say; the canonical NaN;
    see :class:`tilewright.golden.params.arith.FloatRoundParams`.
    Timing: one a cycle, latency ``params.latency``. Stages: bias and count leading zeros; shift;
    round and select.
    """

    def stages(self) -> list[Stage]:
        p = self.params
        reach = 1 << (p.exponent_bits - 1)
        rounder = Rounder(
            p.format,
            p.rules,
            width=p.significand_bits,
            lowest=p.format.bias - reach,
            highest=p.format.bias + reach - 1,
            leading_zeros=p.significand_bits - 1,
            sticky=True,
        )
        first, *rest = rounder.stages()
        return [joined(self._bias, first), *rest]

    def _bias(self, m: Module, x: SimpleNamespace) -> dict:
        biased = x.exponent + self.params.format.bias
        return {**vars(x), "biased": wire(m, "biased", biased)}
