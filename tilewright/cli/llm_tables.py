"""Tables of answers about language models: aligned for people, CSV for other programs."""

import csv
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tilewright.base.console import print_table, remark

if TYPE_CHECKING:
    from tilewright.sim.llm import LlmResult
    from tilewright.sim.serving import GenerationResult

    Answer: TypeAlias = LlmResult | GenerationResult


def print_rows(found: Sequence["Answer"]) -> None:
    """Print one row for each answer."""
    from tilewright.sim.llm import LlmResult

    steps = isinstance(found[0], LlmResult)
    times = ("MS",) if steps else ("FIRST MS", "TOKEN MS", "TOTAL MS")
    columns: dict[str, Callable[[Answer], str | int]] = {
        "MODEL": lambda row: row.model,
        "SYSTEM": lambda row: row.system,
    }
    for name in _differing(found):
        columns[name.upper()] = lambda row, name=name: row.settings.get(name, "-")  # type: ignore[misc]
    columns |= {
        "ENGINE": lambda row: row.engine or "-",
        "SCHEME": lambda row: row.scheme,
        "KV": lambda row: row.kv_format,
        "BATCH": lambda row: row.batch,
        "CONTEXT": lambda row: row.contexts_text,
        **{name: lambda row, k=k: _times(row)[k] for k, name in enumerate(times)},  # type: ignore[misc]
        "TOKENS/S": lambda row: f"{row.tokens_per_second:.2f}",
        "J/TOKEN": lambda row: f"{row.joules_per_token:.3g}",
    }
    if steps:
        columns["BOUND"] = lambda row: row.bound if isinstance(row, LlmResult) else ""
    columns["MEMORY GB"] = lambda row: (
        f"{(row.memory_bytes.weights + row.memory_bytes.cache) / 1e9:.2f}"
    )
    columns["FITS"] = lambda row: "yes" if row.memory_bytes.fits else "no"
    print_table(list(columns), [[value(row) for value in columns.values()] for row in found])


def _differing(found: Sequence["Answer"]) -> list[str]:
    """Return the fields of the system in which rows differ."""
    names = dict.fromkeys(name for row in found for name in row.settings)
    return [name for name in names if len({row.settings.get(name) for row in found}) > 1]


def _times(row: "Answer") -> list[str]:
    from tilewright.sim.llm import LlmResult

    if isinstance(row, LlmResult):
        return [f"{row.latency_ms:.2f}"]
    return [f"{value:.2f}" for value in (row.first_token_ms, row.token_ms, row.total_ms)]


def print_csv(found: Sequence["Answer"]) -> None:
    """Print a table of comma-separated values with every plain field of each answer."""
    from tilewright.sim.sweep import row_of

    rows = [row_of(answer) for answer in found]
    writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def show_remarks(found: Sequence["Answer"]) -> None:
    """Say each remark once; of those that differ in a number, the first."""
    from tilewright.sim.serving import distinct_remarks

    for line in distinct_remarks(line for answer in found for line in answer.remarks):
        remark(f"tilewright: {line}")
