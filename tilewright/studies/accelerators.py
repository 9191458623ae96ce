"""Compiled models on their machines, with the clock, watts and energies of these."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilewright.compiler.folder import ModelFolder
from tilewright.compiler.generate import Session
from tilewright.compiler.host import LATENCY, Runner
from tilewright.compiler.machine import Machine
from tilewright.sim.accelerator import Accelerator, anda, harmonia
from tilewright.studies.chat import encoder

_MAKERS: dict[str, Callable[[Any, dict[str, Any]], Accelerator]] = {
    "anda": lambda params, formats: anda(formats["mantissas"], params),
    "harmonia": lambda params, formats: harmonia(params),
}


def accelerator_of(machine: Machine) -> Accelerator:
    """The published figures of a machine, for its size and formats."""
    return _MAKERS[machine.name](machine.params, machine.about())


def session_of(
    folder: ModelFolder,
    prompts: str | Sequence[str],
    *,
    latency: int | None = None,
    rtl: bool = False,
    chat: bool = False,
    state: Path | None = None,
) -> Session:
    """Open a session on a compiled model, with ``rtl`` on the simulated Verilog too."""
    kind: type[Runner] = Runner
    if rtl:
        # Imported here: simulators are needed for this alone.
        from tilewright.studies.rtl_token import RtlRunner

        kind = RtlRunner
    runner = kind(folder, latency=LATENCY if latency is None else latency)
    encode = encoder(folder, folder.plan.shape.vocab_size, chat=chat)
    return Session(runner, prompts, accelerator_of(runner.machine), encode=encode, state=state)
