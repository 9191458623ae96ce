"""Sessions on compiled models, with the figures of their machines, and prompts as tokens.

A prompt is plain text, or a conversation by the chat template of a model's own files.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.compiler.folder import ModelFolder
from tilewright.compiler.generate import Session
from tilewright.compiler.host import Runner
from tilewright.compiler.machine import Machine
from tilewright.compiler.text import prompt_tokens
from tilewright.golden.llm.model import Chat, Model
from tilewright.golden.llm.tokenizer import Tokenizer
from tilewright.golden.machine.port import memory_timing
from tilewright.sim.accelerator import Accelerator, anda, harmonia

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
    memory: str | None = None,
    rtl: bool = False,
    chat: bool = False,
    state: Path | None = None,
) -> Session:
    """Open a session on a compiled model, with ``rtl`` on the simulated Verilog too.

    ``memory`` is by default flat, of ``latency``, or one of ``tilewright.golden.machine.dram``.
    """
    kind: type[Runner] = Runner
    if rtl:
        # Imported here: simulators are needed for this alone.
        from tilewright.studies.rtl_token import RtlRunner

        kind = RtlRunner
    machine = folder.plan.machine
    accelerator = accelerator_of(machine)
    runner = kind(folder, latency=memory_timing(memory, latency, machine.params, accelerator.clock))
    encode = encoder(folder, folder.plan.shape.vocab_size, chat=chat)
    return Session(runner, prompts, accelerator, encode=encode, state=state)


def encoder(
    model: Model | ModelFolder, vocabulary: int, *, chat: bool
) -> Callable[[str], list[int]]:
    """Return the function that turns a prompt, or with ``chat`` a message, into tokens."""
    if chat:
        return partial(chat_tokens, model.chat, model.tokenizer)
    return partial(
        prompt_tokens, tokenizer=model.tokenizer, start=model.start, vocabulary=vocabulary
    )


def chat_tokens(chat: Chat, tokenizer: Tokenizer | None, message: str) -> list[int]:
    """Return the tokens of a user's message, up to where the answer begins."""
    if chat.template is None or tokenizer is None:
        raise CommandError("--chat: the model's files have no chat template; leave --chat out")
    text = _rendered(chat, message)
    if not chat.control:
        return [int(token) for token in tokenizer.encode(text)]
    longest_first = sorted(chat.control, key=len, reverse=True)
    tokens: list[int] = []
    for piece in re.split(f"({'|'.join(map(re.escape, longest_first))})", text):
        if piece in chat.control:
            tokens.append(chat.control[piece])
        elif piece:
            tokens += [int(token) for token in tokenizer.encode(piece)]
    return tokens


def _rendered(chat: Chat, message: str) -> str:
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise CommandError("--chat needs Jinja: pip install jinja2") from None

    def refuse(reason: str) -> None:
        raise CommandError(f"--chat: the model's template refuses the message: {reason}")

    # As Transformers sets it up; templates come with models, so they run in a sandbox.
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    try:
        return environment.from_string(chat.template or "").render(
            messages=[{"role": "user", "content": message}],
            add_generation_prompt=True,
            **{"bos_token": "", "eos_token": "", **chat.names},
        )
    except TemplateError as error:
        raise CommandError(f"--chat: the model's template cannot be used: {error}") from None
