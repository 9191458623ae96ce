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

COMMAND = (
    "tilewright run smollm2 --on harmonia --chat --tokens 24"
    ' --prompt "Why is the sky blue? Answer in one sentence."'
)
SERIES = ("#0b6bb3", "#c4511d", "#2c7d4a", "#8a4fa8", "#a67c00", "#a8325e", "#1d7f86", "#6b6157")
# The colours of the site in daylight; a picture in README.md has no style sheet.
_COLOURS = {"currentColor": "#1d1f21", "var(--line)": "#d9dad5"} | {
    f"var(--series-{k})": colour for k, colour in enumerate(SERIES)
}


PICTURES: dict[str, Callable[[], str]] = {
    "accuracy": accuracy.frontier,
    "deca": lambda: servers.speedups_by_scheme("spr-hbm"),
    "pes": lambda: next(pes.efficiencies()),
}


def standalone(markup: str) -> str:
    """Return the drawing of a figure as an SVG file: its own size, colours and background."""
    (svg,) = re.findall(r"<svg.*?</svg>", markup, re.DOTALL)
    for of_page, colour in _COLOURS.items():
        svg = svg.replace(of_page, colour)
    _, _, width, height = re.search(r'viewBox="([^"]*)"', svg)[1].split()  # type: ignore[index]
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" font-family="sans-serif">'
        f'<rect width="{width}" height="{height}" fill="white"/>'
    )
    return opening + svg[svg.index(">") + 1 :] + "\n"


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
