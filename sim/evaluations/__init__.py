"""How each published figure is computed here; ``sim/claims`` names these functions.

One module per paper has the figures of its models. The others answer any paper: ``parameters``
reads sizes of our hardware, ``formulas`` calls golden functions, ``behaviours`` reads the outcomes
of tests, ``accuracy``, ``netlists`` and ``software`` read records and count instructions, and
``computed`` follows from other answers.

A function returns a number, a list of two numbers for a range, a truth value, or for
``compare = "equal"`` whatever the claim states. It raises
:class:`tilewright.sim.records.NoRecordError` where it needs a record that is not there.
"""

from tilewright.sim.evaluations import (
    accuracy,
    anda,
    behaviours,
    computed,
    deca,
    elements,
    formulas,
    harmonia,
    netlists,
    parameters,
    readings,
    software,
    sparamx,
)
from tilewright.sim.evaluations.registry import CLASSES, EVALUATIONS, Answer, reads_records

__all__ = [
    "CLASSES",
    "EVALUATIONS",
    "Answer",
    "accuracy",
    "anda",
    "behaviours",
    "computed",
    "deca",
    "elements",
    "formulas",
    "harmonia",
    "netlists",
    "parameters",
    "readings",
    "reads_records",
    "software",
    "sparamx",
]
