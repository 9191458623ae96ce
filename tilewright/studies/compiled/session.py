"""A prompt and what follows it: a run that may be interrupted and go on."""

from collections.abc import Callable
from pathlib import Path

from tilewright.base.errors import CommandError
from tilewright.studies.compiled.folder import ModelFolder
from tilewright.studies.compiled.generating import Generation, encoded, generate
from tilewright.studies.compiled.on_rtl import RtlRunner
from tilewright.studies.compiled.runner import LATENCY, Runner
from tilewright.studies.compiled.states import load_state, save_state
from tilewright.studies.compiled.timing import Timing

__all__ = ["Session"]


class Session:
    """One prompt on one accelerator; ``state`` is a file that keeps the run after every token."""

    def __init__(
        self,
        folder: ModelFolder,
        prompt: str,
        *,
        state: Path | None = None,
        latency: int = LATENCY,
        rtl: bool = False,
    ):
        """With ``rtl`` every program also runs on the simulated Verilog, and must do the same."""
        self.runner = (RtlRunner if rtl else Runner)(folder, latency=latency)
        self.prompt, self.begun = encoded(folder, prompt), list[int]()
        self._state = state
        if state is not None and state.exists():
            saved = load_state(state, self.runner)
            if saved.prompt != self.prompt:
                raise CommandError(f"{state} is the state of another prompt")
            self.begun = saved.tokens

    def timing(self, *, trace: bool = False) -> Timing:
        """What hears, from now on, where the cycles of programs go."""
        return Timing(self.runner, trace=trace)

    def generate(
        self,
        tokens: int,
        *,
        temperature: float = 0.0,
        seed: int = 0,
        memory_error: int | None = None,
        tell: Callable[[int], None] = lambda token: None,
    ) -> Generation:
        """Tokens up to ``tokens`` in all; ``tell`` hears of each as it is chosen.

        With ``memory_error`` a line of a layer's weights answers with an error while the token of
        that number, from 0, is computed.
        """
        runner = self.runner
        if memory_error is not None and memory_error < len(self.begun):
            raise CommandError(f"token {memory_error} is complete already")

        def break_at(complete: int) -> None:
            if complete == memory_error:
                layers = runner.plan.config.num_hidden_layers
                runner.break_line(layers // 2 * runner.lines.layer + runner.lines.matrices["up"])

        def hear(found: list[int]) -> None:
            if self._state is not None:
                save_state(self._state, runner, self.prompt, found)
            tell(found[-1])
            break_at(len(found))

        break_at(len(self.begun))
        return generate(
            runner,
            self.prompt,
            tokens,
            temperature=temperature,
            seed=seed,
            begun=self.begun,
            tell=hear,
        )
