"""The search over all eight sites of a decoder layer, beyond what the papers do."""

from typing import Any

from tilewright.report.accuracy import PAPER, WORST, percent_loss, record_source, subject_of
from tilewright.report.html import Markup, figure, paragraph, section, table
from tilewright.report.plots import Series, panels
from tilewright.studies.accuracy.frontier import cheapest, pareto

__all__ = ["frontier_section"]


def frontier_section(record: dict[str, Any]) -> Markup:
    """What the searches found, beside Harmonia as published."""
    reference, full = record["reference"], record["full"]
    kinds = {
        "search, one length": _trials(record, "one length"),
        "search within windows": _trials(record, "windows"),
        "Harmonia's own": record["fixed"],
    }
    paper = next(point for point in record["fixed"] if point["name"] == PAPER)
    names = {"moved": "moved: bits of the cache read, %", "computed": "computed: bit operations, %"}
    columns: dict[str, tuple[dict[str, Series], dict[str, Series]]] = {}
    rows = []
    for price, label in names.items():
        columns[label] = (
            {
                k: _places(pareto(points, price), price, full, reference)
                for k, points in kinds.items()
            },
            {k: _places(points, price, full, reference) for k, points in kinds.items()},
        )
        for kind, points in kinds.items():
            best = cheapest(points, price, paper["perplexity"])
            if best is not None:
                rows.append(
                    (
                        price,
                        kind,
                        best["name"],
                        100 * best["moved"] / full["moved"],
                        100 * best["computed"] / full["computed"],
                        percent_loss(best["perplexity"], reference),
                    )
                )
    return section(
        "Beyond the papers: the search over all eight sites",
        paragraph(
            subject_of(record, "calibration"),
            "Anda's Algorithm 1 searches a length for each of A_qkv, A_o, A_u, A_d, Q, K, V and P,"
            " in groups of 32. It does so in two spaces: with one length for tokens of any age, and"
            " within Harmonia's windows, where K and V of initial and recent tokens keep 8 bits and"
            " offsets and factors are as published. In the second space it also starts from"
            " Harmonia's own lengths. Two prices are counted for one token after"
            f" {record['context']}: the bits of the KV cache that are read (moved), and the bit"
            " operations (computed), each in percent of those of fp16 activations with int4"
            " weights.",
        ),
        figure(
            panels(
                "accuracy-frontier",
                columns,
                y_label="loss of perplexity, %",
                largest=100 * (WORST - 1),
            ),
            "Each line joins the combinations of its kind that no other of that kind beats.",
        ),
        table(
            (
                *("Cheapest in", "Kind", "Lengths at no more than Harmonia's loss"),
                *("Moved, %", "Computed, %", "Calibration loss, %"),
            ),
            rows,
        ),
        table(
            (
                *("Space", "Start", "Price to lower", "Tolerance, %", "Lengths found, bits"),
                *("Moved, %", "Computed, %", "Calibration loss, %", "Validation loss, %"),
            ),
            [
                (
                    found["space"],
                    found["starts"][0] if len(found["starts"]) == 1 else "uniform lengths",
                    found["goal"],
                    100 * found["tolerance"],
                    best["name"],
                    100 * best["moved"] / full["moved"],
                    100 * best["computed"] / full["computed"],
                    percent_loss(best["perplexity"], reference),
                    percent_loss(best["validation"], record["validation_reference"]),
                )
                for found in record["searches"]
                if (best := found["best"]) is not None
            ],
        ),
        paragraph(
            f"Harmonia as published ({PAPER}) moves {100 * paper['moved'] / full['moved']:.1f}% and"
            f" computes {100 * paper['computed'] / full['computed']:.1f}%. Its loss is"
            f" {percent_loss(paper['perplexity'], reference):+.2f}% on the calibration text and"
            f" {percent_loss(paper['validation'], record['validation_reference']):+.2f}% on the"
            " validation text."
        ),
        record_source("frontier", record),
    )


def _trials(record: dict[str, Any], space: str) -> list[dict[str, Any]]:
    """Every combination that the searches of a space tried, once."""
    searches = (search for search in record["searches"] if search["space"] == space)
    return list({t["name"]: t for search in searches for t in search["trials"]}.values())


def _places(
    points: list[dict[str, Any]], price: str, full: dict[str, float], reference: float
) -> Series:
    return [
        (100 * p[price] / full[price], percent_loss(p["perplexity"], reference))
        for p in points
        if p["perplexity"] <= WORST * reference
    ]
