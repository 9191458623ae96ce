"""How each published figure is computed here; ``docs/claims/*_system.toml`` names these functions.

One module per paper. A function returns a number, a list of two numbers for a range, or a truth
value. It raises :class:`sim.records.NoRecordError` where it needs a record that is not there.
"""

from sim.evaluations import anda, deca, harmonia, sparamx
from sim.evaluations.registry import EVALUATIONS, FROM_RECORDS

__all__ = ["EVALUATIONS", "FROM_RECORDS", "anda", "deca", "harmonia", "sparamx"]
