"""A compiled model on the golden accelerator: programs are started as a host starts them.

The host names the tokens in the program of a step, which looks their embeddings up, starts it at
its line, and, where it wants to know what follows, the head's, which leaves the likeliest token and
all logits. Nothing else passes between the two.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.machine.machine import Outcome
from tilewright.golden.machine.moves import LATENCY
from tilewright.golden.params.machine import Error
from tilewright.studies.compiled.folder import ModelFolder

__all__ = ["LATENCY", "ProgramRun", "Runner", "State"]


@dataclass(frozen=True)
class ProgramRun:
    """One program that came to its end."""

    kind: str  # "prefill", "decode" or "head"
    first: int  # token
    tokens: int
    counters: dict[str, int]  # those of the accelerator, cycles among them

    @property
    def cycles(self) -> int:
        return self.counters["cycles"]


@dataclass(frozen=True, eq=False)
class State:
    """What a run needs to go on: tokens in the cache, and what programs have changed."""

    position: int
    memory: NDArray[np.uint8]


class Runner:
    """One sequence on one accelerator."""

    def __init__(self, folder: ModelFolder, *, latency: int = LATENCY):
        if latency < 1:
            raise CommandError(f"latency must be at least 1, not {latency}")
        self.folder, self.plan, self.lines = folder, folder.plan, folder.lines
        self.system = folder.system
        self.latency = latency
        self.position = 0
        self.memory = folder.memory()
        self.machine = self.system.machine(self.plan, self.lines, self.memory)
        self.runs: list[ProgramRun] = []
        self.outcome: Outcome | None = None  # of the last program
        self._cycles: dict[int, dict] = {}  # of programs that ran, by their lines
        self.chooses = self.system.chooses(self.plan)  # or the host does, among the logits
        self.choice: int | None = None  # the likeliest token behind the last ones, by the machine
        self.clock = self.system.accelerator(self.plan).clock  # Hz
        self.listen: Callable[[ProgramRun], None] = lambda run: None  # hears of every program

    def steps(self, count: int) -> Iterator[tuple[int, int]]:
        """First token and size of the steps in which ``count`` more tokens are fed."""
        first, end = self.position, self.position + count
        if end > self.plan.context:
            raise CommandError(
                f"{end} tokens exceed the context of {self.plan.context} that the model was"
                " compiled for; compile it with a larger --context"
            )
        while first < end:
            size = min(self.plan.step_tokens, end - first)
            if (first, size) not in self.folder.steps:
                size = 1
            yield first, size
            first += size

    def feed(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Pass tokens through all layers; logits (vocabulary) of what follows the last."""
        self._refuse_unknown(tokens)
        for first, size in self.steps(len(tokens)):
            self._step(first, tokens[:size])
            tokens = tokens[size:]
        rows = self.plan.params.rows
        last = self.runs[-1]
        newest = last.first + last.tokens - 1
        logits = self._head(newest // rows - last.first // rows)[newest % rows]
        if self.chooses:
            self.choice = self._chosen(newest % rows)
        return logits

    def score(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """The same for every token: (tokens, vocabulary)."""
        self._refuse_unknown(tokens)
        rows, results = self.plan.params.rows, []
        for first, size in list(self.steps(len(tokens))):
            self._step(first, tokens[:size])
            tokens = tokens[size:]
            for tile in range(first // rows, (first + size - 1) // rows + 1):
                logits = self._head(tile - first // rows)
                begin, end = max(first, tile * rows), min(first + size, (tile + 1) * rows)
                results.append(logits[begin - tile * rows : end - tile * rows])
        return np.concatenate(results)

    def _refuse_unknown(self, tokens: Sequence[int]) -> None:
        """Before any of them enters: a number beyond the table would name lines of other things."""
        words = self.plan.config.vocab_size
        for token in tokens:
            if not 0 <= token < words:
                raise CommandError(f"token {token} is not in the model's vocabulary of {words}")

    def break_line(self, line: int | None) -> None:
        """Let a line of external memory answer with an error from now on; None: no line."""
        self.machine.bad_lines = frozenset() if line is None else frozenset({line})

    def state(self) -> State:
        start = self.lines.state * self.plan.params.line_bytes
        return State(self.position, self.memory[start:].copy())

    def restore(self, state: State) -> None:
        start = self.lines.state * self.plan.params.line_bytes
        if state.memory.shape != self.memory[start:].shape:
            raise CommandError("the state is that of another compiled model")
        self.memory[start:] = state.memory
        self.position = state.position

    def _step(self, first: int, tokens: Sequence[int]) -> None:
        line = self.folder.steps[first, len(tokens)][0]
        self.system.enter(self.plan, self.lines, self.memory, line, *tokens)
        kind = "decode" if len(tokens) == 1 else "prefill"
        self._start(kind, first, len(tokens), line)
        self.position = first + len(tokens)

    def _head(self, tile: int) -> NDArray[np.float32]:
        self._start("head", self.position - 1, 1, self.folder.heads[tile][0])
        logits: NDArray[np.float32] = self.system.logits_of(self.plan, self.lines, self.memory)
        return logits

    def _chosen(self, bank: int) -> int:
        try:
            return self.system.choice_of(self.plan, self.lines, self.memory, bank)
        except ValueError as error:
            raise CommandError(f"token {self.position}: {error}") from None

    def _start(self, kind: str, first: int, tokens: int, line: int) -> None:
        outcome = self.machine.run_stream(line)
        self.outcome = outcome
        if outcome.error is not Error.NONE:
            raise CommandError(
                f"token {first}: the {kind} program stopped at instruction"
                f" {outcome.instruction} with error {outcome.error.name.lower()};"
                f" {self.position} tokens are complete"
            )
        cycles = self._cycles.get(line)
        if cycles is None:  # they do not depend on data
            cycles = self.system.program_cycles(self.plan.params, outcome, self.latency)
            self._cycles[line] = cycles
        counters = {c.name.lower(): int(n) for c, n in (outcome.counts | cycles).items()}
        self.runs.append(ProgramRun(kind, first, tokens, counters))
        self.listen(self.runs[-1])
