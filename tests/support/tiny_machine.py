"""A tiny language model on a golden machine, step by step, without a file."""

import hashlib
from typing import Any

import numpy as np

from tilewright.compiler.head import choice_of, logits_of
from tilewright.compiler.machine import machine_of
from tilewright.compiler.plan import step_sizes
from tilewright.compiler.sizes import Step, Token
from tilewright.golden.llm.model import Model
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.params.resolve import resolve
from tilewright.verify.machine.model_workload import ModelWork


class TinyMachine:
    """Logits of the tokens of a model, and the cycles of every program."""

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
        self.machine = machine_of(resolve(target), **formats)
        model = model or tiny_model()
        sizes = {"context": context, "sequences": sequences, "weight_bits": bits}
        self.work = ModelWork(self.machine, model, **sizes)
        self.plan, self.lines = self.work.plan, self.work.lines
        self.cycles: list[int] = []

    def _ran(self) -> None:
        counters = self.machine.program_cycles(self.work.outcome, self.work.latency)
        self.cycles.append({c.name: n for c, n in counters.items()}["CYCLES"])

    def step(self, step: Step, tokens: list[int]) -> dict[Token, np.ndarray]:
        """Logits of every token of a step; the machine's choice is the largest of them."""
        self.work.step(step, tokens=tokens)
        self._ran()
        found, copies = {}, self.machine.copies(self.machine.few(step))
        for number, tile in enumerate(self.machine.tiles(step)):
            self.work.head(step, number)
            self._ran()
            logits = logits_of(self.lines, self.work.memory, copies)
            for bank, token in tile.items():
                found[token] = logits[bank].copy()
                chosen = choice_of(self.lines, self.work.memory, bank, copies)
                assert chosen == int(logits[bank].argmax())
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
