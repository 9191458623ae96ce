"""How many lines of functions the ordinary tests run: the record of ``nox -s lines``."""

import json
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LINES", "Ran", "load_lines"]

LINES = Path(__file__).parents[1] / "records" / "lines.json"


@dataclass(frozen=True)
class Ran:
    """Of one package."""

    package: str
    files: int
    lines: int  # of functions
    ran: int

    @property
    def share(self) -> float:
        """The part of the lines that ran."""
        return self.ran / max(self.lines, 1)


def load_lines(path: Path = LINES) -> list[Ran]:
    """Return one line a package; nothing where no run was recorded."""
    if not path.exists():
        return []
    packages = json.loads(path.read_text())["packages"]
    return [Ran(package=name, **entry) for name, entry in packages.items()]
