"""What the papers say: one TOML file per paper and kind of claim beside this module."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

__all__ = ["CLAIMS", "Claim", "load_claims"]

CLAIMS = Path(__file__).parent


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
