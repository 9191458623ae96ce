# amaranth: UnusedElaboratable=no
"""The parts that make addresses, at every size: against the rules of the golden side."""

import random

import pytest

from tests.support.clocked import run
from tilewright.golden.harmonia_machine.isa import (
    CACHED,
    Instruction,
    Settings,
    check,
    decode,
    expand,
)
from tilewright.golden.params.harmonia import Mode
from tilewright.golden.params.harmonia_machine import (
    INSTRUCTION_FIELDS,
    Dataflow,
    HarmoniaParams,
    Opcode,
    Operand,
)
from tilewright.golden.params.machine import INDEX_SUFFIX, Error
from tilewright.hw.harmonia_machine.controller import Controller
from tilewright.hw.harmonia_machine.dataflow import SumFeeder
from tilewright.hw.harmonia_machine.tiled_gemm import TiledGemmController

SHORT = ("small", "paper")
PRESETS = [
    pytest.param(name, marks=() if name in SHORT else pytest.mark.full)
    for name in HarmoniaParams.PRESETS
]
IDLE_CYCLES = 40


def random_fields(rng, opcode, **given):
    """Every field of an instruction, random where it is not given."""
    return {f.name: given.get(f.name, rng.getrandbits(f.bits)) for f in INSTRUCTION_FIELDS[opcode]}


def random_product(rng):
    sizes = {name: rng.randint(1, 5) for name in ("groups", "tiles", "token_tiles", "keep")}
    return Instruction(Opcode.TILED_GEMM, random_fields(rng, Opcode.TILED_GEMM, **sizes))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_product_is_what_golden_expands(preset):
    """Also when the one before it was stopped on its way."""
    params, rng = HarmoniaParams.preset(preset), random.Random(preset)
    dut = TiledGemmController(params)

    async def start(ctx, x, dataflow):
        for name, value in x.fields.items():
            ctx.set(dut.product[name], value)
        ctx.set(dut.product.row_major, dataflow)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        for name in x.fields:  # it has taken what it needs
            ctx.set(dut.product[name], 0)

    async def bench(ctx):
        for dataflow in list(Dataflow) * 8:
            await start(ctx, random_product(rng), rng.choice(list(Dataflow)))
            ctx.set(dut.taken, 1)
            await ctx.tick().repeat(rng.randint(1, 9))
            ctx.set(dut.taken, 0)
            ctx.set(dut.stop, 1)
            await ctx.tick()
            ctx.set(dut.stop, 0)
            assert not ctx.get(dut.active)
            x = random_product(rng)
            await start(ctx, x, dataflow)
            for part in expand(params, Settings(dataflow=dataflow), x):
                while rng.random() < 0.3:
                    await ctx.tick()
                assert ctx.get(dut.active)
                word = decode(ctx.get(dut.word))
                assert word == part
                ctx.set(dut.taken, 1)
                await ctx.tick()
                ctx.set(dut.taken, 0)
            assert not ctx.get(dut.active)

    run(dut, bench)


def sums_of(params, dataflow, tokens, x):
    """Mode, first, last, rows of activations, operands and metadata of every sum, in order."""
    p, operand = params, Operand(x["operand"])
    tiles, token_tiles, groups = x["tiles"], x["token_tiles"], x["groups"]
    each = p.row_groups if operand is Operand.SHARED else 1
    pairs = [(t, q) for t in range(0, tiles, each) for q in range(token_tiles)]
    if dataflow is Dataflow.ROW_MAJOR:
        pairs.sort(key=lambda pair: pair[1])
    for tile, token_tile in pairs:
        of_tile = []
        for group in range(groups):
            place = group * tiles + tile if operand is Operand.VALUES else tile * groups + group
            if operand not in CACHED:
                block, within = divmod(tile, p.row_groups)
                place = (block * groups + group) * p.row_groups + within
            mode, rows = Mode.M8W4, [x["operands"] + place]
            if operand in CACHED:
                by_tile = operand is Operand.KEYS
                unit, across, within = (tile, groups, group) if by_tile else (group, tiles, tile)
                mode = Mode.M8M4
                if p.has_low(operand, unit, tokens):
                    mode = Mode.M8M8
                    rows.append(x["low_halves"] + p.low_slot(operand, unit) * across + within)
            source = x["source"] + token_tile * groups + group
            fact = x["metadata"] + place
            of_tile += [(mode.code, each > 1, source, row, fact) for row in rows]
        for k, (mode, shared, *rows) in enumerate(of_tile):
            yield (mode, k == 0, k == len(of_tile) - 1, shared, *rows)


@pytest.mark.parametrize("preset", PRESETS)
def test_sums_come_in_the_order_of_the_dataflow(preset):
    params, rng = HarmoniaParams.preset(preset), random.Random(preset)
    dut = SumFeeder(params)
    window = params.initial + params.local

    async def gemm(ctx, dataflow, operand):
        tokens = rng.randint(0, 2 * window)
        sizes = {name: rng.randint(1, 9) for name in ("groups", "tiles", "token_tiles")}
        rows = {
            name: rng.randint(0, 40) for name in ("source", "operands", "low_halves", "metadata")
        }
        if operand is Operand.SHARED:
            sizes["tiles"] = params.whole_tiles(sizes["tiles"])
            rows["register"] = 0  # no sums stay open
        x = random_fields(rng, Opcode.GEMM, operand=int(operand), **sizes, **rows)
        for name, value in (x | {"tokens": tokens, "row_major": int(dataflow)}).items():
            if not name.endswith(INDEX_SUFFIX):  # added to the addresses before this unit
                ctx.set(dut.gemm[name], value)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        o, source, cycle = dut.sums, None, 0
        for wanted in sums_of(params, dataflow, tokens, x):
            while True:
                cycle += 1
                ctx.set(o.ready, rng.random() < 0.7)
                following = ctx.get(dut.read_row) if ctx.get(dut.read_enable) else source
                taken = ctx.get(o.valid) and ctx.get(o.ready)
                got = (
                    *(ctx.get(o.p[name]) for name in ("mode", "first", "last")),
                    bool(params.row_groups > 1 and ctx.get(o.p.shared)),
                    source,
                    *(ctx.get(o.p.address[name]) for name in ("operands", "facts")),
                )
                await ctx.tick()
                source = following
                if taken:
                    assert got == wanted
                    break
                assert cycle < 100_000
        assert not ctx.get(dut.busy)

    async def bench(ctx):
        for dataflow in Dataflow:
            for operand in params.operands:
                for _ in range(2):
                    await gemm(ctx, dataflow, operand)

    run(dut, bench)


@pytest.mark.parametrize("preset", PRESETS)
def test_instructions_are_checked_as_golden_checks_them(preset):
    """Fields near the ends of the memories, and any others."""
    params, rng = HarmoniaParams.preset(preset), random.Random(preset)
    dut = Controller(params)
    met = set()
    ends = (params.activation_rows, params.halves_rows, params.operand_rows, params.channels)

    def value(field):
        largest = (1 << field.bits) - 1
        near = rng.choice(ends) - rng.randint(-2, 40)
        return min(largest, max(0, rng.choice((near, rng.randint(0, 9), rng.getrandbits(16)))))

    def instruction():
        opcode = rng.choice([o for o in Opcode if o is not Opcode.TILED_GEMM])
        return Instruction(opcode, {f.name: value(f) for f in INSTRUCTION_FIELDS[opcode]})

    async def bench(ctx):
        for _ in range(400):
            x = instruction()
            wanted = check(params, x)
            met.add(wanted)
            ctx.set(dut.start, 1)
            ctx.set(dut.fetched, x.encode())
            await ctx.tick()
            ctx.set(dut.start, 0)
            await ctx.tick().repeat(1 + params.control_cycles)
            # The rest of the program is one that ends.
            ctx.set(dut.fetched, int(Opcode.HALT))
            await ctx.tick()
            assert ctx.get(dut.status.error) == wanted, (wanted.name, x)
            for _ in range(IDLE_CYCLES):
                await ctx.tick()
            assert not ctx.get(dut.status.busy)
            assert ctx.get(dut.status.error) == wanted

    run(dut, bench)
    assert met == {Error.NONE, Error.OPERAND, Error.SIZE, Error.ADDRESS}
