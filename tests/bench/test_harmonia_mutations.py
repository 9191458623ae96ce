"""A bench that cannot fail proves nothing: errors planted all over the accelerator are found."""

from importlib import import_module

import pytest

from golden.params.resolve import resolve
from synth.emit import to_verilog
from tests.support.mutate import mutant
from tilewright.bench import cocotb_tests
from tilewright.bench.job import Job
from tilewright.simulators import run_bench

BLOCK = "harmonia:small"

# Component, the module that uses it, its expression, what to put there, the test that must notice.
MUTATIONS = {
    "low halves from the wrong place of the ring": (
        "hw.harmonia_system.dataflow:SumFeeder",
        "hw.harmonia_system.top",
        "initial + (unit & (ring - 1))",
        "initial + (unit & (ring // 2 - 1))",
        "head_of_attention",
    ),
    "a unit that grows old a token too late": (
        "hw.harmonia_system.dataflow:SumFeeder",
        "hw.harmonia_system.top",
        "begins | (end > gemm.tokens)",
        "begins | (end >= gemm.tokens)",
        "head_of_attention",
    ),
    "activations that do not pass again": (
        "hw.harmonia_system.dataflow:SumFeeder",
        "hw.harmonia_system.top",
        "Mux(tiles.last_token_tile, gemm.source, next_source)",
        "next_source",
        "random_programs",
    ),
    "results of the next token tile behind those of this one": (
        "hw.harmonia_system.dataflow:ResultWriter",
        "hw.harmonia_system.top",
        "Mux(gemm.row_major, next_row, down)",
        "Mux(gemm.row_major, next_row, next_row)",
        "random_programs",
    ),
    "weights without their sign": (
        "hw.harmonia_system.operands:OperandColumn",
        "hw.harmonia_system.operands",
        "Mux(self.integers, negative, word.signs[lane])",
        "word.signs[lane]",
        "random_programs",
    ),
    "banks that are written though their lane is off": (
        "hw.harmonia_system.buffers:HalvesBuffer",
        "hw.harmonia_system.top",
        "self.write.enable & self.write.lanes[r]",
        "self.write.enable",
        "random_programs",
    ),
    "low halves a beat too late": (
        "hw.harmonia_system.group_writer:GroupWriter",
        "hw.harmonia_system.conversion",
        "Mux(taken_again, before, newest)",
        "newest",
        "random_programs",
    ),
    "padding that has an offset": (
        "hw.harmonia_system.conversion:ConversionPath",
        "hw.harmonia_system.top",
        "less & ~padding.replicate(FP16.bits)",
        "less",
        "random_programs",
    ),
    "offsets that are used before they are found": (
        "hw.harmonia_system.conversion:ConversionPath",
        "hw.harmonia_system.top",
        "writer.busy | (x.learn & ~offset.i.ready)",
        "writer.busy",
        "random_programs",
    ),
    "a causal mask that shows a token too many": (
        "hw.harmonia_system.vector:CausalFeeder",
        "hw.harmonia_system.vector",
        "element >= self.seen + row",
        "element > self.seen + row",
        "head_of_attention",
    ),
    "weights that do not pass again": (
        "hw.harmonia_system.product:ProductController",
        "hw.harmonia_system.controller",
        "m.d.sync += weights.eq(x.weights)",
        "m.d.sync += weights.eq(weights + lines)",
        "external_memory_accesses",
    ),
    "a range that may be a row too long": (
        "hw.harmonia_system.controller:Controller",
        "hw.harmonia_system.top",
        "end > limits[name]",
        "end > limits[name] + 1",
        "every_error",
    ),
}


def run(tests, cases=300):
    params = resolve(BLOCK)
    return run_bench(
        to_verilog(params),
        params.slug,
        cocotb_tests(params),
        job=Job(BLOCK, cases=cases, stalls=(0.0,)).as_dict(),
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
