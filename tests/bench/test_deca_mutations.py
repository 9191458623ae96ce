"""A bench that cannot fail proves nothing: errors planted all over the element are found."""

from importlib import import_module

import pytest

from golden.params.resolve import resolve
from synth.emit import to_verilog
from tests.support.mutate import mutant
from tilewright.bench import cocotb_tests
from tilewright.bench.job import Job
from tilewright.simulators import run_bench

BLOCK = "deca:small"

# Component, the module that uses it, its expression, what to put there, the test that must notice.
MUTATIONS = {
    "a step too many for a full window": (
        "hw.deca.window:Window",
        "hw.deca.loader",
        "last.eq(clear[-1] >= most_clear)",
        "last.eq(clear[-1] > most_clear)",
        "cycles_equal_the_model",
    ),
    "a pipeline bubble between tiles": (
        "hw.deca.pe:DecaPE",
        "hw.deca.pe",
        "with m.If(ends | (~locked & ~pipeline.valid)):",
        "with m.If(~locked & ~pipeline.valid):",
        "cycles_equal_the_model",
    ),
    "a length eight codes too long": (
        "hw.deca.loader:Loader",
        "hw.deca.pe",
        "w.final & (after >= 8)",
        "w.final & (after >= 16)",
        "every_error",
    ),
    "an answer to no request": (
        "hw.deca.request_cam:RequestCam",
        "hw.deca.load_unit",
        "matches[k].eq(taken[k] & (self.key == own))",
        "matches[k].eq(self.key == own)",
        "stray_answers_are_noted",
    ),
    "rows that outlive a squash": (
        "hw.deca.pe:DecaPE",
        "hw.deca.pe",
        "tout.clear.eq(kill[k])",
        "tout.clear.eq(0)",
        "squash_at_any_time",
    ),
    "a write under a command that waits": (
        "hw.deca.registers:Registers",
        "hw.deca.pe",
        "free = ~(q.write & waiting)",
        "free = Const(1)",
        "tiles_through_registers",
    ),
    "seven bits looked up as six": (
        "hw.deca.lut_array:LutArray",
        "hw.deca.vector_pipeline",
        "halves[lane % p.lookups(7)]",
        "quarters[lane % p.lookups(7)]",
        "every_configuration",
    ),
    "the scale of the wrong group": (
        "hw.deca.scaler:group_sizes",
        "hw.deca.vector_pipeline",
        "group_log2 == level for level in range(levels)",
        "group_log2 == level + 1 for level in range(levels)",
        "every_configuration",
    ),
    "a line prefetched that was asked for": (
        "hw.deca.prefetcher:Prefetcher",
        "hw.deca.pe",
        "with m.If(fresh | (end > self.next)):",
        "with m.If(fresh):",
        "prefetches_are_goldens",
    ),
}


def run(tests, cases=400):
    params = resolve(BLOCK)
    return run_bench(
        to_verilog(params),
        params.slug,
        cocotb_tests(params),
        job=Job(BLOCK, cases=cases).as_dict(),
        environment={"COCOTB_TEST_FILTER": f"({tests})$"},
    )


@pytest.mark.full
@pytest.mark.parametrize(("place", "user", "old", "new", "test"), MUTATIONS.values(), ids=MUTATIONS)
def test_planted_error_is_found(place, user, old, new, test, monkeypatch):
    module, _, name = place.partition(":")
    changed = mutant(getattr(import_module(module), name), old, new)
    monkeypatch.setattr(f"{user}.{name}", changed)
    result = run(test)
    assert [t.name.rpartition(".")[2] for t in result.tests] == [test]
    assert not result.passed


@pytest.mark.full
def test_without_an_error_nothing_is_found():
    result = run("|".join({row[-1] for row in MUTATIONS.values()}))
    assert result.passed, result.failure
