"""A decoder layer of a real model on a simulated accelerator, as compiled: a prompt, then tokens.

Activations are those of real text. The last steps run on the emitted Verilog; memory, counters and
cycles are compared with the golden machine, on which all steps run.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.base.console import progress
from tilewright.base.errors import CommandError
from tilewright.compiler.machine import machine_of
from tilewright.compiler.plan import Plan, step_sizes
from tilewright.compiler.sizes import Step
from tilewright.golden.llm.block import Module, captured, layer_alone
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.model import Model, ModelError
from tilewright.golden.llm.text import default_text
from tilewright.golden.params.resolve import resolve
from tilewright.studies.runs.program import run_program, timing_at
from tilewright.studies.runs.simulation import DEFAULT, Simulation
from tilewright.verify.machine.model_workload import ModelCase, ModelWork

MODEL = "smollm2"
CALIBRATION_TOKENS = 128  # of the text; they calibrate the weights

Part = TypeVar("Part")


def read_layer(
    model: str, layer: int, count: int, *, tokens: int = CALIBRATION_TOKENS, seed: int = 1
) -> dict[str, Module]:
    """Return a decoder layer's linear modules for the last ``count`` tokens of a real text."""
    loaded, ids = read_text(model, tokens=tokens, seed=seed)
    return captured(loaded, ids, layer, count)


def read_text(model: str, *, tokens: int, seed: int = 1) -> tuple[Model, NDArray[np.int64]]:
    """Return a model and tokens of a text; a model without a tokenizer reads random tokens."""
    try:
        loaded = load_model(model)
    except ModelError as error:
        raise CommandError(str(error)) from None
    if loaded.tokenizer is None:
        rng = np.random.default_rng(seed)
        return loaded, rng.integers(0, loaded.config.vocab_size, tokens)
    return loaded, np.array(loaded.tokenizer.encode(default_text()[: 16 * tokens])[:tokens])


def run_parts(name: str, parts: Iterable[tuple[str, Callable[[], Part]]]) -> tuple[Part, ...]:
    """Return the results of the named parts, run one after the other."""
    waiting, results = list(parts), []
    with progress(name, len(waiting)) as tick:
        for doing, run in waiting:
            tick(doing, steps=0)
            results.append(run())
            tick()
    return tuple(results)


TOKENS = 104  # of the text
STEPS = 8  # the prompt's last two, and all tokens after them


@dataclass(frozen=True)
class StepRun:
    """One step of a layer on the accelerator."""

    first: int  # token
    tokens: int
    equal: bool  # whether memory, counters and cycles equal golden's
    instructions: int
    counters: dict[str, int]


@dataclass(frozen=True)
class MachineLayerRun:
    """A decoder layer on an accelerator."""

    block: str
    model: str
    layer: int
    tokens: int
    equal: bool
    steps: tuple[StepRun, ...]


def steps_of(plan: Plan, tokens: int) -> list[Step]:
    """A prompt, then a sixteenth of the tokens one by one."""
    prompt = tokens - max(1, tokens // 16)
    steps = [Step.prompt(first, size) for first, size in step_sizes(plan, 0, prompt)]
    return [*steps, *(Step.prompt(token, 1) for token in range(prompt, tokens))]


def layer_on_machine(
    block: str = "harmonia",
    *,
    model: str = MODEL,
    layer: int = 0,
    tokens: int = TOKENS,
    steps: int = STEPS,
    latency: int | None = None,
    memory: str | None = None,
    simulation: Simulation = DEFAULT,
) -> MachineLayerRun:
    """Run the last ``steps`` of a text through decoder layer ``layer`` of ``model``.

    A sixteenth of the ``tokens`` is decoded token by token, the others are its prompt.
    """
    params = resolve(block)
    if steps < 1:
        raise CommandError(f"steps must be at least 1, not {steps}")
    machine = machine_of(params)  # type: ignore[arg-type]
    timing = timing_at(params, memory, latency)
    loaded, ids = read_text(model, tokens=tokens, seed=simulation.seed)
    work = ModelWork(machine, layer_alone(loaded, ids, layer), context=tokens, latency=timing)
    options: dict[str, Any] = {"latency": timing, "stream": True, "simulation": simulation}

    def run_step(step: Step) -> StepRun:
        memory, case = work.memory, feed(step)
        _, run = run_program(case.name, block, case.program.instructions, memory, **options)
        return StepRun(
            first=step.tokens[0].position,
            tokens=len(step.tokens),
            equal=run.equal and run.halted,
            instructions=run.instructions,
            counters=run.counters,
        )

    def feed(step: Step) -> ModelCase:
        return work.step(step, tokens=[token.position for token in step.tokens])  # its vocabulary

    whole = steps_of(work.plan, tokens)
    for step in whole[:-steps]:
        feed(step)
    parts = ((f"token {x.tokens[0].position}", partial(run_step, x)) for x in whole[-steps:])
    runs = run_parts("machine.layer", parts)
    return MachineLayerRun(params.slug, model, layer, tokens, all(x.equal for x in runs), runs)
