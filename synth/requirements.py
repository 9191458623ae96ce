"""What a design asks of a user's library, where synthesis could do without but not as meant."""

import re

from tilewright.synth.flow import Goal
from tilewright.synth.full_adders import find_full_adder
from tilewright.synth.technology import Technology
from tilewright.synth.yosys import SynthesisError

__all__ = ["require_full_adder"]

_ARITHMETIC = re.compile(r"^\s*cell \$(?:add|sub|neg|mul|lt|le|gt|ge) ", re.MULTILINE)


def require_full_adder(rtlil: str, technology: Technology, goal: Goal) -> None:
    """Refuse a library without a full adder for the goal that is about full adders.

    Gates in their place would give an area that says nothing about the library.
    """
    wanted = goal is Goal.AREA and _ARITHMETIC.search(rtlil) is not None
    if wanted and technology.liberty and find_full_adder(technology) is None:
        raise SynthesisError(
            f"{technology.name}: lacks a full adder, a cell with sum and carry of three inputs;"
            " the goals balanced and fastest do without"
        )
