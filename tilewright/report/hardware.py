"""Tables of synthesis records for the page of a design."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.golden.params.resolve import resolve
from tilewright.report.html import Markup, code, join, note, paragraph, table, verdict
from tilewright.report.page import Context

__all__ = [
    "area_by_group",
    "by_group",
    "design_records",
    "figures_table",
    "longest_paths",
    "parts_table",
    "records_wanted",
    "relative_figures",
    "relative_table",
]

METRICS = ("area", "delay")
PS_PER_GHZ = 1000.0  # a period in ps is this divided by the clock in GHz


def design_records(context: Context, blocks: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The synthesis records of these blocks by name."""
    wanted = set(blocks)
    return {name: r for name, r in context.synthesised.items() if r["block"] in wanted}


def records_wanted(records: Mapping[str, dict[str, Any]], specs: Sequence[str]) -> Markup:
    """Give the command that makes the record, for every spec that has none."""
    found = {resolve(record["spec"]).slug for record in records.values()}
    wanted = [spec for spec in specs if resolve(spec).slug not in found]
    if not wanted:
        return Markup("")
    return join(
        [
            paragraph(
                "These blocks have no record as one netlist, which takes long to make for a whole"
                " accelerator."
            ),
            table(
                ("Block", "Command to make its records"),
                [
                    (code(spec), code(f"tilewright synth {spec} --update-records"))
                    for spec in wanted
                ],
            ),
        ]
    )


def figures_table(context: Context, records: Mapping[str, dict[str, Any]]) -> Markup:
    """Show area, registers and delay of each record."""
    rows = []
    for name, record in records.items():
        value = {metric: entry["value"] for metric, entry in record["metrics"].items()}
        spec = code(record["spec"])
        rows.append(
            (
                Markup(f"{spec} {verdict(False, 'stale')}") if name in context.stale else spec,
                record["technology"],
                record["goal"],
                value["area"],
                value["memory_area"],
                value["cells"],
                value["register_bits"],
                value["memory_bits"],
                value["delay"],
                PS_PER_GHZ / value["delay"] if value["delay"] else None,
            )
        )
    return join(
        [
            table(
                (
                    *("Block", "Technology", "Goal", "Area, µm²", "Memory area, µm²", "Cells"),
                    *("Register bits", "Memory bits", "Delay, ps", "Clock, GHz"),
                ),
                rows,
            ),
            note(
                "Source: the records of these blocks in",
                code("synth/records/synthesis.*.json"),
                "made by",
                code("tilewright synth --update-records"),
            ),
        ]
    )


def longest_paths(records: Mapping[str, dict[str, Any]]) -> Markup:
    """Show where the longest path of each record starts and ends."""
    rows = [
        (
            code(record["spec"]),
            record["technology"],
            record["goal"],
            code(path["start"]),
            code(path["end"]),
            path["cells"],
        )
        for record in records.values()
        if (path := record["longest_path"])
    ]
    return table(
        ("Block", "Technology", "Goal", "Path starts at", "Path ends at", "Cells on the path"), rows
    )


def relative_figures(records: Mapping[str, dict[str, Any]], reference: str) -> list[dict[str, Any]]:
    """Area and delay of each record relative to the reference in the same technology and goal."""
    values = {name: {m: r["metrics"][m]["value"] for m in METRICS} for name, r in records.items()}
    slug = resolve(reference).slug
    base = {
        (r["technology"], r["goal"]): values[name]
        for name, r in records.items()
        if resolve(r["spec"]).slug == slug
    }
    return [
        {key: r[key] for key in ("spec", "technology", "goal")}
        | {m: values[name][m] / base[r["technology"], r["goal"]][m] for m in METRICS}
        for name, r in records.items()
        if (r["technology"], r["goal"]) in base
    ]


def relative_table(records: Mapping[str, dict[str, Any]], reference: str) -> Markup:
    """Show :func:`relative_figures` as a table, where the reference has a record."""
    rows = relative_figures(records, reference)
    if not rows:
        return Markup("")
    return join(
        [
            paragraph("Relative to", code(reference), "in the same technology and goal:"),
            table(
                ("Block", "Technology", "Goal", "Area, x", "Delay, x"),
                [
                    (code(r["spec"]), r["technology"], r["goal"], r["area"], r["delay"])
                    for r in rows
                ],
            ),
        ]
    )


def area_by_group(
    record: dict[str, Any], groups: Mapping[str, str], rest: str
) -> dict[str, float] | None:
    """:func:`by_group` of the area of a record; None where the record has no areas of parts."""
    parts = record["area_by_part"]
    return by_group(parts, groups, rest) if parts else None


def by_group(parts: Mapping[str, float], groups: Mapping[str, str], rest: str) -> dict[str, float]:
    """Sum the parts whose name matches the pattern of each group; the first match counts.

    The group ``rest`` takes what no pattern matches.
    """
    sums = dict.fromkeys([*groups, rest], 0.0)
    for part, value in parts.items():
        group = next((name for name, pattern in groups.items() if re.match(pattern, part)), rest)
        sums[group] += value
    return sums


def parts_table(record: dict[str, Any]) -> Markup:
    """Show the area of every part of a record, the largest first."""
    parts = sorted(record["area_by_part"].items(), key=lambda item: -item[1])
    total = sum(area for _, area in parts)
    if not parts:
        return paragraph("This record has no areas of parts.")
    return table(
        ("Part", "Area, µm²", "Share, %"),
        [(code(part or "(top)"), area, 100 * area / total) for part, area in parts],
    )
