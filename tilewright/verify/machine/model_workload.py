"""Compiled programs of small language models: prompts, tokens and batches, with their memories.

A case is a program in external memory, which holds the whole model and the caches after earlier
steps. These steps run on the golden machine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.image import Lines, constants
from tilewright.compiler.machine import Machine, machine_of
from tilewright.compiler.plan import Plan, step_sizes
from tilewright.compiler.program import Program, head_program, step_program
from tilewright.compiler.quantise import quantised_model
from tilewright.compiler.sizes import Step
from tilewright.golden.llm.model import Model
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.machine.moves import LATENCY, Latency
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.machine import Error


class ModelCase(NamedTuple):
    """A program that lies in external memory."""

    name: str
    memory: NDArray[np.uint8]
    line: int  # the program's first
    program: Program


class ModelWork:
    """A model in external memory, and the caches of its sequences."""

    def __init__(
        self,
        machine: Machine,
        model: Model,
        *,
        context: int,
        sequences: int = 1,
        weight_bits: int = 4,
        latency: Latency = LATENCY,
        seed: int = 1,
    ):
        self.machine, self.latency = machine, latency
        self.plan = Plan(
            machine=machine,
            shape=model.config,
            context=context,
            sequences=sequences,
            weight_bits=weight_bits,
            head_bits=weight_bits,
        )
        self._rng = np.random.default_rng(seed)
        group = max(64, machine.params.group)
        small, head = quantised_model(
            model, weight_bits=weight_bits, head_bits=weight_bits, group=group
        )
        # Programs lie after everything else: the memory ends with the one at hand.
        self.lines = Lines(self.plan)
        size = machine.params.line_bytes
        self.memory = np.zeros(self.lines.end * size, np.uint8)
        for _, line, content in constants(self.lines, small, head):
            self.memory[line * size :][: len(content)] = content

    def feed(self, sequence: int, count: int) -> None:
        """So many tokens of a sequence, on the golden machine."""
        for begin, size in step_sizes(self.plan, 0, count):
            self.step(Step.prompt(begin, size, sequence))

    def step(self, step: Step, name: str = "", tokens: Sequence[int] | None = None) -> ModelCase:
        """A step of random tokens, or of these; it has run on the golden machine afterwards."""
        if tokens is None:
            tokens = self._rng.integers(0, self.plan.shape.vocab_size, len(step.tokens)).tolist()
        vectors = [self.lines.embedding(token) for token in tokens]
        program = step_program(self.lines, step, vectors, latency=self.latency)
        return self._run(name or f"{step.kind} of {len(step.tokens)}", program)

    def head(self, step: Step, tile: int = 0) -> ModelCase:
        """The vocabulary head of a token tile that a step has left."""
        few = self.machine.few(step)
        program = head_program(self.lines, tile, latency=self.latency, few=few)
        return self._run(f"head after a {step.kind}", program)

    def _run(self, name: str, program: Program) -> ModelCase:
        params = self.machine.params
        hazard = self.machine.first_hazard(program.instructions)
        assert hazard is None, f"{name}: {hazard}"
        written = program_lines(params, program.instructions)
        line, end = self.lines.end, len(self.memory)
        case = ModelCase(name, np.concatenate([self.memory, written]), line, program)
        after = case.memory.copy()
        self.outcome = outcome = self.machine.executor(after, self.lines.state).run_stream(line)
        assert outcome.error is Error.NONE, f"{name}: golden stops with {outcome.error.name}"
        self.memory = after[:end]
        return case


def layer_shape(machine: Machine) -> LlmShape:
    """One layer of a model as small as the machine takes it, of two heads with one cache."""
    p = machine.params
    head = max(16, p.group)
    width = 2 * head
    return LlmShape(
        model_type="llama",
        name="small",
        num_hidden_layers=1,
        hidden_size=width,
        intermediate_size=width,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=head,
        vocab_size=2 * p.group,
        max_position_embeddings=4096,
    )


def opposed(model: Model) -> Model:
    """The model with keys that are minus the queries: a first token's score is negative."""
    for index, layer in enumerate(model.layers):
        channels = model.config.head_dim
        own = layer.query.weight[:channels]
        query = np.tile(own, (model.config.num_attention_heads, 1))
        key = -np.tile(own, (model.config.num_key_value_heads, 1))
        model = model.with_linears(
            index, query=replace(layer.query, weight=query), key=replace(layer.key, weight=key)
        )
    return model


def model_cases(params: Any, seed: int, **formats: Any) -> Iterator[ModelCase]:
    """A step of a prompt and a token over a cache that has aged, a batch of sequences of unlike
    lengths and its head, and a first token whose score is negative."""
    machine = machine_of(params, **formats)
    model = tiny_model(seed=seed, config=layer_shape(machine))
    unit = max(machine.rows, machine.step_unit)
    size = min(machine.step_tokens, 2 * unit + 1)
    aged = -(-20 * machine.rows // unit) * unit
    lengths = [aged + size + 1, 0, unit + 1]
    work = ModelWork(machine, model, context=aged + 3 * unit, sequences=len(lengths), seed=seed)
    work.feed(0, aged)
    work.feed(2, lengths[2])
    yield work.step(Step.prompt(aged, size))
    yield work.step(Step.prompt(aged + size, 1))
    batch = Step.batch(dict(enumerate(lengths)))
    yield work.step(batch)
    yield work.head(batch)
    first = ModelWork(machine, opposed(model), context=machine.rows, seed=seed)
    yield first.step(Step.prompt(0, 1), "a first token with a negative score")
