"""Text that continues prompts, its cost on the accelerator, and runs that are continued.

The state of a run lies in a file, from which another run continues after its last complete token.
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np

from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic
from tilewright.compiler.energy import energy
from tilewright.compiler.folder import MANIFEST, ModelFolder, sha256
from tilewright.compiler.host import ProgramRun, Runner, State
from tilewright.compiler.text import (
    check_context,
    check_temperature,
    chosen,
    decoded,
    prompt_tokens,
)
from tilewright.compiler.timing import LayerTime, Timing

_Key = TypeVar("_Key")


@dataclass(frozen=True)
class Cost:
    """Time, traffic and energy of some programs."""

    programs: int
    tokens: int
    cycles: int
    milliseconds: float
    bytes_read: int
    bytes_written: int
    millijoules: dict[str, float]  # by component
    busy_cycles: dict[str, int]  # of every unit; they work at the same time
    bound: str  # the busiest unit

    @classmethod
    def of(
        cls, runner: Runner, runs: Sequence[ProgramRun], tokens: int, accelerator: Any
    ) -> "Cost":
        """The cost of programs that passed or generated a number of tokens."""
        total = _summed([run.counters for run in runs])
        size = runner.machine.params.line_bytes
        joules = energy(accelerator, total, _summed([dict(run.sums) for run in runs]), size)
        busy = {name: total[name] for name in runner.machine.units}
        return cls(
            programs=len(runs),
            tokens=tokens,
            cycles=total["cycles"],
            milliseconds=1e3 * total["cycles"] / accelerator.clock,
            bytes_read=total["lines_read"] * size,
            bytes_written=total["lines_written"] * size,
            millijoules={name: 1e3 * value for name, value in joules.items()},
            busy_cycles=busy,
            bound=max(busy, key=lambda name: busy[name]),
        )

    @property
    def tokens_per_second(self) -> float:
        return 1e3 * self.tokens / self.milliseconds

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the cycles in which units are busy, then of the energy."""
        cycles = {name: value / self.cycles for name, value in self.busy_cycles.items()}
        total = sum(self.millijoules.values())
        return cycles | {
            f"{name} energy": value / total for name, value in self.millijoules.items()
        }


def _complete(own: Sequence[int], tokens: int, ends: Collection[int]) -> bool:
    return len(own) >= tokens or bool(own and own[-1] in ends)


def _summed(parts: Sequence[dict[_Key, int]]) -> dict[_Key, int]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0) for part in parts) for name in names}


@dataclass(frozen=True)
class Generation:
    """One sequence; cycles are those of the cycle model, which equals the RTL's."""

    model: str
    block: str  # as it was named
    clock_mhz: float
    sequences: int  # that were generated at once
    prompt: list[int]
    tokens: list[int]
    text: str  # without the token that ended it
    ended: bool  # by a token that ends an answer
    prefill: Cost | None  # up to the logits of the first token; None where a run was continued
    decode: Cost | None  # all tokens but the first, of all sequences
    programs: list[ProgramRun]  # in which the sequence took part
    layers: list[LayerTime] | None = None  # of the last step, on request


Tokens = list[list[int]]  # of every sequence


def _save(path: Path, runner: Runner, prompts: Tokens, tokens: Tokens) -> None:
    """Write the state that a run continues from, atomically."""
    state, content = runner.state(), BytesIO()
    words = {"model": _model(runner.folder), "prompts": prompts, "tokens": tokens}
    about = json.dumps(words | {"positions": state.positions})
    np.savez(content, memory=state.memory, about=np.frombuffer(about.encode(), np.uint8))
    write_atomic(path, content.getvalue())


def _load(path: Path, runner: Runner) -> tuple[Tokens, Tokens]:
    """Give a runner the state of a file, of the same compiled model; prompts and tokens."""
    try:
        with np.load(path) as saved:
            about = json.loads(saved["about"].tobytes())
            memory = saved["memory"]
    except (ValueError, KeyError, EOFError, BadZipFile):
        raise CommandError(f"{path} is no state of a run") from None
    if about["model"] != _model(runner.folder):
        raise CommandError(f"{path} is the state of another compiled model")
    runner.restore(State(about["positions"], memory))
    return about["prompts"], about["tokens"]


def _model(folder: ModelFolder) -> str:
    return sha256((folder.path / MANIFEST).read_bytes())


class Session:
    """Prompts on one accelerator.

    ``encode`` turns a prompt into tokens, by default as the text that is to be continued.
    ``state`` is a file that holds the run after every token.
    """

    def __init__(
        self,
        runner: Runner,
        prompts: str | Sequence[str],
        accelerator: Any,
        *,
        encode: Callable[[str], list[int]] | None = None,
        state: Path | None = None,
    ):
        self.runner, self.accelerator, self._state = runner, accelerator, state
        encode = encode or self._encode
        self.prompts = [encode(p) for p in ([prompts] if isinstance(prompts, str) else prompts)]
        self.begun: list[list[int]] = [[] for _ in self.prompts]  # tokens of an earlier run
        if state is not None and state.exists():
            asked, self.begun = _load(state, runner)
            if asked != self.prompts:
                raise CommandError(f"{state} is the state of another prompt")

    def _encode(self, prompt: str) -> list[int]:
        folder, vocabulary = self.runner.folder, self.runner.plan.shape.vocab_size
        return prompt_tokens(prompt, folder.tokenizer, start=folder.start, vocabulary=vocabulary)

    def timing(self, *, trace: bool = False) -> Timing:
        """A listener that records, from now on, where the cycles of programs go."""
        return Timing(self.runner, self.accelerator.clock, trace=trace)

    def generate(
        self,
        tokens: int,
        *,
        temperature: float = 0.0,
        seed: int = 0,
        ends: Collection[int] = (),
        memory_error: int | None = None,
        tell: Callable[[int, int], None] = lambda sequence, token: None,
    ) -> list[Generation]:
        """Feed the prompts, then tokens of all sequences at once, up to ``tokens`` of each.

        A sequence is complete after ``tokens`` tokens, or after one of ``ends``. The machine
        chooses the most likely token; with a ``temperature`` the host chooses at random. ``tell``
        is called with every token of a sequence, except its end. With ``memory_error`` a line of a
        layer's weights answers with an error while the token of that number, from 0, is computed.
        """
        runner, found = self.runner, [list(own) for own in self.begun]
        before = [len(own) for own in found]
        self.check(tokens, temperature=temperature, memory_error=memory_error)
        first = prefilled = len(runner.runs)
        while active := [k for k, own in enumerate(found) if not _complete(own, tokens, ends)]:
            step = len(found[active[0]])
            if step == memory_error:
                layer = runner.plan.shape.num_hidden_layers // 2
                runner.break_line(layer * runner.lines.layer + runner.lines.of_layer("up"))
            logits = runner.feed({k: found[k][-1:] or self.prompts[k] for k in active})
            if step == 0:
                prefilled = len(runner.runs)
            for sequence in active:
                # A generator for each place, so that an interrupted run chooses the same tokens.
                rng = np.random.default_rng((seed, step))
                token = runner.choices[sequence]
                if temperature > 0:
                    token = chosen(logits[sequence], temperature, rng)
                found[sequence].append(token)
            if self._state is not None:
                _save(self._state, runner, self.prompts, found)
            for sequence in active:
                if found[sequence][-1] not in ends:
                    tell(sequence, found[sequence][-1])
        count = sum(len(own) - max(1, n) for own, n in zip(found, before, strict=True))
        return self._generations(found, runner.runs[first:prefilled], prefilled, count, ends)

    def check(
        self, tokens: int, *, temperature: float = 0.0, memory_error: int | None = None
    ) -> None:
        """Refuse what :meth:`generate` cannot generate."""
        complete = max(map(len, self.begun))
        if tokens <= complete:
            raise CommandError(f"tokens must be at least {complete + 1}, not {tokens}")
        check_temperature(temperature)
        if memory_error is not None and memory_error < complete:
            raise CommandError(f"token {memory_error} is complete already")
        check_context(max(map(len, self.prompts)), tokens, self.runner.plan.context)

    def _generations(
        self,
        found: list[list[int]],
        prefill: list[ProgramRun],
        prefilled: int,
        count: int,
        ends: Collection[int],
    ) -> list[Generation]:
        runner, accelerator = self.runner, self.accelerator
        decode, done = runner.runs[prefilled:], []
        cost = Cost.of(runner, decode, count, accelerator) if decode else None
        for sequence, prompt in enumerate(self.prompts):
            own = [run for run in prefill if sequence in run.sequences]
            ended = found[sequence][-1] in ends
            done.append(
                Generation(
                    model=runner.folder.manifest["model"],
                    block=runner.folder.manifest["target"],
                    clock_mhz=accelerator.clock / 1e6,
                    sequences=len(self.prompts),
                    prompt=prompt,
                    tokens=found[sequence],
                    text=decoded(runner.folder.tokenizer, found[sequence][: -1 if ended else None]),
                    ended=ended,
                    prefill=Cost.of(runner, own, len(prompt), accelerator) if own else None,
                    decode=cost,
                    programs=[*own, *decode],
                )
            )
        return done
