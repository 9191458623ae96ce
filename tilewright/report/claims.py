"""What the papers say, from ``tilewright/claims``; a page shows it beside our own."""

from collections.abc import Iterable

from tilewright.claims import Claim, Value
from tilewright.report.html import Markup, code, note, paragraph, section, table

__all__ = ["claims_section", "claims_source"]


def claims_source(*claims: Claim) -> Markup:
    """Return a note that says where the paper's figures of a table come from."""
    places = "; ".join(dict.fromkeys(claim.where for claim in claims))
    return note("Paper:", places, Markup(f"({_files(claims)})."))


def claims_section(claims: Iterable[Claim]) -> Markup:
    """Return a table of these claims, or nothing where there are none."""
    shown = list(claims)
    if not shown:
        return Markup("")
    return section(
        "What the paper says",
        paragraph("The figures that models, tests and this report are compared with."),
        table(
            ("Claim", "Value", "Unit", "Place", "Note"),
            [(code(c.id), _shown(c.value), c.unit, c.where, c.note) for c in shown],
        ),
        note("Source:", Markup(_files(shown))),
    )


def _files(claims: Iterable[Claim]) -> str:
    papers = dict.fromkeys(claim.paper for claim in claims)
    return ", ".join(code(f"tilewright/claims/{paper}.toml") for paper in papers)


def _shown(value: Value) -> str:
    match value:
        case dict():
            return ", ".join(f"{key} {_shown(part)}" for key, part in value.items())
        case bool():
            return "yes" if value else "no"
        case list():
            return " to ".join(map(str, value))
        case float():
            return f"{value:g}"
        case _:
            return str(value)
