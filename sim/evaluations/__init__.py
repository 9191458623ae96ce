"""How each published figure is computed here; ``sim/claims/*.toml`` names these functions.

One module per paper. A function returns a number, a list of two numbers for a range, a truth value,
or for ``compare = "equal"`` whatever the claim states. It raises
:class:`tilewright.sim.records.NoRecordError` where it needs a record that is not there.
"""

from tilewright.sim.evaluations import anda, deca, harmonia, sparamx
from tilewright.sim.evaluations.registry import CLASSES, EVALUATIONS, Answer, reads_records

__all__ = [
    "CLASSES",
    "EVALUATIONS",
    "Answer",
    "anda",
    "deca",
    "harmonia",
    "reads_records",
    "sparamx",
]
