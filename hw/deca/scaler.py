"""Scaler: bf16 values times the scales of their groups."""

from functools import reduce
from operator import or_
from types import SimpleNamespace

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.arith import AMX_RULES
from tilewright.golden.params.deca import DecaParams
from tilewright.golden.params.formats import BF16, E8M0
from tilewright.hw.arith.carry_save import carry_save_product
from tilewright.hw.arith.float_round import Rounder
from tilewright.hw.arith.float_unpack import split
from tilewright.hw.arith.lanes import without

# A scale taken apart, so that the multiplier need not know how it was stored.
SCALE = data.StructLayout(
    {
        "fraction": BF16.mantissa_bits,
        "biased": BF16.exponent_bits,  # exponent field; unlike bf16, e8m0 has a field 0
        "sign": 1,
        "zero": 1,
        "infinite": 1,
        "nan": 1,
    }
)


def group_sizes(p: DecaParams, group_log2: Value) -> Value:
    """One bit per size of a group: 1, 2, 4, ... elements, the last one a chunk or more."""
    levels = (p.lanes - 1).bit_length()
    return Cat(*(group_log2 == level for level in range(levels)), group_log2 >= levels)


def spread_scales(p: DecaParams, scales: Value, power_of_two: Value, at: Value) -> list[dict]:
    """Every lane's scale, taken apart (fields of ``SCALE``); ``at`` is :func:`group_sizes`.

    Scale k of a chunk belongs to the elements k * group and on, counted in the dense tile.
    """
    levels = len(at) - 1

    def choose(lane: int, bits: int) -> Value:
        """The lane's stored scale: at one place per size of a group."""
        # A place beyond the end belongs to groups that are refused: too small for bf16 scales.
        places = {lane >> level for level in range(levels + 1)} & set(range(len(scales) // bits))
        words = []
        for place in sorted(places):
            sizes = [at[level] for level in range(levels + 1) if lane >> level == place]
            words.append(scales.word_select(place, bits) & reduce(or_, sizes).replicate(bits))
        return reduce(or_, words)

    lanes = []
    for lane in range(p.lanes):
        byte, pattern = choose(lane, E8M0.bits), choose(lane, BF16.bits)
        lanes.append(_take_apart(power_of_two, byte, pattern))
    return lanes


def _take_apart(power_of_two: Value, byte: Value, pattern: Value) -> dict[str, Value]:
    number = split(BF16, pattern, AMX_RULES.operand_subnormals)
    other = ~power_of_two
    return {
        "fraction": Mux(power_of_two, 0, number.fraction),
        "biased": Mux(power_of_two, byte, number.biased),
        "sign": other & number.sign,
        "zero": other & number.zero,
        "infinite": other & number.infinite,
        "nan": Mux(power_of_two, byte == E8M0.nan_bits, number.nan),
    }


# The product's top bit weighs one more than the exponent fields of the factors say.
OFFSET = 1 - BF16.bias
ROUNDER = Rounder(
    BF16,
    AMX_RULES,
    width=BF16.significand_bits + 3,  # a leading zero, a guard bit, and one for all below
    lowest=1 + OFFSET,  # the field of an e8m0 scale can be 0
    highest=2 * (2**BF16.exponent_bits - 2) + OFFSET,
    leading_zeros=1,
)

# Bits of a product's exponent field, signed: the sum of two fields and the offset.
BIASED_BITS = 1 + max(2 * (2**BF16.exponent_bits - 1) + OFFSET, -OFFSET - 1).bit_length()

LATENCY = 2 + len(ROUNDER.stages())  # rows of the product, their sum, rounding

# Fields of a stage besides the product itself, and ``rest``: together as wide as a value.
BESIDE = ("biased", "low_end", "high_end", "sign", "zero", "infinite", "nan", "rest")


class Scaler(wiring.Component):
    """``o[k] = i[k] * scale[k]`` in bf16, or ``i[k]`` unchanged where ``keep`` is set.

    Numerics: rounded once, to nearest even; subnormal values and bf16 scales count as zero and
    subnormal results become zero; an e8m0 scale is an exact power of two over its whole range.
    Timing: one chunk a cycle, ``latency`` registers between ``i`` and ``o``; never stalls. Without
    ``valid`` no register moves, and with ``keep`` only those that hold the chunk do.
    """

    latency = LATENCY

    def __init__(self, params: DecaParams):
        self.params = params
        super().__init__(
            {
                "valid": In(1),
                "i": In(data.ArrayLayout(BF16.bits, params.lanes)),
                "scale": In(data.ArrayLayout(SCALE, params.lanes)),
                "powers": In(1),  # every scale is a power of two
                "keep": In(1),
                "o": Out(data.ArrayLayout(BF16.bits, params.lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Per stage: whether it holds a chunk, and whether that passes unchanged.
        valid, keep = Signal(self.latency), Signal(self.latency)
        m.d.comb += [valid[0].eq(self.valid), keep[0].eq(self.keep)]
        m.d.sync += valid[1:].eq(valid[:-1])
        for k in range(self.latency - 1):
            with m.If(valid[k]):
                m.d.sync += keep[k + 1].eq(keep[k])
        # A product with a power of two has zeros in its lower half: once zero, those registers need
        # no clock until another scale arrives.
        powers = Signal(self.latency - 1)  # all scales of a stage's chunk are powers of two
        zero = Signal(self.latency - 1)  # the lower halves of a stage are zero
        product, lower = Signal(self.latency - 1), Signal(self.latency - 1)
        m.d.comb += [
            powers[0].eq(self.powers),
            product.eq(valid & ~keep),
            lower.eq(product & ~(powers & zero)),
        ]
        for k in range(self.latency - 1):
            with m.If(product[k]):
                m.d.sync += zero[k].eq(powers[k])
                if k + 1 < len(powers):
                    m.d.sync += powers[k + 1].eq(powers[k])
        # The last stage chooses between 16 bits in every lane. Copies of that choice, which differ
        # where there is no chunk and so are not merged, drive a quarter of the lanes each.
        before, there = keep[-2], valid[-2]
        last = Signal(4)
        m.d.sync += last[:3].eq(Cat(before, before & there, before | ~there))
        m.d.comb += last[3].eq(keep[-1])
        for k in range(self.params.lanes):
            m.submodules[f"lane{k}"] = lane = _Lane()
            m.d.comb += [
                lane.value.eq(self.i[k]),
                lane.scale.eq(self.scale[k]),
                lane.valid.eq(valid),
                lane.keep.eq(Cat(keep[:-1], last[k * len(last) // self.params.lanes])),
                lane.product.eq(product),
                lane.lower.eq(lower),
                self.o[k].eq(lane.result),
            ]
        return m


class _Lane(wiring.Component):
    """One multiplier with a register after each stage.

    Per stage: whether it holds a chunk, whether that passes unchanged, whether it has a product
    and whether that has a lower half. An unchanged value travels in the registers of exponent and
    flags, which are off the longest path.
    """

    value: In(BF16.bits)
    scale: In(SCALE)
    valid: In(LATENCY)
    keep: In(LATENCY)
    product: In(LATENCY - 1)
    lower: In(LATENCY - 1)
    result: Out(BF16.bits)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        (rounded,) = ROUNDER.stages()
        s0 = self._register(m, 0, self._kept_beside(self._multiply(m)))
        s1 = self._register(m, 1, self._add_rows(s0))
        kept = Cat(getattr(s1, name) for name in BESIDE)
        # Not inside the condition, which would become part of the rounder's own signals.
        product = rounded(m, s1)["y"]
        result = Signal(BF16.bits, reset_less=True)
        with m.If(self.valid[2]):
            m.d.sync += result.eq(Mux(self.keep[2], kept, product))
        m.d.comb += self.result.eq(result)
        return m

    def _register(self, m: Module, k: int, values: dict[str, Value]) -> SimpleNamespace:
        """The values of stage k, each loaded only with what it is for."""
        held = {n: Signal(v.shape(), name=f"s{k}_{n}", reset_less=True) for n, v in values.items()}
        for n, value in values.items():
            # Bits below the value's own, set only by scales that are not powers of two.
            low = len(value) - BF16.significand_bits - 1
            if n in BESIDE:
                # The rest of an unchanged value means nothing to a product.
                with m.If(self.valid[k] & (self.keep[k] if n == "rest" else 1)):
                    m.d.sync += held[n].eq(value)
                continue
            whole = n == "other_row"  # zero for a power of two
            with m.If(self.lower[k]):
                m.d.sync += (held[n] if whole else held[n][:low]).eq(
                    value if whole else value[:low]
                )
            if not whole:
                with m.If(self.product[k]):
                    m.d.sync += held[n][low:].eq(value[low:])
        return SimpleNamespace(**held)

    def _kept_beside(self, values: dict[str, Value]) -> dict[str, Value]:
        """The values of the first stage, some of them replaced by an unchanged value."""
        values["rest"] = Const(0, BF16.bits - sum(len(values[n]) for n in BESIDE if n in values))
        place = 0
        for n in (name for name in BESIDE if name in values):
            width, shape = len(values[n]), values[n].shape()
            bits = Mux(self.keep[0], self.value[place : place + width], values[n][:])
            values[n] = bits.as_signed() if shape.signed else bits
            place += width
        return values

    def _multiply(self, m: Module) -> dict[str, Value]:
        value, scale = split(BF16, self.value, AMX_RULES.operand_subnormals), self.scale
        # Zero is a flag, its product is not looked at: every hidden bit is 1.
        row, other_row = carry_save_product(
            m, [*value.fraction, Const(1)], [*scale.fraction, Const(1)]
        )
        invalid = (value.infinite & scale.zero) | (value.zero & scale.infinite)
        return {
            "row": row,
            "other_row": other_row,
            "biased": (value.biased + scale.biased + OFFSET)[:BIASED_BITS].as_signed(),
            "sign": value.sign ^ scale.sign,
            "zero": value.zero | scale.zero,
            "infinite": value.infinite | scale.infinite,
            "nan": value.nan | scale.nan | invalid,
        }

    def _add_rows(self, x: SimpleNamespace) -> dict[str, Value]:
        product = (x.row + x.other_row)[: len(x.row)]
        # Rounding asks only whether any of the lowest bits, which the adder has first, is set.
        surplus = len(product) - ROUNDER.width + 1
        product = Cat(product[:surplus].any(), product[surplus:])
        # Comparisons of the exponent have time here, and room in the two bits above its field.
        exponent = ROUNDER.ends(x.biased)
        places = {"low_end": BF16.exponent_bits, "high_end": BF16.exponent_bits + 1}
        for n, place in places.items():
            exponent[n] = Mux(self.keep[1], x.biased[place], exponent[n])
        return {**without(x, "row", "other_row"), **exponent, "significand": product}
