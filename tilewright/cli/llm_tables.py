"""Tables of answers about language models: aligned for people, CSV for other programs."""

import csv
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from tilewright.base.console import print_table, remark

if TYPE_CHECKING:
    from tilewright.sim.llm import LlmResult
    from tilewright.sim.serving import GenerationResult

    Answer: TypeAlias = LlmResult | GenerationResult

__all__ = ["contexts_text", "print_csv", "print_rows", "show_remarks"]


def contexts_text(found: "Answer") -> str:
    """Return the tokens of each sequence, in the words of ``--context``."""
    if len(found.contexts) == 1:
        return str(found.contexts[0][1])
    return ",".join(f"{sequences}x{tokens}" for sequences, tokens in found.contexts)


def print_rows(found: Sequence["Answer"]) -> None:
    """Print one row for each answer."""
    from tilewright.sim.llm import LlmResult

    steps = isinstance(found[0], LlmResult)
    priced = found[0].cost is not None
    spread = any(row.tensor * row.pipeline > 1 for row in found)
    times = ("MS",) if steps else ("FIRST MS", "TOKEN MS", "TOTAL MS")
    print_table(
        (
            *("MODEL", "SYSTEM", *(("DEVICES",) if spread else ()), "ENGINE", "SCHEME", "KV"),
            *("BATCH", "CONTEXT", *times),
            *(
                "TOKENS/S",
                "J/TOKEN",
                *(("$/MILLION",) if priced else ()),
                *(("BOUND",) if steps else ()),
                "MEMORY GB",
                "FITS",
            ),
        ),
        [
            (
                *(row.model, row.system, *((f"{row.tensor}x{row.pipeline}",) if spread else ())),
                *(row.engine or "-", row.scheme, row.kv_format, row.batch),
                *(contexts_text(row), *_times(row)),
                *(f"{row.tokens_per_second:.2f}", f"{row.joules_per_token:.3g}"),
                *(() if row.cost is None else (f"{row.cost.total:.3g}",)),
                *((row.bound,) if isinstance(row, LlmResult) else ()),
                f"{(row.memory_bytes.weights + row.memory_bytes.cache) / 1e9:.2f}",
                "yes" if row.memory_bytes.fits else "no",
            )
            for row in found
        ],
    )


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
