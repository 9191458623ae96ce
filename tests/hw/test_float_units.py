"""Float units: any formats together, any latency, every lane, and nothing built in vain."""

from dataclasses import replace

import numpy as np
import pytest
from amaranth import Const, Elaboratable, Module, Signal
from amaranth.back import rtlil

from tests.support.drive import simulate
from tests.support.gates import Gates, evaluate, from_planes, gates_of, to_planes
from tests.support.mutate import mutant_of, planted
from tests.support.oracles import ALL_RULES, UNNAMED_FORMATS
from tilewright.golden.params.arith import FloatAddParams, FloatMulParams
from tilewright.golden.params.formats import FLOAT_FORMATS
from tilewright.golden.params.resolve import resolve
from tilewright.hw.arith.carry_save import carry_save_product
from tilewright.synth.flow import synthesise
from tilewright.synth.technology import load_technology
from tilewright.verify import bench_of


def mixed(seed):
    """An adder and a multiplier of random formats under random rules."""
    rng = np.random.default_rng(seed)
    formats = [*FLOAT_FORMATS.values(), *UNNAMED_FORMATS]
    a, b, out = (formats[k] for k in rng.integers(0, len(formats), 3))
    rules = vars(ALL_RULES[rng.integers(len(ALL_RULES))])
    return [FloatAddParams(a=a, b=b, out=out, **rules), FloatMulParams(a=a, b=b, out=out, **rules)]


def require_bench(params, cases, gates=None):
    bench = bench_of(params)
    stimulus = bench.stimulus(params, np.random.default_rng(1), cases)
    (want,) = bench.expected(params, stimulus)["o"].values()
    (got,) = evaluate(params, stimulus["i"], gates).values()
    assert (got == want).all(), params.slug


SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 40))]


@pytest.mark.parametrize("seed", SEEDS)
def test_mixed_formats(seed):
    for params in mixed(seed):
        require_bench(params, 20_000)


@pytest.mark.parametrize(
    "block", ["float_mul:fp32", "float_add:fp32", "float_add:amx", "float_mul:amx"]
)
def test_wide_formats_on_many_operands(block):
    require_bench(resolve(block), 200_000)


@pytest.mark.parametrize(
    "latency", [0, 1, *(pytest.param(n, marks=pytest.mark.full) for n in range(2, 6)), 6]
)
@pytest.mark.parametrize("block", ["float_mul:amx", "float_add:amx"])
def test_latency_changes_no_result(block, latency):
    params = replace(resolve(block), latency=latency)
    assert params.timing.latency == latency
    simulate(params, cases=30)


@pytest.mark.parametrize(
    "block", ["float_mul,lanes=3", "float_convert,lanes=3", "float_add,lanes=2"]
)
def test_lanes_are_independent(block):
    simulate(resolve(f"{block},latency=2"), cases=60, stalls=(0.3,))


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("float_mul:amx", "float_mul:bf16"),
        ("float_mul,operand_subnormals=flush", "float_mul:bf16"),
        ("float_mul,rounding=toward_zero", "float_mul:bf16"),
        ("float_mul:amx,rounding=toward_zero", "float_mul:amx"),
        ("float_round,rounding=toward_zero", "float_round"),
        ("float_round,result_subnormals=flush", "float_round"),
        ("float_mul,a=e2m1,b=e2m1,out=bf16", "float_mul,a=e2m1,b=e2m1,out=e2m1"),
        ("float_convert:bf16_to_fp32", "float_convert"),
        ("int_to_float:int8_to_bf16", "int_to_float,bits=9,out=bf16"),
    ],
)
def test_what_cannot_happen_is_not_built(smaller, larger):
    assert len(gates_of(resolve(smaller))) < len(gates_of(resolve(larger)))


@pytest.mark.parametrize("block", ["float_mul", "float_add"])
def test_latency_cuts_the_longest_path(block):
    depths = [gates_of(resolve(f"{block},latency={latency}")).depth for latency in (0, 2, 6)]
    assert depths[1] < 0.7 * depths[0]
    assert depths[2] <= 0.55 * depths[0]


# Widths one bit smaller and special cases left out: each must be missed.
NEEDED = {
    "adder, guard bits": (resolve("float_add:e5m2"), "GUARD_BITS = 2", "GUARD_BITS = 1"),
    "adder, tail": (resolve("float_add:e5m2"), "x.subtract & ~x.sticky", "x.subtract"),
    "adder, zero": (resolve("float_add:e5m2"), "(a_size == b_size) |", "Const(0) |"),
}


@pytest.mark.parametrize(("params", "old", "new"), planted(NEEDED))
def test_no_spare_bits(params, old, new):
    changed = Gates(rtlil.convert(mutant_of(params, old, new), name="top", emit_src=False), "top")
    with pytest.raises(AssertionError):
        require_bench(params, 200_000, changed)


class Product(Elaboratable):
    """``y = multiply(m, a, b)``, combinational."""

    def __init__(self, a_bits, b_bits, y_bits, multiply):
        self.a = Signal(a_bits)
        self.b = Signal(b_bits)
        self.y = Signal(y_bits)
        self.multiply = multiply

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.y.eq(self.multiply(m, self.a, self.b))
        return m

    def rtlil(self):
        return rtlil.convert(self, name="top", ports=[self.a, self.b, self.y], emit_src=False)


def tree_product(*tops):
    """Both rows of the carry-save tree, added; ``tops`` are bits above either factor."""

    def multiply(m, a, b):
        row, other_row = carry_save_product(m, [*a, *tops], [*b, *tops])
        return row + other_row

    return multiply


@pytest.mark.parametrize("tops", [0, 1])
@pytest.mark.parametrize(("a_bits", "b_bits"), [(1, 1), (1, 7), (2, 2), (3, 3), (8, 8), (11, 5)])
def test_every_product(a_bits, b_bits, tops):
    multiply = tree_product(*[Const(1)] * tops)
    dut = Product(a_bits, b_bits, a_bits + b_bits + 2 * tops, multiply)
    a, b = (g.ravel() for g in np.meshgrid(range(1 << a_bits), range(1 << b_bits)))
    inputs = {"a": to_planes(a, a_bits), "b": to_planes(b, b_bits)}
    got = from_planes(Gates(dut.rtlil(), "top").run(inputs)["y"], len(a))
    assert (got == (a | tops << a_bits) * (b | tops << b_bits)).all()


def test_tree_is_smaller_and_faster_than_the_multiplication_operator():
    tree, operator = (
        synthesise(Product(8, 8, 16, multiply).rtlil(), "top", load_technology("asap7"))
        for multiply in (tree_product(), lambda m, a, b: a * b)
    )
    assert tree.delay < operator.delay
    areas = [sum(i.cell.area for i in x.netlist.instances) for x in (tree, operator)]
    assert areas[0] < areas[1]
