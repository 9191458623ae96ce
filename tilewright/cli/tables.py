"""Tables of results: a row for each record, or for each answer about a language model."""

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewright.base.console import print_table, remark
from tilewright.base.table import Column, Table

if TYPE_CHECKING:
    from tilewright.sim.llm import LlmResult
    from tilewright.sim.serving import GenerationResult

    Answer: TypeAlias = LlmResult | GenerationResult


Columns: TypeAlias = Mapping[str, Column]


def print_records(records: Iterable[Any], columns: Columns) -> None:
    """Print a row for each record; where a figure is missing, a cell is empty."""
    rows = Table.of(records, columns).rows
    print_table(list(columns), [["" if value is None else value for value in row] for row in rows])


def print_answers(found: Sequence["Answer"]) -> None:
    """Print one row for each answer."""
    from tilewright.sim.llm import LlmResult

    columns: dict[str, Column] = {"MODEL": "model", "SYSTEM": "system"}
    for name in _differing(found):
        columns[name.upper()] = partial(_setting, name)
    columns |= {
        "ENGINE": lambda row: row.engine or "-",
        "SCHEME": "scheme",
        "KV": "kv_format",
        "BATCH": "batch",
        "CONTEXT": "contexts_text",
    }
    if steps := isinstance(found[0], LlmResult):
        columns["MS"] = "latency_ms:.2f"
    else:
        columns |= {"FIRST MS": "first_token_ms:.2f", "TOKEN MS": "token_ms:.2f"}
        columns |= {"TOTAL MS": "total_ms:.2f"}
    columns |= {"TOKENS/S": "tokens_per_second:.2f", "J/TOKEN": "joules_per_token:.3g"}
    if steps:
        columns |= {"KIND": "kind", "BOUND": "bound"}
    columns["MEMORY GB"] = lambda row: (
        f"{(row.memory_bytes.weights + row.memory_bytes.cache) / 1e9:.2f}"
    )
    columns["FITS"] = lambda row: row.memory_bytes.fits
    print_records(found, columns)


def _setting(name: str, row: "Answer") -> str:
    return row.settings.get(name, "-")


def _differing(found: Sequence["Answer"]) -> list[str]:
    """Names of settings whose values are not the same in all answers."""
    names = dict.fromkeys(name for row in found for name in row.settings)
    return [name for name in names if len({row.settings.get(name) for row in found}) > 1]


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
