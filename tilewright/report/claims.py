"""What the papers say, from ``sim/claims/<system>.toml``; a page shows it beside our own."""

from typing import Any

from tilewright.report.html import Markup, code, note, paragraph, section, table
from tilewright.sim.claims import CLAIMS, Claim, load_claims

__all__ = ["claims_section", "claims_source"]


def claims_source(system: str, *claims: Claim) -> Markup:
    """Where the paper's figures of a table come from."""
    places = "; ".join(dict.fromkeys(claim.where for claim in claims))
    return note("Paper:", places, Markup(f"({code(f'sim/claims/{system}.toml')})."))


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
        note("Source:", code(f"sim/claims/{system}.toml")),
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
