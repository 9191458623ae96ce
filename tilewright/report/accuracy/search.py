"""Anda's search for mantissa lengths on a real model, and what its result is worth."""

from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.golden.params.llm import LlmShape
from tilewright.report.accuracy import WORST, percent_loss, record_source, subject_of
from tilewright.report.html import Markup, figure, join, note, paragraph, section, table
from tilewright.report.plots import Series, curves
from tilewright.studies.accuracy.anda import compare_machines
from tilewright.studies.accuracy.records import load_record

__all__ = ["search_section"]


def search_section(record: dict[str, Any]) -> Markup:
    """The lengths found, the path of the search, and their value on the modelled systems."""
    first = record["searches"][0]
    full = record["weights_of_file"]["calibration"]
    successful = [found for found in record["searches"] if found["best"] is not None]
    return section(
        "Anda's search for mantissa lengths",
        paragraph(
            subject_of(record, "calibration"),
            f"With full-precision activations its perplexity is {first['reference']:.2f};"
            f" with the weights of the file as they are it is {full:.2f}. Losses are those of"
            " perplexity.",
        ),
        _results(successful),
        paragraph(
            "Brute force tries every combination within one bit of the result in each module, the"
            " cheapest first, until one is within the tolerance."
        ),
        _path(record["searches"], successful),
        _systems(record, successful),
        note(
            "Source: computed by the performance model while this page was built, for a prefill of"
            " 2048 tokens of this model on systems of equal peak throughput."
        ),
        record_source("search", record),
        _with_weights_of_file(),
    )


def _lengths(best: dict[str, Any]) -> str:
    return "/".join(map(str, best["lengths"]))


def _results(successful: Sequence[dict[str, Any]]) -> Markup:
    rows = []
    for found in successful:
        best, validation = found["best"], found["validation"]
        optimum = found["brute_force"]["best"]
        rows.append(
            (
                f"{found['tolerance']:.1%}",
                _lengths(best),
                best["saving"],
                percent_loss(best["perplexity"], found["reference"]),
                percent_loss(validation["perplexity"], validation["reference"]),
                len(found["trials"]),
                found["found_after"],
                _lengths(optimum),
                optimum["saving"],
            )
        )
    return table(
        (
            *("Tolerance", "Lengths A_qkv/A_o/A_u/A_d, bits", "Fewer bit operations, x"),
            *("Calibration loss, %", "Validation loss, %", "Combinations tried"),
            *("Found after", "Brute force, bits", "Brute force, fewer bit operations, x"),
        ),
        rows,
    )


def _places(trials: Iterable[dict[str, Any]], reference: float) -> Series:
    return [(t["saving"], percent_loss(t["perplexity"], reference)) for t in trials]


def _path(searches: Sequence[dict[str, Any]], successful: Sequence[dict[str, Any]]) -> Markup:
    points = {
        f"tolerance {found['tolerance']:.1%}": _places(
            (t for t in found["trials"] if t["perplexity"] <= WORST * found["reference"]),
            found["reference"],
        )
        for found in searches
    }
    paths = {
        f"tolerance {found['tolerance']:.1%}": _places(
            (t for t in found["trials"] if t["best"]), found["reference"]
        )
        for found in successful
    }
    return figure(
        curves(
            "anda-search",
            paths,
            points,
            x_label="fewer bit operations, x",
            y_label="loss of perplexity, %",
        ),
        "Every combination that the search tried; a line joins those that became the best."
        " Compare Figure 9 of the Anda paper.",
    )


def _systems(record: dict[str, Any], successful: Sequence[dict[str, Any]]) -> Markup:
    rows = [
        (
            f"{found['tolerance']:.1%}",
            row.machine,
            row.milliseconds,
            row.speedup,
            row.millijoules,
            row.energy_gain,
            row.memory_bytes / 1e6,
            row.memory_gain,
        )
        for found in successful
        for row in compare_machines(LlmShape(**record["shape"]), tuple(found["best"]["lengths"]))
    ]
    return table(
        (
            *("Tolerance", "System", "Time, ms", "Faster, x", "Energy, mJ", "Less energy, x"),
            *("Memory traffic, MB", "Less traffic, x"),
        ),
        rows,
    )


def _with_weights_of_file() -> Markup:
    record = load_record("search-file")
    if record is None or record["best"] is None:
        return Markup("")
    best = record["best"]
    return join(
        [
            paragraph(
                "The same search with other weights.",
                subject_of(record, "calibration"),
                f"At a tolerance of {record['tolerance']:.1%} it finds {_lengths(best)}:"
                f" {best['saving']:.2f} times fewer bit operations at a loss of"
                f" {percent_loss(best['perplexity'], record['reference']):+.2f}%.",
            ),
            record_source("search-file", record),
        ]
    )
