"""The papers' figures that tests compare with, as ``tilewright.claims`` loads them."""

from typing import Any

from tilewright.claims import find_claim


def claim(name: str) -> Any:
    """The value of the claim whose id is ``name``."""
    return find_claim(name).value
