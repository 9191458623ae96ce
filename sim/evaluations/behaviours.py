"""What hardware or an algorithm does, shown by a test of this repository that a claim names.

The statement is as good as its test: a test of the golden model, of the RTL or of the emitted
Verilog that fails when the statement is not true of ours.
"""

from tilewright.sim.claims.classes import ClaimClass
from tilewright.sim.evaluations.registry import evaluation
from tilewright.sim.tested import outcome

__all__ = ["shown_by"]


@evaluation(ClaimClass.STATEMENT)
def shown_by(tests: list[str], contrary: bool = False) -> bool:
    """Return whether all of these tests passed in their last recorded run.

    ``contrary``: they show that the statement is not true of ours.
    """
    passed = all([outcome(test) for test in tests])
    return passed and not contrary
