"""A tiny language model on a golden machine, step by step, without a file."""

import hashlib
from typing import Any

import numpy as np

from tilewright.compiler.head import choice_of, logits_of
from tilewright.compiler.image import Lines, constants
from tilewright.compiler.machine import machine_of
from tilewright.compiler.plan import Plan, step_sizes
from tilewright.compiler.program import Program, head_program, step_program
from tilewright.compiler.quantise import quantised_model
from tilewright.compiler.sizes import Step, Token
from tilewright.golden.llm.model import Model
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.machine import Error
from tilewright.golden.params.resolve import resolve

LATENCY = 30
PROGRAM_LINES = 1 << 13


class TinyMachine:
    """The memory image of a model, its golden machine, and the cycles of every program."""

    def __init__(
        self,
        target: str,
        model: Model | None = None,
        *,
        context: int = 64,
        sequences: int = 1,
        bits: int = 8,
        **formats: Any,
    ):
        model = model or tiny_model()
        self.machine = machine_of(resolve(target), **formats)
        self.plan = Plan(
            machine=self.machine,
            shape=model.config,
            context=context,
            sequences=sequences,
            weight_bits=bits,
            head_bits=bits,
        )
        self.lines = Lines(self.plan, PROGRAM_LINES)
        quantised, head = quantised_model(model, weight_bits=bits, head_bits=bits, group=64)
        size = self.machine.params.line_bytes
        self.memory = np.zeros(self.lines.end * size, np.uint8)
        for _, line, data in constants(self.lines, quantised, head):
            self.memory[line * size :][: len(data)] = data
        self.executor = self.machine.executor(self.memory, self.lines.state)
        self.cycles: list[int] = []

    def run(self, program: Program) -> None:
        """Write a program to the memory and run it."""
        size = self.machine.params.line_bytes
        hazard = self.machine.first_hazard(program.instructions)
        assert hazard is None, hazard
        data = program_lines(self.machine.params, program.instructions)
        assert len(data) <= PROGRAM_LINES * size
        self.memory[self.lines.programs * size :][: len(data)] = data
        outcome = self.executor.run_stream(self.lines.programs)
        assert outcome.error is Error.NONE, (outcome.error, outcome.instruction)
        counters = self.machine.program_cycles(outcome, LATENCY)
        self.cycles.append({c.name: n for c, n in counters.items()}["CYCLES"])

    def step(self, step: Step, tokens: list[int]) -> dict[Token, np.ndarray]:
        """Logits of every token of a step; the machine's choice is the largest of them."""
        vectors = [self.lines.embedding(token) for token in tokens]
        self.run(step_program(self.lines, step, vectors, latency=LATENCY))
        found = {}
        for number, tile in enumerate(self.machine.tiles(step)):
            self.run(head_program(self.lines, number, latency=LATENCY))
            logits = logits_of(self.lines, self.memory)
            for bank, token in tile.items():
                found[token] = logits[bank].copy()
                assert choice_of(self.lines, self.memory, bank) == int(logits[bank].argmax())
        return found

    def feed(self, tokens: list[int], first: int = 0, sequence: int = 0) -> dict:
        """Tokens of a sequence in as few steps as the machine takes."""
        found = {}
        for begin, count in step_sizes(self.plan, first, len(tokens)):
            some = tokens[begin - first : begin - first + count]
            found |= self.step(Step.prompt(begin, count, sequence), some)
        return found

    def decode(self, tokens: list[int], first: int = 0, sequence: int = 0) -> dict:
        """Tokens of a sequence one by one."""
        found = {}
        for k, token in enumerate(tokens):
            found |= self.step(Step.prompt(first + k, 1, sequence), [token])
        return found


def digest(logits: dict) -> str:
    """A short hash of logits, token by token."""
    values = np.stack([logits[token] for token in sorted(logits)])
    return hashlib.sha256(values.astype("<f4").tobytes()).hexdigest()[:16]
