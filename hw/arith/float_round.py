"""The one rounder: every float unit ends in its stages."""

from types import SimpleNamespace

from amaranth import Cat, Const, Module, Mux, Signal, Value

from golden.params.arith import FloatRules
from golden.params.formats import FloatFormat, Overflow, Rounding, Specials, Subnormals
from hw.arith.float_unpack import either, present, wire
from hw.arith.leading_zeros import count_leading_zeros
from hw.arith.shifter import shift_left, shift_right_sticky
from hw.stream.pipeline import PipelinedUnit, Stage

__all__ = ["FloatRound", "Rounder"]


class Rounder:
    """Normalise, round and pack, as one to three pipeline stages.

    The first stage takes ``sign``, ``significand`` (``width`` bits), ``biased`` (signed: the
    exponent field of the result if the significand's top bit is set) and, where they can occur,
    ``sticky``, ``zero``, ``infinite`` and ``nan``, with the meaning that
    :class:`golden.params.arith.FloatRoundParams` gives them; the last gives ``y``. ``zero`` is
    needed only where a significand is not 0 although the value is.

    What cannot happen is not built. The caller promises, for finite nonzero values, that
    ``biased`` lies in [``lowest``, ``highest``] and that there are at most ``leading_zeros``,
    and those only where ``biased`` is at most ``ragged_up_to`` (by default anywhere).
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
        self.below_range = (
            lowest - leading_zeros < 1
        )  # a leading one can lie below the normal range
        self.denormalises = not self.flush and lowest < 1
        inexact = sticky or width > fmt.significand_bits or self.denormalises
        self.rounds_up = self.nearest and (inexact or (self.flush and self.below_range))
        largest = fmt.max_exponent + fmt.bias
        top = highest + self.rounds_up
        # e4m3's NaN shares its exponent with the largest numbers.
        self.overflows = top + (fmt.specials is Specials.NAN_ONLY) > largest
        self.field_bits = max(top, largest).bit_length()

    def stages(self) -> list[Stage]:
        if self.max_left > 1:
            return [self._measure, self._shift, self._round]
        if self.max_left or self.denormalises:
            return [_joined(self._measure, self._shift), self._round]
        return [_joined(self._measure, self._shift, self._round)]

    def _measure(self, m: Module, x: SimpleNamespace) -> dict[str, Value]:
        """How far to shift, and the exponent field that results if there is a leading one."""
        amounts = {}
        base = x.biased
        if self.max_left:
            zeros = ~x.significand[-1] if self.max_left == 1 else count_leading_zeros(x.significand)
            zeros = wire(m, "zeros", zeros)
            # A single zero is known late, when a product is: both answers wait for it.
            late = Mux(zeros, x.biased - 1, x.biased)
            base = wire(m, "base", late if self.max_left == 1 else x.biased - zeros)
            amounts["left"] = zeros
            if self.below_range and not self.flush:
                # A leading one at field 0 or below: stop at the weight of the subnormals.
                amounts["left"] = Mux(base < 1, (x.biased - 1)[: len(zeros)], zeros)
        if self.denormalises:
            amounts["below"] = x.biased < 1
            amounts["right"] = _saturate(1 - x.biased, self._right_bits)
        return {**vars(x), **amounts, "base": base}

    @property
    def _narrow_bits(self) -> int:
        """What of an unshifted significand can reach a subnormal result: itself and a guard bit."""
        return self.fmt.significand_bits + 1

    @property
    def _right_bits(self) -> int:
        return self._narrow_bits.bit_length()

    def _shift(self, m: Module, x: SimpleNamespace) -> dict[str, Value]:
        """Significand of the result, before rounding, and what rounding needs to know."""
        left = getattr(x, "left", None)
        shifted = x.significand if left is None else shift_left(x.significand, left)
        narrow, sticky = self._narrow(wire(m, "shifted", shifted), x)
        if self.denormalises:
            # Beside the left shift, not behind it: what moves down is never also moved up.
            unshifted, tail = self._narrow(x.significand, x)
            down, lost = shift_right_sticky(unshifted, x.right)
            narrow = Mux(x.below, down, narrow)
            sticky = Mux(x.below, either(lost, tail), sticky if sticky is not None else 0)
        return present(
            kept=narrow[1:],
            guard=narrow[0] if self.rounds_up else None,
            sticky=sticky if self.rounds_up else None,
            base=x.base,
            sign=x.sign,
            **_flags(x),
        )

    def _narrow(self, significand: Value, x: SimpleNamespace) -> tuple[Value, Value | None]:
        """Top bits down to the guard bit, and whether anything is set below it."""
        surplus = self.width - self._narrow_bits
        if surplus <= 0:
            return Cat(Const(0, -surplus), significand), getattr(x, "sticky", None)
        tail = significand[:surplus].any()
        return significand[surplus:], either(tail, getattr(x, "sticky", None))

    def _round(self, m: Module, x: SimpleNamespace) -> dict[str, Value]:
        fmt = self.fmt
        fraction, hidden = x.kept[:-1], x.kept[-1]
        field = Signal(self.field_bits)
        m.d.comb += field.eq(Mux(hidden, x.base, 0))
        plain = Cat(fraction, field)
        up = Const(0)
        if self.rounds_up:
            up = x.guard & either(fraction[0], getattr(x, "sticky", None))
            if self.flush and self.below_range:
                # One binade below the normal range a subnormal has one bit less: its guard bit
                # is the last bit here, and only a fraction of ones can still become normal.
                up |= hidden & (x.base == 0)
            up = wire(m, "up", up)
        rounded = Mux(up, plain + 1, plain) if self.rounds_up else plain

        def reaches(limit: int) -> Value:
            """Whether ``rounded`` is at least ``limit``, decided without waiting for it."""
            return Mux(up, plain >= limit - 1, plain >= limit) if self.rounds_up else plain >= limit

        vanishes = getattr(x, "zero", None)
        if self.flush and self.below_range:
            normal = (x.base >= 0) & reaches(1 << fmt.mantissa_bits)
            vanishes = either(vanishes, ~normal)
        overflow = reaches(fmt.max_finite_bits + 1) if self.overflows else None
        return {"y": self._select(x, rounded, vanishes, overflow)}

    def _select(
        self, x: SimpleNamespace, rounded: Value, vanishes: Value | None, overflow: Value | None
    ) -> Value:
        """The pattern: number, overflow, zero, infinity or NaN, each stronger than those before."""
        fmt = self.fmt
        saturated = fmt.max_finite_bits
        infinity = saturated if fmt.infinity_bits is None else fmt.infinity_bits
        saturates = self.rules.overflow is Overflow.SATURATE
        infinite, nan = getattr(x, "infinite", None), getattr(x, "nan", None)
        if fmt.specials is Specials.NAN_ONLY and not saturates:
            valid_overflow = (
                overflow if vanishes is None or overflow is None else overflow & ~vanishes
            )
            nan, infinite, overflow = either(nan, infinite, valid_overflow), None, None
        magnitude = rounded[: fmt.bits - 1]
        for flag, value in (
            (overflow, saturated if saturates else infinity),
            (vanishes, 0),
            (infinite, infinity),
            (nan, fmt.nan_bits or 0),
        ):
            magnitude = magnitude if flag is None else Mux(flag, value, magnitude)
        sign = x.sign
        if nan is not None:
            # The canonical NaN is positive; a format without NaN says -0.
            sign = sign | nan if fmt.nan_bits is None else sign & ~nan
        return Cat(magnitude, sign)


def _joined(*stages: Stage) -> Stage:
    """Several stages as one."""

    def run(m, x):
        for stage in stages:
            results = stage(m, x)
            x = SimpleNamespace(**results)
        return results

    return run


def _flags(x: SimpleNamespace) -> dict[str, Value]:
    return {name: v for name, v in vars(x).items() if name in ("zero", "infinite", "nan")}


def _saturate(value: Value, bits: int) -> Value:
    """A value that is not negative in ``bits`` bits; all ones if it does not fit."""
    return value[:bits] | value[bits:].any().replicate(bits)


class FloatRound(PipelinedUnit):
    """An exact value with a sticky tail, rounded once into ``params.format``.

    Numerics: rounding, overflow and subnormal results as the parameters say; the canonical NaN;
    see :class:`golden.params.arith.FloatRoundParams`.
    Timing: one a cycle, latency ``params.latency``. Stages: bias and count leading zeros; shift;
    round and select.
    """

    def stages(self):
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
        return [_joined(self._bias, first), *rest]

    def _bias(self, m, x):
        biased = x.exponent + self.params.format.bias
        return {**vars(x), "biased": wire(m, "biased", biased)}
