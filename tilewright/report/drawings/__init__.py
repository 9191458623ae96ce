"""Block diagrams of the designs, drawn from their parameters by ``draw()`` of one module each.

The pages of the report contain them. ``python -m tilewright.report.drawings`` writes them to
``docs``, where a test compares them.
"""

import pkgutil
from importlib import import_module

from tilewright.report.diagram import Diagram

__all__ = ["draw_all"]


def draw_all() -> dict[str, Diagram]:
    """Draw every design with its default parameters, and return the drawings by name."""
    names = [found.name for found in pkgutil.iter_modules(__path__) if found.name != "__main__"]
    return {name: import_module(f"{__name__}.{name}").draw() for name in names}
