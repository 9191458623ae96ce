"""What the number formats cost a real model: Anda's search, Harmonia's cache, and both at once."""

from typing import Any

from tilewright.claims import claims_of_study
from tilewright.report.accuracy import PAPER
from tilewright.report.accuracy.cache import cache_section
from tilewright.report.accuracy.frontier import frontier_section
from tilewright.report.accuracy.gpu import gpu_section
from tilewright.report.accuracy.layer import layer_section
from tilewright.report.accuracy.models import models_section
from tilewright.report.accuracy.search import search_section
from tilewright.report.accuracy.sensitivity import sensitivity_section
from tilewright.report.claims import claims_section
from tilewright.report.html import join
from tilewright.report.measured import missing
from tilewright.report.page import Context, Page
from tilewright.studies.accuracy.records import MAKERS, load_record

TITLE = "Accuracy"
POSITION = 8

COMMAND = "python -m tilewright.cli.accuracy_records smollm2"
SECTIONS = {
    "search": search_section,
    "sensitivity": sensitivity_section,
    "kv": cache_section,
    "frontier": frontier_section,
}


def build(context: Context) -> Page:
    records = {name: load_record(name) for name in MAKERS}
    sections = [
        missing(f"the {name} experiments", COMMAND) if record is None else SECTIONS[name](record)
        for name, record in records.items()
    ]
    return Page(
        summary=_summary(records["search"], records["kv"]),
        body=join(
            [
                *sections,
                models_section(),
                gpu_section(),
                layer_section(),
                claims_section(claims_of_study("accuracy")),
            ]
        ),
        data=records,
    )


def _summary(search: dict[str, Any] | None, kv: dict[str, Any] | None) -> str:
    if search is None or kv is None:
        return "Formats on a real language model: not measured yet."
    best = search["searches"][-1]["best"]
    found = "no lengths" if best is None else "/".join(map(str, best["lengths"]))
    rows = {row["name"]: row["perplexity"] for row in kv["variants"]}
    change = rows[PAPER] / rows["full precision"] - 1
    return (
        f"{search['subject']['model']}: Anda's search at 1% finds {found};"
        f" Harmonia's cache changes perplexity by {change:+.1%}."
    )
