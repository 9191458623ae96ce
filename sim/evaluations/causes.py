"""Kinds of causes for which figures are off: what would have to be had to decide them.

The computation of a reason shows by what a figure is off; which kind of cause that is, is stated
beside it and is a judgement. In doubt it is ``OURS``.
"""

from enum import StrEnum

__all__ = ["Cause"]


class Cause(StrEnum):
    """What stands between a printed figure and ours, in the words of the tables."""

    PROCESS = "another process: cells, memories and their power are not those of the paper"
    UNSEEN = "a unit or a boundary of the paper's comparison that neither its text nor a file shows"
    SIMULATOR = "a simulator of the paper's, of which no file is public"
    PAPER = "figures of the paper that do not agree with its others"
    MODELS = "language models that are larger than ours, or whose weights are not given out"
    MACHINE = "another processor, or other kernels on it"
    OURS = "a design of ours that is another one, or a model of ours that is simpler"

    @property
    def outside(self) -> bool:
        """Whether nothing in this project could decide it."""
        return self is not Cause.OURS
