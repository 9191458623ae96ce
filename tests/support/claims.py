"""The papers' figures that tests compare with: ``sim/claims/<system>.toml``."""

import tomllib
from pathlib import Path
from typing import Any

CLAIMS = Path(__file__).parents[2] / "sim" / "claims"


def claim(name: str) -> Any:
    """The value of the claim called ``name``; its first word is the system."""
    system = name.partition(".")[0]
    data = tomllib.loads((CLAIMS / f"{system}.toml").read_text())
    (found,) = [entry for entry in data["claim"] if entry["id"] == name]
    return found["value"]
