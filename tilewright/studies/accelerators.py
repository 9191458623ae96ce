"""Clock, watts and energies of the machines that models are compiled for."""

from collections.abc import Callable
from typing import Any

from tilewright.compiler.machine import Machine
from tilewright.sim.accelerator import Accelerator, anda, harmonia

_MAKERS: dict[str, Callable[[Any, dict[str, Any]], Accelerator]] = {
    "anda": lambda params, formats: anda(formats["mantissas"], params),
    "harmonia": lambda params, formats: harmonia(params),
}


def accelerator_of(machine: Machine) -> Accelerator:
    """The published figures of a machine, for its size and formats."""
    return _MAKERS[machine.name](machine.params, machine.about())
