"""The state of a run in a file, from which another run continues after its last complete token."""

import json
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic
from tilewright.compiler.folder import MANIFEST, ModelFolder, sha256
from tilewright.compiler.host import Runner, State


@dataclass(frozen=True)
class SavedRun:
    """Tokens of every sequence of a run that was interrupted."""

    prompts: list[list[int]]
    tokens: list[list[int]]  # complete ones


def save_state(path: Path, runner: Runner, saved: SavedRun) -> None:
    """Write the state that a run continues from, atomically."""
    state, content = runner.state(), BytesIO()
    words = {"model": _model(runner.folder), **vars(saved), "positions": state.positions}
    about = np.frombuffer(json.dumps(words).encode(), np.uint8)
    np.savez(content, memory=state.memory, about=about)
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
    runner.restore(State(about["positions"], memory))
    return SavedRun(about["prompts"], about["tokens"])


def _model(folder: ModelFolder) -> str:
    return sha256((folder.path / MANIFEST).read_bytes())
