"""Output of the commands: results on stdout, progress and remarks on stderr."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TextIO

from tilewright.base.table import Table


def print_json(data: Any) -> None:
    """Print ``data`` on stdout, keys in the order given, so that two runs compare as text.

    Result objects (dataclasses) are written by their fields, at any depth, and paths as text.
    """
    print(json.dumps(data, indent=2, default=_plain))


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON data")


def print_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under a header by :func:`show`."""
    show(Table(header, list(rows)))


def show(table: Table) -> None:
    """Print a table; where a person watches and it is too wide, its columns are wrapped."""
    # rich is imported here because most commands end before it would be needed.
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table as Grid

        console = Console(highlight=False, markup=False)
        if max(map(len, str(table).splitlines())) > console.width:
            grid = Grid(
                title=table.title or None,
                box=None,
                pad_edge=False,
                title_justify="left",
                header_style="",
            )
            for name, right in zip(table.header, table.right, strict=True):
                grid.add_column(name.upper(), justify="right" if right else "left", overflow="fold")
            for row in table.texts:
                grid.add_row(*row)
            console.print(grid)
            return
    print(table)


def remark(text: str) -> None:
    """A line for the reader that is not part of the result."""
    print(text, file=sys.stderr)


@contextmanager
def progress(what: str, total: int = 1) -> Iterator["Ticker"]:
    """A bar on stderr, only where a person watches; ``tick("next thing")`` moves it by one.

    A spinner and the time move during each step. A single step has no count to show: its bar
    pulses.
    """
    # rich is imported here because most commands end before a bar would be seen.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(stderr=True)
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        *([MofNCompleteColumn()] if total > 1 else []),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        yield Ticker(bar, bar.add_task(what, total=total if total > 1 else None), what)


@contextmanager
def growing_text(file: TextIO) -> Iterator[Callable[[str, str], None]]:
    """Text written piece by piece; ``add(piece, status)`` shows a status line below it.

    The status line is shown only where a person watches, and disappears at the end.
    """
    if not file.isatty():

        def plain(piece: str, status: str = "") -> None:
            print(piece, end="", flush=True, file=file)

        try:
            yield plain
        finally:
            print(file=file)
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    text = Text()
    with Live(console=Console(file=file), auto_refresh=False, vertical_overflow="visible") as live:

        def add(piece: str, status: str = "") -> None:
            text.append(piece)
            live.update(Group(text, Text(status, style="dim")), refresh=True)

        try:
            yield add
        finally:
            live.update(text, refresh=True)


class Ticker:
    """Moves one bar of :func:`progress`."""

    def __init__(self, bar: Any, task: Any, what: str):
        self._bar, self._task, self._what = bar, task, what

    def __call__(self, doing: str = "", steps: int = 1) -> None:
        """Advance by ``steps``; ``doing`` names the next step."""
        description = f"{self._what}: {doing}" if doing else self._what
        self._bar.update(self._task, advance=steps, description=description)
