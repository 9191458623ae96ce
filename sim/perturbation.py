"""What we measured ourselves, by name, so that its part in every answer can be computed.

``deca.cycles``, ``anda.cycles`` and ``harmonia.cycles`` are cycles of the RTL, which the golden
cycle models equal; ``UNIT.area`` and ``UNIT.energy`` come from records of synthesis, ``deca.power``
too, ``deca.rates`` from runs of DECA's RTL, and ``silicon.KERNEL`` is a time on a real processor.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tilewright.sim.calibration import forget

__all__ = ["inputs_read", "measured", "with_input"]

_FACTORS: dict[str, float] = {}
_READ: list[set[str]] = []  # names of inputs, while somebody collects them


def measured(name: str, value: float = 1.0) -> float:
    """Return a measured value, times the factor that its name has at present."""
    for names in _READ:
        names.add(name)
    return value * _FACTORS.get(name, 1.0)


@contextmanager
def with_input(name: str, factor: float) -> Iterator[None]:
    """Results inside the ``with`` statement are those of this input times ``factor``."""
    before = _FACTORS.get(name, 1.0)
    _FACTORS[name] = before * factor
    forget()
    try:
        yield
    finally:
        _FACTORS[name] = before
        forget()


@contextmanager
def inputs_read() -> Iterator[set[str]]:
    """Collect the names of the inputs that results inside the ``with`` statement follow from."""
    forget()
    names: set[str] = set()
    _READ.append(names)
    try:
        yield names
    finally:
        _READ.remove(names)
