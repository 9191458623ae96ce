"""Float units over whole operand spaces: every pattern, every rule, as gates."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.support.gates import evaluate
from tests.support.oracles import ALL_RULES, UNNAMED_FORMATS, rules_id
from tilewright.golden.params.arith import (
    AMX_RULES,
    IEEE_RULES,
    FloatAddParams,
    FloatConvertParams,
    FloatMulParams,
    FloatRoundParams,
    FloatUnpackParams,
    IntToFloatParams,
)
from tilewright.golden.params.formats import (
    BF16,
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    FLOAT_FORMATS,
    FP16,
    Subnormals,
)
from tilewright.golden.vectors import corners
from tilewright.verify import bench_of

NARROW_FORMATS = [f for f in FLOAT_FORMATS.values() if f.bits <= 16]
every_rule = pytest.mark.parametrize("rules", ALL_RULES, ids=rules_id)


def one_in_four(rules):
    """A quarter of all rules, in which every pair of choices occurs."""
    flags = (rules.rounding, rules.overflow, rules.operand_subnormals, rules.result_subnormals)
    first = [list(type(flag)).index(flag) for flag in flags]
    return (first[0] ^ first[1] ^ first[2], first[0] ^ first[3]) == (0, 0)


def with_rest_in_long_runs(rules):
    return () if one_in_four(rules) else pytest.mark.full


some_rules = pytest.mark.parametrize(
    "rules", [pytest.param(r, id=rules_id(r), marks=with_rest_in_long_runs(r)) for r in ALL_RULES]
)


def require_golden(params, **columns):
    """Every case, bit for bit."""
    assert len({len(column) for column in columns.values()}) == 1
    shaped = {
        field.name: columns[field.name].reshape(-1, 1) if field.count else columns[field.name]
        for field in params.inputs[0].fields
    }
    want = bench_of(params).expected(params, {"i": shaped})["o"]
    got = evaluate(params, shaped)
    for name in want:
        wrong = np.flatnonzero(
            want[name].ravel().astype(np.int64) != got[name].ravel().astype(np.int64)
        )
        if wrong.size:
            case = {field: hex(column[wrong[0]]) for field, column in columns.items()}
            pair = (int(x.ravel()[wrong[0]]) for x in (got[name], want[name]))
            got_bits, want_bits = (f"{x:#x}" for x in pair)
            pytest.fail(f"{wrong.size} wrong; {case}: {name} is {got_bits}, not {want_bits}")


def with_rules(params, rules):
    return replace(params, **vars(rules))


def every(*fmts):
    """All combinations of patterns, one flat array per format."""
    grids = np.meshgrid(*(np.arange(1 << fmt.bits) for fmt in fmts))
    return [grid.ravel() for grid in grids]


@some_rules
@pytest.mark.parametrize("cls", [FloatMulParams, FloatAddParams], ids=["mul", "add"])
def test_all_pairs_of_e4m3(cls, rules):
    a, b = every(E4M3, E4M3)
    require_golden(with_rules(cls(a=E4M3, b=E4M3, out=E4M3), rules), a=a, b=b)


MIXED_PAIRS = [
    (E5M2, E5M2, E5M2),
    (E5M2, E4M3, E4M3),
    (E4M3, E5M2, FP16),
    (E3M2, E2M3, E5M2),
    (E2M3, E5M2, E2M1),
    (E2M1, E2M1, E2M1),
    (E2M1, E4M3, E3M2),
    *((fmt, fmt, fmt) for fmt in UNNAMED_FORMATS),
]


@pytest.mark.full
@every_rule
@pytest.mark.parametrize("fmts", MIXED_PAIRS, ids=lambda fmts: "-".join(map(str, fmts)))
@pytest.mark.parametrize("cls", [FloatMulParams, FloatAddParams], ids=["mul", "add"])
def test_all_pairs_of_mixed_formats(cls, fmts, rules):
    a, b = every(*fmts[:2])
    require_golden(with_rules(cls(a=fmts[0], b=fmts[1], out=fmts[2]), rules), a=a, b=b)


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(
            rules,
            id=rules_id(rules),
            marks=() if rules in (IEEE_RULES, AMX_RULES) else pytest.mark.full,
        )
        for rules in ALL_RULES
    ],
)
@pytest.mark.parametrize("cls", [FloatMulParams, FloatAddParams], ids=["mul", "add"])
def test_all_bf16_patterns_with_all_corners(cls, rules):
    edge = corners(BF16).astype(np.int64)
    patterns = np.arange(1 << BF16.bits)
    params = with_rules(cls(), rules)
    require_golden(params, a=np.tile(patterns, len(edge)), b=np.repeat(edge, len(patterns)))


CONVERSIONS = [
    (source, result, ALL_RULES[k * 7 % len(ALL_RULES)])  # 7 is odd: the rules take turns
    for k, (source, result) in enumerate(product(NARROW_FORMATS, FLOAT_FORMATS.values()))
]


@pytest.mark.parametrize(
    ("source", "result", "rules"), CONVERSIONS, ids=lambda x: str(x) if hasattr(x, "name") else ""
)
def test_all_patterns_converted(source, result, rules):
    params = with_rules(FloatConvertParams(a=source, out=result), rules)
    require_golden(params, a=np.arange(1 << source.bits))


@pytest.mark.full
@every_rule
@pytest.mark.parametrize("source", [FP16, E5M2], ids=str)
@pytest.mark.parametrize("result", [BF16, E5M2, E4M3, E2M1], ids=str)
def test_all_patterns_converted_by_every_rule(source, result, rules):
    params = with_rules(FloatConvertParams(a=source, out=result), rules)
    require_golden(params, a=np.arange(1 << source.bits))


@pytest.mark.parametrize("subnormals", Subnormals, ids=lambda s: s.value)
@pytest.mark.parametrize("fmt", NARROW_FORMATS, ids=str)
def test_all_patterns_unpacked(fmt, subnormals):
    params = FloatUnpackParams(format=fmt, operand_subnormals=subnormals)
    require_golden(params, x=np.arange(1 << fmt.bits))


@pytest.mark.parametrize("bits", [16, *(pytest.param(b, marks=pytest.mark.full) for b in (2, 11))])
@pytest.mark.parametrize("out", FLOAT_FORMATS.values(), ids=str)
def test_all_integers(out, bits):
    rules = ALL_RULES[(out.bits + bits) % len(ALL_RULES)]
    params = with_rules(IntToFloatParams(bits=bits, out=out), rules)
    require_golden(params, a=np.arange(-(1 << (bits - 1)), 1 << (bits - 1)))


@pytest.mark.parametrize("width", [6, *(pytest.param(w, marks=pytest.mark.full) for w in (1, 2))])
@pytest.mark.parametrize("fmt", [E4M3, E3M2, E2M1], ids=str)
@pytest.mark.parametrize(
    "rules", [r for r in ALL_RULES if r.operand_subnormals is Subnormals.KEEP], ids=rules_id
)
def test_all_values_rounded(fmt, width, rules):
    params = FloatRoundParams(
        format=fmt,
        significand_bits=width,
        exponent_bits=6,
        rounding=rules.rounding,
        overflow=rules.overflow,
        result_subnormals=rules.result_subnormals,
    )
    names = ("significand", "exponent", "sign", "sticky", "infinite", "nan")
    ranges = (range(1 << width), range(-32, 32), *[range(2)] * 4)
    columns = dict(zip(names, (g.ravel() for g in np.meshgrid(*ranges)), strict=True))
    possible = (columns["significand"] != 0) | (columns["sticky"] == 0)
    require_golden(params, **{name: column[possible] for name, column in columns.items()})
