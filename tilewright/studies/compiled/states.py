"""The state of a run in a file, from which another run goes on behind its last complete token."""

import json
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic
from tilewright.studies.compiled.folder import MANIFEST, ModelFolder, sha256
from tilewright.studies.compiled.runner import Runner, State

__all__ = ["SavedRun", "load_state", "save_state"]


@dataclass(frozen=True)
class SavedRun:
    """Tokens of a run that was interrupted."""

    prompt: list[int]
    tokens: list[int]  # complete ones


def save_state(path: Path, runner: Runner, prompt: list[int], tokens: list[int]) -> None:
    """Write what a run needs to go on; the file is the old one or the new one, whole."""
    state, content = runner.state(), BytesIO()
    words = {"model": _model(runner.folder), "prompt": prompt, "tokens": tokens}
    about = json.dumps(words | {"position": state.position})
    np.savez(content, memory=state.memory, about=np.frombuffer(about.encode(), np.uint8))
    write_atomic(path, content.getvalue())


def load_state(path: Path, runner: Runner) -> SavedRun:
    """Give a runner the state of a file; the file must be of the same compiled model."""
    try:
        with np.load(path) as saved:
            about = json.loads(saved["about"].tobytes())
            memory = saved["memory"]
    except (ValueError, KeyError, EOFError, BadZipFile):
        raise CommandError(f"{path} is no state of a run") from None
    if about["model"] != _model(runner.folder):
        raise CommandError(f"{path} is the state of another compiled model")
    runner.restore(State(about["position"], memory))
    return SavedRun(about["prompt"], about["tokens"])


def _model(folder: ModelFolder) -> str:
    return sha256((folder.path / MANIFEST).read_bytes())
