"""One run of tests as data: where and when it was, and the outcome of every test."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilewright.base.files import write_atomic

__all__ = ["OUTCOMES", "Outcome", "Run", "read_run"]

OUTCOMES = ("passed", "failed", "skipped")


@dataclass(frozen=True)
class Outcome:
    """Of one test: ``tests/FILE.py::NAME[CASE]``."""

    outcome: str
    seconds: float  # on a machine that does other work too: a guide for dividing the next run

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise ValueError(f"{self.outcome!r} is no outcome: one of {', '.join(OUTCOMES)}")


@dataclass(frozen=True)
class Run:
    """Of pytest on one machine, a part of all tests or all of them."""

    commit: str
    changed: bool  # files of the checkout were not those of the commit
    date: str  # UTC, YYYY-MM-DD
    machine: str  # its architecture
    python: str
    shard: str  # "K/N", or nothing
    sources: dict[str, str]  # of each test file, a key of all sources it reaches
    tests: dict[str, Outcome]

    def write(self, path: Path) -> None:
        """Write it as JSON, at once or not at all."""
        write_atomic(path, json.dumps(asdict(self), indent=1) + "\n")


def read_run(path: Path) -> Run:
    """Read what ``pytest --outcomes FILE`` wrote."""
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        tests = {name: Outcome(**entry) for name, entry in data.pop("tests").items()}
        return Run(**data, tests=tests)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        told = " ".join(str(error).split())  # names of the file are in it, and may have any text
        raise ValueError(f"{path} is no file of `pytest --outcomes`: {told}") from None
