"""ABC, which proves things about AND gates and registers."""

import subprocess
from pathlib import Path

import pyosys

__all__ = ["ask"]


def ask(folder: Path, command: str, seconds: int) -> str:
    """What ABC says to a command in a folder, or begins to say in so much processor time."""
    abc = str(Path(pyosys.__file__).with_name("yosys-abc"))
    done = subprocess.run(
        ["sh", "-c", f'ulimit -t {seconds}; exec "$0" -c "{command}"', abc],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout
