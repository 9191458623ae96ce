"""What the papers say, from ``docs/claims/<system>.toml``; a page shows it beside our own."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tilewright.report.html import Markup, code, note, paragraph, section, table

__all__ = ["CLAIMS", "Claim", "claims_section", "claims_source", "load_claims"]

CLAIMS = Path(__file__).parents[2] / "docs" / "claims"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One figure of a paper, or several under one head."""

    id: str
    value: Any
    where: str  # place in the paper
    unit: str = ""
    note: str = ""


def load_claims(system: str) -> dict[str, Claim]:
    """The claims of one file by id; what only the scoreboard uses of them is left out."""
    entries = tomllib.loads((CLAIMS / f"{system}.toml").read_text())["claim"]
    known = {field.name for field in fields(Claim)}
    return {
        entry["id"]: Claim(**{name: value for name, value in entry.items() if name in known})
        for entry in entries
    }


def claims_source(system: str, *claims: Claim) -> Markup:
    """Where the paper's figures of a table come from."""
    places = "; ".join(dict.fromkeys(claim.where for claim in claims))
    return note("Paper:", places, Markup(f"({code(f'docs/claims/{system}.toml')})."))


def claims_section(system: str) -> Markup:
    """Every claim of one file, where there is one."""
    if not (CLAIMS / f"{system}.toml").exists():
        return Markup("")
    claims = load_claims(system).values()
    return section(
        "What the paper says",
        paragraph("The figures that models, tests and this report are compared with."),
        table(
            ("Claim", "Value", "Unit", "Place", "Note"),
            [(code(c.id), _shown(c.value), c.unit, c.where, c.note) for c in claims],
        ),
        note("Source:", code(f"docs/claims/{system}.toml")),
    )


def _shown(value: Any) -> str:
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
