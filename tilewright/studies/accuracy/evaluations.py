"""A file that remembers perplexities, so that an interrupted experiment goes on where it was.

It belongs to one subject: model, weights, text and windows. Each result is written at once, and so
that an interruption leaves the file as it was before or after it, never in between.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.base.files import write_atomic

__all__ = ["Evaluations"]


class Evaluations:
    """Perplexities by name; without a path they are remembered for this run alone."""

    def __init__(self, path: Path | None, identity: dict[str, Any]):
        self.path = path
        self.identity = json.loads(json.dumps(identity))  # as the file returns it
        self.found: dict[str, Any] = {}  # perplexities, and answers of tasks as digits
        if path is not None and path.exists():
            self.found = self._read(path)

    def __call__(self, name: str, measure: Callable[[], Any]) -> Any:
        """Return what is called ``name``; it is measured if it is not known yet."""
        if name not in self.found:
            self.found[name] = measure()
            if self.path is not None:
                content = {"subject": self.identity, "perplexities": self.found}
                write_atomic(self.path, json.dumps(content, indent=2) + "\n")
        return self.found[name]

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            stored = json.loads(path.read_text())
            subject = dict(stored["subject"])
            found = dict(stored["perplexities"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CommandError(f"{path} is no log of perplexities: {error!r}") from None
        for key in sorted({*subject, *self.identity}):
            here, there = self.identity.get(key), subject.get(key)
            if here != there:
                raise CommandError(
                    f"{path} belongs to another subject: its {key} is {there!r}, not {here!r}"
                )
        return found
