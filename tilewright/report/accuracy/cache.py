"""Harmonia's KV cache on a real model: perplexity, size, and retrieval of early facts."""

from typing import Any

from tilewright.report.accuracy import percent_loss, record_source, subject_of
from tilewright.report.html import Markup, join, paragraph, section, table
from tilewright.studies.accuracy.records import load_record

__all__ = ["cache_section"]


def cache_section(record: dict[str, Any]) -> Markup:
    """Every variant of the cache, the sizes of its windows, and its scaling factors."""
    rows = record["variants"]
    full = rows[0]
    quiz = {row["name"]: row for row in record["retrieval"]}
    before, after = sum(record["learning"]["error_before"]), sum(record["learning"]["error_after"])
    windows = record["windows"]
    locals_ = list(dict.fromkeys(row["local"] for row in windows))
    return section(
        "Harmonia's KV cache",
        paragraph(
            subject_of(record, "validation"),
            f"Sizes are those of the cache of {record['cache_tokens']} tokens. Every query meets"
            " the cache as it was when the query came. All other activations are 8-bit block"
            " floating point (BFP).",
        ),
        table(
            (
                *("Cache", "Perplexity", "Validation loss, %", "Size, MB", "Smaller, x"),
                *("Likelihood of the answer", "First choice, %"),
            ),
            [
                (
                    row["name"],
                    row["perplexity"],
                    percent_loss(row["perplexity"], full["perplexity"]),
                    row["cache_bytes"] / 1e6,
                    full["cache_bytes"] / row["cache_bytes"],
                    quiz[row["name"]]["likelihood"],
                    100 * quiz[row["name"]]["first_choice"],
                )
                for row in rows
            ],
        ),
        paragraph(
            "The last two columns are of a retrieval test, which asks late for numbers that were"
            " given early, with prose between: the likelihood of the tokens of the answer, and how"
            " many of them the model would have chosen."
        ),
        table(
            (
                "Initial window, tokens",
                *(f"Loss with a local window of {local} tokens, %" for local in locals_),
            ),
            [
                (
                    str(initial),
                    *(
                        percent_loss(row["perplexity"], full["perplexity"])
                        for row in windows
                        if row["initial"] == initial
                    ),
                )
                for initial in dict.fromkeys(row["initial"] for row in windows)
            ],
        ),
        paragraph(
            "The table above gives the loss by the sizes of the two windows; all other tokens have"
            " 4 bits, and there are neither offsets nor factors."
        ),
        paragraph(
            f"The scaling factors are learned in {record['learning']['steps']} steps per layer on"
            f" {record['learning']['tokens']} tokens. They lower the error that converting Q and K"
            f" causes in the output of attention, summed over layers, by {1 - after / before:.0%}."
        ),
        record_source("kv", record),
        _with_weights_of_file(),
    )


def _with_weights_of_file() -> Markup:
    record = load_record("kv-file")
    if record is None:
        return Markup("")
    full = record["variants"][0]["perplexity"]
    return join(
        [
            paragraph("The same with other weights.", subject_of(record, "validation")),
            table(
                ("Cache", "Perplexity", "Validation loss, %"),
                [
                    (row["name"], row["perplexity"], percent_loss(row["perplexity"], full))
                    for row in record["variants"]
                ],
            ),
            record_source("kv-file", record),
        ]
    )
