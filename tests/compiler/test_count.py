"""Programs that are counted take the cycles, lines and sums that the golden machine counts."""

from fractions import Fraction

import numpy as np
import pytest

from tilewright.compiler.count import (
    ProgramTime,
    batch_steps,
    head_tiles,
    head_time,
    operation_times,
    program_time,
    prompt_steps,
    step_time,
    timeline,
)
from tilewright.compiler.image import Lines
from tilewright.compiler.machine import machine_of
from tilewright.compiler.plan import Plan
from tilewright.compiler.program import head_program, step_program
from tilewright.compiler.sizes import Step
from tilewright.golden.machine.moves import LATENCY, Timing
from tilewright.golden.machine.port import memory_timing
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.resolve import resolve

MACHINES = ("anda:small", "harmonia:small")
PROGRAM_LINES = 1 << 13
UNITS = ("CYCLES", "CONTROL", "LOAD", "STORE", "GEMM", "VECTOR", "CONVERT")
SLOW = Timing(LATENCY, Fraction(7, 3))


def random_shape(seed, layers=None):
    rng = np.random.default_rng(seed)
    kv_heads = int(rng.integers(1, 3))
    return LlmShape(
        model_type="qwen2" if seed % 2 else "llama",
        query_bias=bool(seed % 2),
        name=f"random-{seed}",
        hidden_size=16 * int(rng.integers(2, 5)),
        intermediate_size=16 * int(rng.integers(2, 6)),
        num_hidden_layers=layers or int(rng.integers(1, 7)),
        num_attention_heads=kv_heads * int(rng.integers(1, 4)),
        num_key_value_heads=kv_heads,
        head_dim=16,
        vocab_size=int(rng.integers(20, 80)),
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )


def plan_of(spec, seed, sequences=1, **more):
    machine = machine_of(resolve(spec))
    shape = random_shape(seed, **more)
    bits = 4 + 4 * (seed % 2)
    return Plan(machine=machine, shape=shape, context=64, sequences=sequences, weight_bits=bits)


def executed(plan, program, latency):
    """Counters of a program on the golden machine, whose memory is empty: no value matters."""
    machine = plan.machine
    lines, size = Lines(plan, PROGRAM_LINES), machine.params.line_bytes
    memory = np.zeros(lines.end * size, np.uint8)
    words = program_lines(machine.params, program.instructions)
    assert len(words) <= PROGRAM_LINES * size
    memory[lines.programs * size :][: len(words)] = words
    outcome = machine.executor(memory, lines.state).run_stream(lines.programs)
    assert outcome.error == 0
    cycles = machine.program_cycles(outcome, latency)
    return {counter.name: n for counter, n in {**outcome.counts, **cycles}.items()}


def assert_equal(time, counters):
    got = (time.cycles, time.control, time.load, time.store, time.gemm, time.vector, time.convert)
    assert got == tuple(counters.get(name, 0) for name in UNITS)
    moved = counters["LINES_READ"], counters["LINES_WRITTEN"]
    assert (time.lines_read, time.lines_written) == moved


def whole(times):
    return sum(times.values(), ProgramTime())


@pytest.mark.parametrize("spec", MACHINES)
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.full) for seed in (4, 5))]
)
def test_a_count_is_a_run(spec, seed):
    """A prompt, a token and the head of a random model, through all of its layers."""
    plan, latency = plan_of(spec, seed), (LATENCY, 5, SLOW)[seed % 3]
    lines = Lines(plan, PROGRAM_LINES)
    contexts = np.random.default_rng(seed).integers(0, plan.context, 4)
    tokens = [Step.prompt(int(position), 1) for position in contexts]
    for step in (*prompt_steps(plan, 3 + seed), *tokens):
        program = step_program(lines, step, latency=latency)
        assert_equal(whole(step_time(plan, step, latency)), executed(plan, program, latency))
    tile = len(plan.machine.tiles(step)) - 1
    program = head_program(lines, tile, latency=latency)
    assert_equal(head_time(plan, [tile], latency), executed(plan, program, latency))


@pytest.mark.parametrize("spec", MACHINES)
@pytest.mark.parametrize("seed", range(3))
def test_a_count_of_a_batch_is_a_run(spec, seed):
    lengths = [int(n) for n in np.random.default_rng(seed).integers(1, 60, 3)]
    plan = plan_of(spec, seed, sequences=3)
    memory = ("flat", "hbm2", "ddr4")[seed]
    latency = memory_timing(memory, None, plan.machine.params, 3e8)
    (step,) = batch_steps(lengths)
    program = step_program(Lines(plan, PROGRAM_LINES), step, latency=latency)
    found = whole(step_time(plan, step, latency))
    assert_equal(found, executed(plan, program, latency))
    tiles = head_tiles(plan.machine, step)
    assert head_time(plan, tiles, latency).programs == 2


@pytest.mark.parametrize("spec", MACHINES)
def test_few_layers_tell_how_long_many_take(spec):
    plan = plan_of(spec, 4, layers=24)
    step = Step.prompt(17, 1)
    program = step_program(Lines(plan, PROGRAM_LINES), step, latency=LATENCY)
    counted = program_time(plan.machine, program, LATENCY)
    assert whole(step_time(plan, step, LATENCY)) == counted


@pytest.mark.parametrize("spec", MACHINES)
def test_operations_share_the_cycles(spec):
    plan = plan_of(spec, 2)
    program = step_program(Lines(plan, PROGRAM_LINES), Step.prompt(9, 1), latency=LATENCY)
    found = operation_times(plan.machine, program, LATENCY)
    assert {"k", "v", "q", "attention", "output", "gate+up", "down"} <= found.keys()
    assert min(time.cycles for time in found.values()) >= 0
    total = whole(found)
    assert total.cycles == program_time(plan.machine, program, LATENCY).cycles
    work = timeline(plan.machine, program, LATENCY)
    assert total.gemm == sum(w.end - w.begin - 1 for w in work if w.unit.name == "MATRIX")
    sums = sum(count for _, count in total.sums)
    assert sums and total.plus(total, -1) == ProgramTime()


def test_sequences_are_decoded_in_groups():
    steps = batch_steps([100] * 150)
    assert [len(step.tokens) for step in steps] == [64, 64, 22]
    assert {token.position for token in steps[0].tokens} == {99}
