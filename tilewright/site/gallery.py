"""Pictures of README.md: standalone drawings of the site, and a terminal.

``python -m tilewright.site.gallery docs/gallery`` writes them again; with ``--terminal`` also the
terminal, which takes a minute, as a language model runs for it.
"""

import argparse
import io
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

from tilewright.base.files import write_atomic
from tilewright.site import accuracy, pes, servers
from tilewright.site.canvas import standalone

COMMAND = (
    "tilewright run smollm2 --on harmonia --chat --tokens 24"
    ' --prompt "Why is the sky blue? Answer in one sentence."'
)
PICTURES: dict[str, Callable[[], str]] = {
    "accuracy": accuracy.frontier,
    "deca": lambda: servers.speedups_by_scheme("spr-hbm"),
    "pe-accuracy": pes.accuracy_frontier,
    "pes": lambda: next(pes.efficiencies()),
}


def terminal(command: str) -> str:
    """Run a command and return a picture of a terminal with its output."""
    from rich.console import Console
    from rich.text import Text

    words = shlex.split(command)
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    console = Console(record=True, width=110, file=io.StringIO())
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text(ran.stdout.rstrip()))
    svg = console.export_svg(title="tilewright")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # fonts from the web


def main() -> None:
    """Write all pictures into a folder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--terminal", action="store_true", help=f"the terminal too: {COMMAND}")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, drawn in PICTURES.items():
        write_atomic(args.folder / f"{name}.svg", standalone(drawn()))
    if args.terminal:
        write_atomic(args.folder / "terminal.svg", terminal(COMMAND))


if __name__ == "__main__":
    main()
