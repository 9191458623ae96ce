"""Clocks as people write them."""

import math
import re

from tilewright.base.errors import CommandError

_PERIOD = {"": 1.0, "ps": 1.0, "ns": 1e3}  # ps
_FREQUENCY = {"mhz": 1e6, "ghz": 1e3}  # ps times the unit


def clock_period(text: str) -> float:
    """Period in ps of ``800``, ``800ps``, ``0.8ns``, ``1250MHz`` or ``1.25GHz``."""
    match = re.fullmatch(r"\s*([0-9.eE+-]+?)\s*([a-zA-Z]*)\s*", text)
    try:
        number = float(match[1]) if match else math.nan
    except ValueError:
        number = math.nan
    unit = match[2].lower() if match else ""
    if unit in _PERIOD and 0 < number < math.inf:
        return number * _PERIOD[unit]
    if unit in _FREQUENCY and 0 < number < math.inf:
        return _FREQUENCY[unit] / number
    raise CommandError(f"{text!r} is no clock: say 800 (ps), 0.8ns, 1250MHz or 1.25GHz")
