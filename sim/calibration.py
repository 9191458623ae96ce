"""The one table of constants that no RTL and no parameter of a paper gives: ``calibration.toml``.

Each has a value, a unit, what it means, where it comes from, and the published figures it was
fitted to (none where it is a public figure of the machine).
"""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["changed", "constant", "table"]

TABLE = Path(__file__).with_name("calibration.toml")


@cache
def table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(TABLE.read_text())


@cache
def _values() -> dict[str, float]:
    return {name: float(entry["value"]) for name, entry in table().items()}


def constant(name: str) -> float:
    return _values()[name]


@contextmanager
def changed(name: str, factor: float) -> Iterator[None]:
    """Results inside the block are those of the constant times ``factor``: its sensitivity."""
    from tilewright.sim.core import simulate

    values = _values()
    before = values[name]
    values[name] = before * factor
    simulate.cache_clear()
    try:
        yield
    finally:
        values[name] = before
        simulate.cache_clear()
