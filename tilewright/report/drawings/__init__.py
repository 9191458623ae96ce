"""Block diagrams of the designs, drawn from their parameters: one module each, with ``draw()``.

The report has them in its pages; ``python -m tilewright.report.drawings`` writes them to ``docs``,
where a test compares them.
"""

import pkgutil
from importlib import import_module

from tilewright.report.diagram import Diagram

__all__ = ["draw_all"]


def draw_all() -> dict[str, Diagram]:
    """Every drawing by the name of its design, with that design's default parameters."""
    names = [found.name for found in pkgutil.iter_modules(__path__) if found.name != "__main__"]
    return {name: import_module(f"{__name__}.{name}").draw() for name in names}
