"""What a page of the report is made from, and what it returns."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from tilewright.base.console import progress
from tilewright.report.html import Markup
from tilewright.report.measured import MEASURED
from tilewright.synth.record import load_records, stale_records

__all__ = ["Context", "Page"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Page:
    """The content of one page and the data behind it.

    ``failures`` are checks that failed; the command then fails. ``problems`` are what a reader
    must not overlook, such as a record that no longer belongs to the RTL; the command fails on
    them with ``--strict``. The index repeats both.
    """

    summary: str  # one sentence for the index
    body: Markup
    data: object  # everything the page shows, as plain JSON data
    failures: Sequence[str] = ()
    problems: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Context:
    """What every page may use to build itself."""

    records: Path  # folder of committed synthesis records
    cases: int  # operand sets per live check
    measured: Path = MEASURED  # folder of committed records of what studies measured
    own: tuple[str, ...] = ()  # designs of the user's own: tilewright.studies.own_designs

    @cached_property
    def synthesised(self) -> dict[str, dict[str, Any]]:
        """The synthesis records by name."""
        return load_records(self.records)

    @cached_property
    def stale(self) -> dict[str, str]:
        """The synthesis records that no longer describe their block, and how to renew each."""
        return stale_records(self.records, lambda names: self.track("records", names))

    def track(self, what: str, items: Iterable[T], name: Callable[[T], str] = str) -> Iterator[T]:
        """Yield ``items`` one by one, with a progress bar on stderr."""
        items = list(items)
        with progress(what, len(items)) as tick:
            for item in items:
                tick(name(item), steps=0)
                yield item
                tick(name(item))
