"""Processing elements on whole groups, extremes, and what their numerics turn on."""

import gc
import warnings
from functools import lru_cache

import numpy as np
import pytest
from amaranth import Module, Signal
from amaranth.hdl import UnusedElaboratable

from tests.support.benches import run_changed_block, run_passing, unit_verilog
from tests.support.drive import Prepared, drive, simulate
from tests.support.mutate import mutant_of, plant
from tilewright.golden.arith import convert
from tilewright.golden.bits import encode
from tilewright.golden.params.arith import IntToFloatParams
from tilewright.golden.params.formats import BF16, FP16, FP32
from tilewright.golden.params.pe import (
    PE_BLOCKS,
    AlignedParams,
    DecaLaneParams,
    FignaChunkParams,
    FpFpParams,
    IfpuParams,
    PEParams,
    SumForm,
)
from tilewright.golden.params.resolve import resolve
from tilewright.golden.payload import pack, unpack
from tilewright.golden.pe import align, fp_fp_dot
from tilewright.hw.arith.int_to_float import IntToFloat
from tilewright.hw.catalog import build
from tilewright.hw.pe.common import combinational
from tilewright.verify import bench_of

ELEMENTS = ["pe_fp_fp", "pe_fp_fp:discrete", "pe_fp_int", "pe_fp_int:float", "pe_ifpu", "pe_figna"]
ELEMENTS += ["pe_figna_c", "pe_deca"]
ONE, INFINITY, NAN, MINUS = 0x3C00, 0x7C00, 0x7E00, 0x8000  # fp16


def columns_of(params, activation, weight, scale, ends):
    """Beats of dot products: activations, weights (dots, beats, lanes), ends (dots, beats)."""
    dots, beats = ends.shape
    exponent = np.ones((dots, beats), int)
    if isinstance(params, DecaLaneParams):
        activation, scale = (convert(FP16, BF16, x).astype(int) for x in (activation, scale))
    if isinstance(params, FignaChunkParams):
        activation, own = align(params.mantissa_bits, activation)
        exponent = 20 | (np.maximum(20 - own, 0) << 5)  # every group's is 2^5, well above them
    elif isinstance(params, AlignedParams):
        words = np.zeros(activation.shape, int)
        for d in range(dots):
            start = 0
            for stop in np.flatnonzero(ends[d]) + 1:
                group = activation[d, start:stop].reshape(-1)
                aligned, shared = align(params.mantissa_bits, group)
                words[d, start:stop] = aligned.reshape(-1, params.lanes)
                exponent[d, stop - 1] = shared
                start = stop
        activation = words
    if isinstance(params, IfpuParams):
        bits = params.weight_bits
        shape = (dots, beats // bits, 1, params.beat_elements)
        activation = np.repeat(activation.reshape(shape), bits, axis=2)
        weight = (weight.reshape(shape) >> np.arange(bits - 1, -1, -1)[:, np.newaxis]) & 1
        activation, weight = (x.reshape(dots, beats, -1) for x in (activation, weight))
    last = np.zeros((dots, beats), int)
    last[:, -1] = 1
    return {
        "activation": activation,
        "weight": weight,
        "exponent": exponent,
        "scale": scale,
        "group_end": ends,
        "last": last,
    }


def expected(params, columns):
    return bench_of(params).dot(params, columns)


@lru_cache(maxsize=2)
def unit(params):
    """Elaborated once for all runs of a test, which take less time than that."""
    return Prepared(build(params))


def run(params, columns, *, dut=None, stall=0.0):
    """Results of the RTL, and the cycles in which it took its beats."""
    (i,), (o,) = params.inputs, params.outputs
    flat = {n: v.reshape(-1, *v.shape[2:]) for n, v in columns.items()}
    dut = unit(params) if dut is None else dut
    driver, monitor = drive(params, {"i": pack(i, flat)}, stall=stall, dut=dut)
    return unpack(o, monitor.words)["y"], [cycle - 1 for cycle in driver.taken]  # 0: the first


def workload(params, dots=3, groups=2, seed=0):
    """Heavy-tailed activations and 2-bit weights, which every preset takes, in whole groups."""
    rng = np.random.default_rng(seed)
    beats = groups * params.group_cycles
    shape = (dots, beats, params.lanes)
    activation = encode(FP16, rng.standard_t(3, shape)).astype(int)
    if isinstance(params, FpFpParams):
        weight = encode(FP16, rng.integers(-8, 8, shape) * 0.01).astype(int)
    else:
        weight = rng.integers(-2, 2, shape)
    ends = np.zeros((dots, beats), int)
    ends[:, params.group_cycles - 1 :: params.group_cycles] = 1
    scale = encode(FP16, rng.uniform(0.001, 0.1, (dots, beats))).astype(int)
    return columns_of(params, activation, weight, scale, ends)


LADDERS = {"pe_fp_fp": range(1, 5)} | dict.fromkeys(
    ("pe_fp_int", "pe_ifpu", "pe_figna", "pe_figna_c"), range(2, 7)
)


@pytest.mark.full  # small elements below and, as Verilog, tests/verify/test_blocks.py in every run
@pytest.mark.parametrize("spec", ELEMENTS)
def test_whole_groups_one_beat_a_cycle(spec):
    params = resolve(spec)
    columns = workload(params, dots=2)
    got, taken = run(params, columns)
    assert np.array_equal(got, expected(params, columns))
    assert taken == list(range(len(taken)))


# In every run the fewest stages of each ladder, and each arrangement of some elements, which share
# it; all in the long tests.
POINTS = [
    *(f"{b}:small,stages={known[0]}" for b, known in LADDERS.items()),
    *("pe_fp_fp:small,registered=true", "pe_figna_c:small,registered=true"),
    *("pe_fp_fp:small,adder=carry_save", "pe_figna:small,adder=carry_save"),
    *("pe_fp_int:small,bounded=true,stages=3", "pe_ifpu:small,bounded=true,stages=3"),
    *("pe_fp_fp:small,isolated=true", "pe_fp_int:small,isolated=true,stages=3"),
    *(f"pe_figna{b}:small,merged=true" for b in ("", "_c")),
]
FURTHER_POINTS = [
    *(f"{b}:small,registered=true" for b in LADDERS if b not in ("pe_fp_fp", "pe_figna_c")),
    *(f"{b}:small,adder=carry_save" for b in LADDERS if b not in ("pe_fp_fp", "pe_figna")),
    *(f"{b}:small,bounded=true,stages=3" for b in ("pe_figna", "pe_figna_c")),
    *(f"{b}:small,stages={n}" for b, known in LADDERS.items() for n in known[1:]),
    *(f"{b}:small,adder=chain" for b in LADDERS),
    "pe_figna,bounded=true,stages=2,adder=carry_save,registered=true",
]


@pytest.mark.parametrize(
    "spec", [*POINTS, *(pytest.param(spec, marks=pytest.mark.full) for spec in FURTHER_POINTS)]
)
def test_points_of_a_frontier_differ_in_cycles_alone(spec):
    """A beat a cycle, the same bits with stalls and without, a result after ``stages`` cycles."""
    params = resolve(spec)
    columns = workload(params, dots=2)
    got, taken = run(params, columns)
    assert np.array_equal(got, expected(params, columns))
    assert taken == list(range(len(taken)))
    assert np.array_equal(run(params, columns, stall=0.4)[0], got)
    assert params.timing.latency == params.stages + params.registered
    simulate(params, dut=unit(params), cases=12, stalls=())


@pytest.mark.parametrize("block", LADDERS)
def test_a_point_that_is_none_is_refused(block):
    known = LADDERS[block]
    for stages in (known.start - 1, known.stop):
        with pytest.raises(ValueError, match=f"^stages must be {known.start}"):
            resolve(f"{block},stages={stages}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("pe_fp_fp:discrete,stages=2", "stages and adder are of the fused form"),
        ("anda_apu:bare,weight_buffers=1", "weight_buffers needs buffered"),
        (
            "harmonia_pe:paced,bounded=true",
            "stages, bounded, merged and isolated are of elements with a beat_cycles of 1",
        ),
        ("pe_fp_int:float,bounded=true", "stages, adder and bounded are of exact group sums"),
    ],
)
def test_forms_with_one_arrangement_refuse_others(spec, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        resolve(spec)


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize(
    "spec",
    ["pe_figna", "pe_figna:m8,merged=true", "pe_ifpu", "pe_figna,partial=fp32", "pe_figna_c"],
)
def test_the_largest_group_sum_fits(spec, sign):
    """All mantissas full, all weights -8: nothing may wrap."""
    params = resolve(spec)
    shape = (1, params.group_cycles, params.lanes)
    word = ((1 << params.mantissa_bits) - 1) | (sign << params.mantissa_bits)
    ends = np.zeros(shape[:2], int)
    ends[:, -1] = 1
    columns = {
        "activation": np.full((*shape[:2], params.beat_elements), word),
        "weight": np.full(shape, -8),
        "exponent": np.full(shape[:2], 15),
        "scale": np.full(shape[:2], 0x3C00),
        "group_end": ends,
        "last": ends,
    }
    if isinstance(params, IfpuParams):  # -8 is its top bit alone
        top = np.arange(shape[1]) % params.weight_bits == 0
        columns["weight"] = np.repeat(top[:, np.newaxis], params.beat_elements, axis=1)[np.newaxis]
    got, _ = run(params, columns)
    want = -8.0 * 64 * (1 - 2.0**-params.mantissa_bits) * 2 * (-1) ** sign
    assert got[0] == encode(FP16, np.array([np.float32(want)]))[0] == expected(params, columns)[0]


@pytest.mark.parametrize("spec", ["pe_fp_fp", "pe_fp_int:float"])
def test_zero_products_do_not_raise_the_exponent(spec):
    """Beside a zero that has a large partner a small product keeps its bits."""
    params = resolve(spec)
    if spec == "pe_fp_fp":
        activation, weight = [0, 0x1000, 0x8000, 0], [0x7BFF, 0x0C00, 0x7BFF, 0x3C00]
        line = "Mux(zero, 0, field)"
    else:
        activation, weight = [0x7BFF, 0x0123, 0x0456, 0xFBFF], [0, 3, -1, 0]
        line = "Mux(a.zero | no_weight, 0, field)"
    ends, scale = np.ones((1, 1), int), np.full((1, 1), 0x7000)
    beat = [np.array([[x]]) for x in (activation, weight)]
    columns = columns_of(params, *beat, scale, ends)
    want = expected(params, columns)
    assert want[0] & 0x7FFF
    assert run(params, columns)[0] == want
    assert run(params, columns, dut=mutant_of(params, line, "field"))[0] != want


# By what is special: activations, weights, the result.
SPECIALS = {
    "infinity": ([INFINITY, ONE, ONE, ONE], [1, 2, -1, 0], INFINITY),
    "times minus one": ([ONE, INFINITY, ONE, ONE], [1, -1, 2, 0], INFINITY | MINUS),
    "two signs": ([ONE, ONE, INFINITY | MINUS, ONE], [1, -1, -2, 0], INFINITY),
    "infinity times 0": ([ONE, ONE, ONE, INFINITY], [1, 2, -1, 0], NAN),
    "infinity times 0 alone": ([0, 0, INFINITY | MINUS, 0], [0, 0, 0, 0], NAN),
    "infinities that differ": ([INFINITY, ONE, INFINITY, ONE], [1, 2, -1, 0], NAN),
    "infinities that agree": ([INFINITY, ONE, INFINITY, ONE], [1, 2, 2, 0], INFINITY),
    "NaN times 0": ([ONE, NAN, ONE, ONE], [1, 0, 2, -1], NAN),
}


@pytest.mark.parametrize("spec", ["pe_fp_fp", "pe_fp_fp:discrete", "pe_fp_int", "pe_fp_int:float"])
def test_special_values_alone_in_their_sums(spec):
    """Beside others, which random operands have, one may hide another."""
    params = resolve(spec)
    activation, weight, want = map(np.array, zip(*SPECIALS.values(), strict=True))
    if isinstance(params, FpFpParams):
        weight = encode(FP16, weight.astype(float)).astype(int)
    ends = np.ones((len(want), 1), int)
    columns = columns_of(params, activation[:, None], weight[:, None], ONE * ends, ends)
    assert np.array_equal(expected(params, columns), want)
    assert dict(zip(SPECIALS, run(params, columns)[0], strict=True)) == dict(
        zip(SPECIALS, want, strict=True)
    )


@pytest.mark.parametrize(
    "spec",
    [
        *("pe_fp_fp:small", "pe_fp_int:small", "pe_ifpu:small", "pe_figna:small"),
        *("pe_figna_c:small", "pe_deca:small"),
    ],
)
def test_one_group_does_not_leak_into_the_next(spec):
    """A result is the same after anything that went before."""
    params = resolve(spec)
    first = workload(params, dots=1, groups=1, seed=5)
    both = {n: np.concatenate([workload(params, 1, 1, 6)[n], first[n]]) for n in first}
    assert run(params, both, stall=0.3)[0][1] == run(params, first)[0][0]


@pytest.mark.parametrize("spec", ["figna_aligner", "figna_aligner:small"])
def test_aligner_takes_groups_of_any_length(spec):
    params = resolve(spec)
    rng = np.random.default_rng(4)
    lengths = [1, params.beats, 2, 1, 1, params.beats, params.beats, 3]
    patterns = rng.integers(0, 1 << 16, (sum(lengths), params.lanes))
    ends = np.zeros(sum(lengths), int)
    ends[np.cumsum(lengths) - 1] = 1
    words, exponents, start = np.zeros(patterns.shape, int), np.zeros(len(ends), int), 0
    for length in lengths:
        group = slice(start, start + length)
        aligned, shared = align(params.mantissa_bits, patterns[group].reshape(-1))
        words[group], exponents[group] = aligned.reshape(-1, params.lanes), shared
        start += length
    (i,), (o,) = params.inputs, params.outputs
    sent = pack(i, {"activation": patterns, "group_end": ends})
    for stall in (0.0, 0.5):
        _, monitor = drive(params, {"i": sent}, stall=stall)
        got = unpack(o, monitor.words)
        assert np.array_equal(got["activation"], words)
        assert np.array_equal(got["exponent"], exponents)
        assert np.array_equal(got["group_end"], ends)


def test_all_elements_have_one_signature():
    """Names and order of the fields; widths are each element's own."""
    elements = [cls() for cls in PE_BLOCKS if issubclass(cls, PEParams)]
    signatures = {tuple(f.name for f in p.inputs[0].fields) for p in elements}
    assert len(signatures) == 1
    assert {p.outputs for p in elements} == {elements[0].outputs}
    assert {p.group_cycles for p in elements} == {16}


def test_partial_in_fp32_is_more_exact():
    """The option exists because it matters: a long sum that fp16 rounds in every group."""
    narrow, wide = (resolve(f"pe_figna,partial={f}") for f in (FP16, FP32))
    columns = workload(narrow, dots=200, groups=2, seed=9)
    assert not np.array_equal(expected(narrow, columns), expected(wide, columns))


def test_the_largest_exact_sum_of_floats_fits():
    """All activations the largest fp16 has, all weights -8: nothing may wrap."""
    params = resolve("pe_fp_int,partial=fp32")
    shape = (2, params.group_cycles, params.lanes)
    activation = np.broadcast_to(np.array([0x7BFF, 0xFBFF]).reshape(2, 1, 1), shape)
    ends = np.zeros(shape[:2], int)
    ends[:, -1] = 1
    scale = np.full(shape[:2], encode(FP16, np.array([2.0**-12]))[0])
    columns = columns_of(params, activation, np.full(shape, -8), scale, ends)
    want = encode(FP16, np.array([-1.0, 1.0]) * 65504 * 8 * 64 * 2.0**-12)
    assert np.array_equal(run(params, columns)[0], want)
    assert np.array_equal(expected(params, columns), want)


def test_forms_of_the_sum_differ():
    fused, discrete = FpFpParams(), FpFpParams(form=SumForm.DISCRETE)
    beat = np.array([[[0x7BFF, 0x3C00, 0xFBFF, 0x3C00]]])
    weight = np.array([[[0x7BFF, 0x3C00, 0x7BFF, 0x3C00]]])
    assert fp_fp_dot(fused, beat, weight) == 0  # cut off next to the products that cancel
    assert fp_fp_dot(discrete, beat, weight) == 0  # rounded off before they cancel
    beat = beat[:, :, [0, 2, 1, 3]]
    weight = weight[:, :, [0, 2, 1, 3]]
    assert fp_fp_dot(fused, beat, weight) == 0
    assert fp_fp_dot(discrete, beat, weight) == 0x4000


def test_an_operand_that_a_unit_does_not_have_is_named():
    message = r"^block int_to_float, port i has no field 'x'; fields: a$"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)  # of what the error leaves behind
        with pytest.raises(ValueError, match=message):
            combinational(Module(), "unit", IntToFloat(IntToFloatParams()), x=Signal(8))
        gc.collect()


ARRAYS = (
    [f"pe_array:{preset}" for preset in ("small", "tall", "serial")]
    + [
        f"pe_array,rows=2,columns=2,pe={pe}"
        for pe in ("pe_fp_fp:small", "pe_fp_fp:discrete", "pe_figna_c:small", "pe_deca:small")
    ]
    + ["pe_array:small,pe=pe_figna:small,pe.stages=2"]
)


@pytest.mark.parametrize("spec", ARRAYS)
def test_array_gives_the_dot_products_of_its_elements(spec):
    """Every bit and cycle, also where tiles are complete before the last one has left.

    As Verilog: Amaranth's simulator takes twice as long for arrays.
    """
    run_passing(spec, "icarus", verilog=unit_verilog(spec), cases=14, stalls=(0.0, 0.4))


@pytest.mark.parametrize(
    ("spec", "old", "new"),
    [
        ("pe_array:small", "(row, row, column, column)", "(row, 0, column, column)"),
        ("pe_array:small", "taken & given.group_end", "taken & ~given.group_end"),
        ("pe_array:serial", "arriving == 0", "arriving == 1"),
        ("pe_array:tall", "element.o.ready.eq(output.room)", "element.o.ready.eq(1)"),
    ],
)
def test_errors_of_an_array_are_found(spec, old, new, monkeypatch):
    plant(monkeypatch, "pe.array:PeArray", old, new)
    assert not run_changed_block(spec, "icarus", cases=14, stalls=(0.0,)).passed
