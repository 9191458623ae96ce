"""The golden cycle model of core, DECA and memory is the RTL, on every event of every tile."""

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from tilewright.golden.deca import SCHEMES
from tilewright.golden.deca.core import CoreParams
from tilewright.golden.deca.memory import MemoryParams
from tilewright.golden.params.resolve import resolve
from tilewright.studies.runs.deca_rates import PLAIN, measure_streams, rate_cases
from tilewright.verify.deca.workload import StreamCase

SHARES = (None, Fraction(850, 140), Fraction(260, 140))  # HBM and DDR over 56 cores at 2.5 GHz


def random_cases(block: str, seed: int, count: int, tiles: int) -> list[StreamCase]:
    """Any scheme, density, place, memory and core."""
    rng, params, cases = Random(seed), resolve(block), []
    while len(cases) < count:
        case = StreamCase(
            scheme=rng.choice(list(SCHEMES)),
            density=rng.choice([None, -1, 0.05, 0.2, 0.5]),
            tiles=tiles,
            seed=rng.randrange(1000),
            degree=rng.randrange(16),
            alignment=rng.choice([1, 1, 8, 64]),
            memory=MemoryParams(
                latency=rng.choice([0, rng.randrange(10, 400)]),
                bytes_per_cycle=rng.choice([*SHARES, Fraction(rng.randrange(15, 640), 10)]),
                prefetch_lines=rng.choice([16, 48, 96]),
                l2_prefetch=rng.random() < 0.2,
            ),
            core=CoreParams(
                matrix_cycles=rng.choice([4, 16, 64]),
                store_way=rng.randint(1, 3),
                load_way=rng.choice([1, 3, 14]),
                result_delay=rng.choice([0, 14]),
            ),
        )
        if params.supports(case.config):
            cases.append(case)
    return cases


EACH = "port_commands=1,prefetchers=2,sqq_lines=2"  # loaders as published, and the least SQQ


@pytest.mark.parametrize(
    "block",
    ["deca", "deca_tepl:small"],  # builds of test_deca.py
)
def test_the_model_is_the_rtl(block):
    for run in measure_streams(block, random_cases(block, 1, 6, 30)):
        assert run.equal, run.case


@pytest.mark.full
@pytest.mark.parametrize(
    "block",
    [
        f"{block}{size}"
        for block in ("deca", "deca_tepl")
        for size in ("", ":small", ":large", ":as_published", f":small,{EACH}")
    ],
)
def test_the_model_is_the_rtl_on_many_streams(block):
    for run in measure_streams(block, random_cases(block, 2, 40, 100)):
        assert run.equal, run.case


@pytest.mark.full
@pytest.mark.parametrize("scheme", PLAIN)
def test_the_model_is_the_rtl_on_ten_thousand_tiles(scheme):
    """With every line in the L2, and with this core's share of HBM."""
    cases = rate_cases()
    for name in (f"l2 {scheme}", f"hbm {scheme}"):
        block, _, case = cases[name]
        (run,) = measure_streams(block, [replace(case, tiles=10_000)])
        assert run.equal, name
