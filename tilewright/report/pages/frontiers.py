"""Families of designs by area and throughput, and the designs among them that papers chose."""

from typing import Any

from tilewright.golden.params.resolve import resolve
from tilewright.report.html import Markup, code, figure, join, note, paragraph, section, table
from tilewright.report.page import Context, Page
from tilewright.report.plots import frontier as drawing
from tilewright.studies.sweeps.frontiers import (
    FRONTIERS,
    Frontier,
    load_frontier,
    load_frontier_record,
    pareto,
)
from tilewright.synth.record import is_of_this_flow

TITLE = "Frontiers"
POSITION = 35


def build(context: Context) -> Page:
    data: dict[str, Any] = {}
    problems, sections = [], []
    for frontier in FRONTIERS.values():
        parts = []
        for technology in frontier.technologies:
            record = load_frontier_record(frontier.name, technology, context.records)
            if record is None:
                parts.append(_wanted(frontier, technology))
                continue
            data[f"{frontier.name} {technology}"] = record
            if not is_of_this_flow(record, technology):
                problems.append(
                    f"frontier {frontier.name} in {technology} was made with other cells, tools or"
                    f" flow; to renew it: {_command(frontier)}"
                )
            parts.append(_one(context, frontier, technology))
        sections.append(section(frontier.title, *parts))
    return Page(
        summary=f"Area and throughput of {len(FRONTIERS)} families of designs: the best of each,"
        " and the designs that papers name.",
        body=join([_explanation(), *sections]),
        data=data,
        problems=problems,
    )


def _explanation() -> Markup:
    return paragraph(
        "A design is on the frontier, and called best, if no other design of its family has more"
        " throughput in the same area or less. The families were swept with",
        Markup(f"{code('tilewright sweep')}."),
        "The axes say what throughput means; docs/synthesis.md explains it.",
    )


def _command(frontier: Frontier) -> str:
    return f"tilewright sweep --frontier {frontier.name} --update-records"


def _wanted(frontier: Frontier, technology: str) -> Markup:
    return paragraph(
        f"There is no record in {technology} yet. To make it:", code(_command(frontier))
    )


def _one(context: Context, frontier: Frontier, technology: str) -> Markup:
    designs = load_frontier(frontier.name, technology, context.records)
    assert designs is not None
    best = pareto(designs)
    papers = {resolve(spec): claim for spec, claim in frontier.papers.items()}
    named = {d: papers[resolve(d.spec)] for d in designs if resolve(d.spec) in papers}
    plot = drawing(
        f"frontier-{frontier.name}-{technology}",
        [(d.area, d.throughput) for d in designs],
        [(d.area, d.throughput) for d in best],
        [(_settings(d.spec), d.area, d.throughput) for d in named],
        x_label="area, µm²",
        y_label=f"throughput, {frontier.unit}",
    )
    rows = [
        (
            code(_settings(d.spec)),
            d.goal,
            d.area,
            d.delay,
            d.throughput,
            "best" if d in best else "",
            f"{named[d].where}: {named[d].note}" if d in named else "",
        )
        for d in sorted(designs, key=lambda d: d.area)
    ]
    head = (
        *("Design", "Goal", "Area, µm²", "Delay, ps", f"Throughput, {frontier.unit}"),
        *("On the frontier", "Paper"),
    )
    return join(
        [
            figure(plot, f"In {technology}, {len(best)} of {len(designs)} designs are best."),
            table(head, rows),
            note(
                "Source:",
                code(f"synth/records/frontier.{technology}.json"),
                "made by",
                code(_command(frontier)),
            ),
        ]
    )


def _settings(spec: str) -> str:
    """The settings of a design, without its block."""
    return ", ".join(spec.split(",")[1:])
