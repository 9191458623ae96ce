"""The page about the compiler: cycles of tokens, prompts and products."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.examples import table
from tilewright.compiler import count
from tilewright.compiler.image import Lines
from tilewright.compiler.machine import machine_of
from tilewright.compiler.plan import Plan
from tilewright.compiler.product import best_product
from tilewright.compiler.program import step_program
from tilewright.compiler.sizes import Step
from tilewright.golden.machine.moves import LATENCY
from tilewright.golden.params.resolve import resolve
from tilewright.sim.models import resolve_model
from tilewright.sim.step_programs import step_time
from tilewright.sim.workload import Batch, Pass
from tilewright.studies.measured import load_measured
from tilewright.studies.model_record import NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "compiler.md").read_text()


def test_cycles_of_a_token():
    rows = table(PAGE, "tokens")
    assert [block for block, *_ in rows] == ["anda", "harmonia"]
    for block, before, now in rows:
        found = step_time(resolve(block), resolve_model("smollm2-135m"), Pass(Batch(((1, 256),))))
        assert f"{found.cycles:,.0f}" == now
        assert found.cycles < int(before.replace(",", ""))


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.full)])
def test_units_are_busy_in_a_prompt(number):
    first, cycles, *shares = table(PAGE, "prompts")[number]
    layer = replace(resolve_model("llama-2-7b"), num_hidden_layers=1)
    plan = Plan(machine=machine_of(resolve("anda")), shape=layer, context=512)
    parts = count.step_time(plan, Step.prompt(int(first), 128), LATENCY)
    attention, rest = parts["attention"], parts["projections"] + parts["feed-forward"]
    assert f"{attention.cycles + rest.cycles:,}" == cycles
    busy = rest.gemm / rest.cycles, attention.vector / attention.cycles
    assert [f"{share:.1%}" for share in busy] == shares


def test_instructions_of_a_layer():
    for block, model, context, instructions in table(PAGE, "instructions"):
        shape, last = resolve_model(model), Step.prompt(int(context) - 1, 1)
        plan = Plan(machine=machine_of(resolve(block)), shape=shape, context=2048)
        program = step_program(Lines(plan, 1 << 16), last, latency=LATENCY, layers=1)
        assert f"{len(program.body):,}" == instructions


def test_cycles_of_products():
    for block, *sizes, cycles in table(PAGE, "products"):
        product = best_product(machine_of(resolve(block)), *map(int, sizes), LATENCY)
        assert f"{product.time.cycles:,}" == cycles


def test_a_model_whose_layers_exceed_the_chip():
    page = " ".join(PAGE.split())
    for block, cycles, machine, engine in table(PAGE, "larger"):
        record = load_measured(NAMES[block])["larger"]
        found = record["perplexity"]
        assert cycles == f"{record['decode_cycles'][0]:,}"
        assert (machine, engine) == (f"{found['machine']:.3f}", f"{found['engine']:.3f}")
        assert abs(found["machine"] / found["engine"] - 1) < 0.02
        assert f"full precision has {found['full precision']:.3f}" in page
        assert f'"{record["text"]}"' in page
