"""How each published figure is computed here; ``sim/claims/*.toml`` names these functions.

One module per paper. A function returns a number, a list of two numbers for a range, or a truth
value. It raises :class:`tilewright.sim.records.NoRecordError` where it needs a record that is not
there.
"""

from tilewright.sim.evaluations import anda, deca, harmonia, sparamx
from tilewright.sim.evaluations.registry import EVALUATIONS, FROM_RECORDS, Answer

__all__ = ["EVALUATIONS", "FROM_RECORDS", "Answer", "anda", "deca", "harmonia", "sparamx"]
