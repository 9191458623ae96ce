"""What the papers say, from ``docs/claims/<system>.toml``; a page shows it beside our own."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.report.html import Markup, code, note

__all__ = ["CLAIMS", "Claim", "claims_source", "load_claims"]

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
    """The claims of one paper by id."""
    entries = tomllib.loads((CLAIMS / f"{system}.toml").read_text())["claim"]
    return {entry["id"]: Claim(**entry) for entry in entries}


def claims_source(system: str, *claims: Claim) -> Markup:
    """Where the paper's figures of a table come from."""
    places = "; ".join(dict.fromkeys(claim.where for claim in claims))
    return note("Paper:", f"{places} (", code(f"docs/claims/{system}.toml"), ").")
