"""Text from a compiled model, and what it cost on the accelerator."""

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.base.errors import CommandError
from tilewright.golden.llm.tokenizer import Tokenizer
from tilewright.studies.choosing import chosen
from tilewright.studies.compiled.folder import ModelFolder
from tilewright.studies.compiled.runner import ProgramRun, Runner
from tilewright.studies.compiled.timing import LayerTime
from tilewright.studies.prompts import prompt_tokens

__all__ = ["Cost", "Generation", "Text", "decoded", "encoded", "generate"]


@dataclass(frozen=True)
class Cost:
    """Programs of one kind, together."""

    programs: int
    tokens: int
    cycles: int
    milliseconds: float
    bytes_read: int
    bytes_written: int
    millijoules: dict[str, float]  # array, buffers, memory; from the watts of the paper
    busy_cycles: dict[str, int]  # of every unit; they work at the same time
    bound: str  # the busiest unit

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


@dataclass(frozen=True)
class Generation:
    """What was generated; cycles are those of the cycle model, which equals the RTL's."""

    model: str
    block: str  # as it was named
    clock_mhz: float
    prompt: list[int]
    tokens: list[int]
    text: str
    prefill: Cost | None  # up to the logits of the first token; None where a run goes on
    decode: Cost | None  # all tokens but the first
    programs: list[ProgramRun]
    layers: list[LayerTime] | None = None  # of the last step, where they were asked for


def encoded(folder: ModelFolder, prompt: str) -> list[int]:
    """Tokens of a text, as the model's files have them."""
    return prompt_tokens(
        prompt, folder.tokenizer, start=folder.start, vocabulary=folder.plan.config.vocab_size
    )


def decoded(folder: ModelFolder, tokens: Sequence[int]) -> str:
    """The text of tokens; of a model without a tokenizer their numbers."""
    if folder.tokenizer is None:
        return "".join(f" {token}" for token in tokens)
    return folder.tokenizer.decode(tokens)


class Text:
    """The text as it grows; half a character waits for the other."""

    def __init__(self, tokenizer: Tokenizer | None):
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, token: int) -> str:
        """What one more token adds to the text."""
        if self._tokenizer is None:
            return f" {token}"
        return self._decoder.decode(self._tokenizer.content(token))


def generate(
    runner: Runner,
    prompt: Sequence[int],
    tokens: int,
    *,
    temperature: float = 0.0,
    seed: int = 0,
    begun: Sequence[int] = (),
    tell: Callable[[list[int]], None] = lambda found: None,
) -> Generation:
    """Feed ``prompt``, then token after token; ``tell`` hears of all found whenever one is chosen.

    The most likely one is chosen, by the machine where its program has room for that, or with a
    ``temperature`` one at random, by the host. ``begun``
    are tokens that an earlier run has found, whose state the runner has been given.
    """
    if tokens <= len(begun):
        raise CommandError(f"tokens must be at least {len(begun) + 1}, not {tokens}")
    first, found = len(runner.runs), list(begun)
    logits = runner.feed(found[-1:] if begun else prompt)
    prefilled = first if begun else len(runner.runs)
    while True:
        # A generator for each place, so that a run that goes on chooses as one without a break.
        if temperature <= 0 and runner.choice is not None:
            found.append(runner.choice)
        else:
            rng = np.random.default_rng((seed, len(found)))
            found.append(chosen(logits, temperature, rng))
        tell(found)
        if len(found) == tokens:
            break
        logits = runner.feed(found[-1:])
    folder, runs = runner.folder, runner.runs
    prefill, decode = runs[first:prefilled], runs[prefilled:]
    return Generation(
        model=folder.manifest["model"],
        block=folder.manifest["target"],
        clock_mhz=runner.clock / 1e6,
        prompt=list(prompt),
        tokens=found,
        text=decoded(folder, found),
        prefill=_cost(runner, prefill, len(prompt)) if prefill else None,
        decode=_cost(runner, decode, tokens - max(1, len(begun))) if decode else None,
        programs=runs[first:],
    )


def _cost(runner: Runner, runs: Sequence[ProgramRun], tokens: int) -> Cost:
    params = runner.plan.params
    machine = runner.system.accelerator(runner.plan)
    total = {name: sum(run.counters[name] for run in runs) for name in runs[0].counters}
    lines = {name: total[f"lines_{name}"] * params.line_bytes for name in ("read", "written")}
    # A sum reads a group of every row's activations and of every column's operands.
    activation = machine.activation_bits(machine.lengths["qkv"])
    each = params.group * (params.rows * activation + params.columns * machine.weight_bits)
    busy = total["matrix_busy"]
    joules = {name: watts * busy / machine.clock for name, watts in machine.power.items()}
    joules["buffers"] = busy * each * machine.buffer_pj_per_bit * 1e-12
    joules["memory"] = 8 * sum(lines.values()) * machine.memory_pj_per_bit * 1e-12
    busy_cycles = {name: total[name] for name in runner.system.units}
    return Cost(
        programs=len(runs),
        tokens=tokens,
        cycles=total["cycles"],
        milliseconds=1e3 * total["cycles"] / machine.clock,
        bytes_read=lines["read"],
        bytes_written=lines["written"],
        millijoules={name: 1e3 * value for name, value in joules.items()},
        busy_cycles=busy_cycles,
        bound=max(busy_cycles, key=lambda name: busy_cycles[name]),
    )
