"""The scaler against golden products: ends of the range, kept values, cycles without a chunk."""

import numpy as np

from tests.support.clocked import run
from tilewright.golden.arith import multiply
from tilewright.golden.params.arith import AMX_RULES
from tilewright.golden.params.deca import DecaParams
from tilewright.golden.params.formats import BF16, E8M0
from tilewright.golden.vectors import corners
from tilewright.hw.deca.scaler import Scaler

PARAMS = DecaParams.preset("small")
CHUNKS = 400


def near_the_ends(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of bf16 patterns whose product lies at an end of the range, within two binades."""
    values = rng.integers(0, 1 << BF16.bits, count, np.uint16)
    fields = (values >> BF16.mantissa_bits & 0xFF).astype(int)
    end = rng.choice([BF16.bias, 2 * BF16.bias + 1 + BF16.bias - 1], count)
    wanted = np.clip(end - fields + rng.integers(-2, 3, count), 0, 255).astype(np.uint16)
    scales = rng.integers(0, 1 << BF16.bits, count, np.uint16) & 0x807F
    root = rng.random(count) < 0.2  # 181/128, whose square rounds up to 2
    values[root], scales[root] = values[root] & 0xFF80 | 0x35, scales[root] & 0x8000 | 0x35
    return values, scales | wanted << BF16.mantissa_bits


def chunks(rng: np.random.Generator, power_of_two: bool) -> tuple[np.ndarray, np.ndarray]:
    """bf16 values and a scale for each: corners, ends of the range, random ones."""
    shape = CHUNKS, PARAMS.lanes
    values, scales = near_the_ends(rng, shape[0] * shape[1])
    edges = rng.random(len(values)) < 0.3
    values[edges] = rng.choice(corners(BF16), edges.sum())
    if power_of_two:
        scales = rng.integers(0, 256, len(values), np.uint16)
        scales[~edges] = rng.choice([0, 1, 2, 126, 127, 128, 253, 254, 255], (~edges).sum())
    else:
        both = rng.random(len(values)) < 0.3
        scales[both] = rng.choice(corners(BF16), both.sum())
    return values.reshape(shape), scales.reshape(shape)


def taken_apart(power_of_two: bool, pattern: int) -> dict[str, int]:
    """The fields of ``SCALE``."""
    if power_of_two:
        empty = dict.fromkeys(("fraction", "sign", "zero", "infinite"), 0)
        return {**empty, "biased": pattern, "nan": pattern == E8M0.nan_bits}
    fraction, field = pattern & 0x7F, pattern >> BF16.mantissa_bits & 0xFF
    return {
        "fraction": fraction,
        "biased": field,
        "sign": pattern >> 15,
        "zero": field == 0,  # also of a subnormal
        "infinite": field == 0xFF and fraction == 0,
        "nan": field == 0xFF and fraction != 0,
    }


def test_products_and_kept_values_are_goldens():
    """Chunks of both kinds of scales follow each other."""
    rng = np.random.default_rng(3)
    powers = rng.random(CHUNKS) < 0.5
    drawn = {kind: chunks(rng, kind) for kind in (True, False)}
    products = {
        kind: multiply(BF16, E8M0 if kind else BF16, BF16, *drawn[kind], AMX_RULES)
        for kind in drawn
    }
    there, keep = rng.random(CHUNKS) < 0.8, rng.random(CHUNKS) < 0.3
    scaler = Scaler(PARAMS)

    async def bench(ctx):
        expected = []
        for chunk in range(CHUNKS):
            kind = bool(powers[chunk])
            values, scales = (x[chunk].tolist() for x in drawn[kind])
            ctx.set(scaler.valid, bool(there[chunk]))
            ctx.set(scaler.keep, bool(keep[chunk]))
            ctx.set(scaler.powers, kind)
            for lane in range(PARAMS.lanes):
                ctx.set(scaler.i[lane], values[lane])
                ctx.set(scaler.scale[lane], taken_apart(kind, scales[lane]))
            await ctx.tick()
            expected.append(values if keep[chunk] else products[kind][chunk].tolist())
            before = chunk + 1 - Scaler.latency
            if before >= 0 and there[before]:
                got = [ctx.get(scaler.o[lane]) for lane in range(PARAMS.lanes)]
                assert got == expected[before], f"chunk {before}"

    run(scaler, bench)
