"""The host of a compiled model: it writes the program of each step, starts it, reads the results.

Prompts of sequences are fed one after the other, in steps of several tokens; single tokens of
several sequences are one step. After the last step of a sequence the head's program leaves all
logits and the likeliest token of every token of a tile.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.compiler.folder import ModelFolder
from tilewright.compiler.head import choice_of, logits_of
from tilewright.compiler.machine import SumKind
from tilewright.compiler.plan import step_sizes
from tilewright.compiler.program import Program, head_program, step_program
from tilewright.compiler.sizes import Step, Token
from tilewright.golden.machine.machine import Outcome
from tilewright.golden.machine.moves import LATENCY, Latency, timing_of
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.machine import Error

Bytes = NDArray[np.uint8]
Logits = NDArray[np.float32]
Executor = Callable[[Bytes, int], Any]  # of external memory, and its lines that do not change


@dataclass(frozen=True)
class ProgramRun:
    """One program that halted."""

    kind: str  # "prefill", "decode" or "head"
    first: int  # position of its first token
    tokens: int
    sequences: tuple[int, ...]
    counters: dict[str, int]  # the accelerator's, cycles among them
    sums: tuple[tuple[SumKind, int], ...]  # kinds, and the groups that were summed in each

    @property
    def cycles(self) -> int:
        return self.counters["cycles"]


@dataclass(frozen=True, eq=False)
class State:
    """Tokens of each sequence in the caches, and the memory that programs change."""

    positions: list[int]
    memory: Bytes


class Runner:
    """Up to ``plan.sequences`` sequences on one accelerator."""

    def __init__(
        self,
        folder: ModelFolder,
        *,
        latency: Latency = LATENCY,
        executor: Executor | None = None,
    ):
        if timing_of(latency).latency < 1:
            raise CommandError(f"latency must be at least 1, not {latency}")
        self.folder, self.plan, self.lines = folder, folder.plan, folder.lines
        self.machine, self.latency = folder.plan.machine, latency
        self.positions = [0] * self.plan.sequences
        self.memory = folder.memory()
        self.executor = (executor or self.machine.executor)(self.memory, self.lines.state)
        self.runs: list[ProgramRun] = []
        self.outcome: Outcome | None = None  # of the last program
        self.choices: dict[int, int] = {}  # likeliest next token by sequence
        self.listen: Callable[[ProgramRun, Program], None] = lambda run, program: None
        self._heads: dict[tuple[int, int], tuple[Program, Bytes]] = {}
        self._known: dict[int, tuple[dict, tuple]] = {}  # counts of heads, which no data change

    @property
    def position(self) -> int:
        """Tokens of the first sequence."""
        return self.positions[0]

    @property
    def choice(self) -> int:
        """The likeliest next token of the first sequence."""
        return self.choices[0]

    # Tokens.

    @overload
    def feed(self, tokens: Sequence[int]) -> Logits: ...
    @overload
    def feed(self, tokens: Mapping[int, Sequence[int]]) -> dict[int, Logits]: ...

    def feed(self, tokens: Sequence[int] | Mapping[int, Sequence[int]]) -> Any:
        """Pass tokens through all layers; logits (vocabulary) of the next token.

        ``tokens`` are those of the first sequence, or of several sequences by their numbers.
        """
        if not isinstance(tokens, Mapping):
            return self.feed({0: tokens})[0]
        self._check(tokens)
        found: dict[int, Logits] = {}
        single = {sequence: given[0] for sequence, given in tokens.items() if len(given) == 1}
        for sequence, given in tokens.items():
            if sequence not in single:
                *_, last = self._prompt(sequence, given)
                found |= self._head(last, len(self.machine.tiles(last)) - 1, last.tokens[-1:])
        if single:
            step = Step.batch({sequence: self.positions[sequence] for sequence in single})
            self._step(step, list(single.values()))
            for tile, members in enumerate(self.machine.tiles(step)):
                found |= self._head(step, tile, members.values())
        return {sequence: found[sequence] for sequence in tokens}

    def score(self, tokens: Sequence[int], sequence: int = 0) -> Logits:
        """Logits after every token of a sequence: (tokens, vocabulary)."""
        self._check({sequence: tokens})
        results = []
        for step in self._prompt(sequence, tokens):
            for tile, members in enumerate(self.machine.tiles(step)):
                self._head(step, tile, ())
                results.append(logits_of(self.lines, self.memory)[list(members)])
        return np.concatenate(results)

    def _check(self, tokens: Mapping[int, Sequence[int]]) -> None:
        """Refuse before any token enters; one beyond the table would name other lines."""
        plan, words = self.plan, self.plan.shape.vocab_size
        for sequence, given in tokens.items():
            if not 0 <= sequence < plan.sequences:
                raise CommandError(
                    f"sequence {sequence} exceeds the {plan.sequences} that the model was compiled"
                    " for; compile it with more --sequences"
                )
            end = self.positions[sequence] + len(given)
            if end > plan.context:
                raise CommandError(
                    f"{end} tokens exceed the context of {plan.context} that the model was"
                    " compiled for; compile it with a larger --context"
                )
            for token in given:
                if not 0 <= token < words:
                    raise CommandError(f"token {token} is not in the model's vocabulary of {words}")

    def _prompt(self, sequence: int, tokens: Sequence[int]) -> Iterator[Step]:
        begin = self.positions[sequence]
        for first, size in step_sizes(self.plan, begin, len(tokens)):
            step = Step.prompt(first, size, sequence)
            self._step(step, tokens[first - begin :][:size])
            yield step

    # Programs.

    def _step(self, step: Step, tokens: Sequence[int]) -> None:
        vectors = [self.lines.embedding(token) for token in tokens]
        program = step_program(self.lines, step, vectors, latency=self.latency)
        self._write(program, program_lines(self.machine.params, program.instructions))
        kind = "prefill" if step.kind == "prompt" else "decode"
        self._start(kind, step, program)
        for sequence, seen in step.seen:
            self.positions[sequence] = seen

    def _head(self, step: Step, tile: int, wanted: Iterable[Token]) -> dict[int, Logits]:
        """Logits of some tokens of a tile, by sequence."""
        banks, wanted = self.machine.tiles(step)[tile], set(wanted)
        few = self.machine.few(step)
        if (tile, few) not in self._heads:  # the same for every step
            made = head_program(self.lines, tile, latency=self.latency, few=few)
            data = program_lines(self.machine.params, made.instructions)
            self._heads[tile, few] = made, data
        program, data = self._heads[tile, few]
        self._write(program, data)
        chosen = {bank: token for bank, token in banks.items() if token in wanted}
        about = Step(tuple((chosen or banks).values()))
        self._start("head", about, program)
        copies = self.machine.copies(few)
        for bank, token in chosen.items():
            self.choices[token.sequence] = self._chosen(bank, token.position, copies)
        if not chosen:
            return {}
        logits = logits_of(self.lines, self.memory, copies)
        return {token.sequence: logits[bank] for bank, token in chosen.items()}

    def _chosen(self, bank: int, position: int, copies: int) -> int:
        try:
            return choice_of(self.lines, self.memory, bank, copies)
        except ValueError as error:
            raise CommandError(f"token {position + 1}: {error}") from None

    def _write(self, program: Program, data: Bytes) -> None:
        """Put a program where the image has room for one."""
        size = self.machine.params.line_bytes
        if len(data) > self.lines.program_lines * size:
            raise CommandError(
                f"a program of {len(program)} instructions takes {len(data) // size} lines; the"
                f" image has room for {self.lines.program_lines}: compile the model again"
            )
        start = self.lines.programs * size
        self.memory[start : start + len(data)] = data

    def _start(self, kind: str, step: Step, program: Program) -> None:
        """Run the program that has been written, and note its counters."""
        outcome = self.executor.run_stream(self.lines.programs)
        self.outcome = outcome
        first = step.tokens[0].position
        if outcome.error is not Error.NONE:
            raise CommandError(
                f"token {first}: the {kind} program stopped at instruction"
                f" {outcome.instruction} with error {outcome.error.name.lower()};"
                f" {max(self.positions)} tokens are complete"
            )
        known = self._known.get(id(program))
        if known is None:
            cycles = self.machine.program_cycles(outcome, self.latency)
            known = cycles, program.sums(self.machine)
            if kind == "head":
                self._known[id(program)] = known
        cycles, sums = known
        counters = {c.name.lower(): int(n) for c, n in (outcome.counts | cycles).items()}
        sequences = tuple(dict.fromkeys(token.sequence for token in step.tokens))
        self.runs.append(ProgramRun(kind, first, len(step.tokens), sequences, counters, sums))
        self.listen(self.runs[-1], program)

    # Faults and states.

    def break_line(self, line: int | None) -> None:
        """Let a line of external memory answer with an error from now on; None: no line."""
        self.executor.bad_lines = frozenset() if line is None else frozenset({line})

    @property
    def _changed(self) -> slice:
        return slice(self.lines.state * self.machine.params.line_bytes, None)

    def state(self) -> State:
        return State(list(self.positions), self.memory[self._changed].copy())

    def restore(self, state: State) -> None:
        if state.memory.shape != self.memory[self._changed].shape:
            raise CommandError("the state is that of another compiled model")
        self.memory[self._changed] = state.memory
        self.positions = list(state.positions)
