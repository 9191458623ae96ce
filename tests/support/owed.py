"""Evidence that is owed: what a report of today says is missing, and why it is accepted for now.

A line of :data:`PROBLEMS` is a problem that the report shows. Tests accept exactly these, and fail
when one of them is no longer true, so that whoever makes the evidence takes its line out.
"""

PROBLEMS = (
    "frontier/deca.asap7.json was made with other cells, tools or flow; to renew it:"
    " tilewright sweep --frontier deca --update-records",
)
# Frontiers whose records were made before clock gates were part of the flow.
FRONTIERS = (("deca", "asap7"),)
# Records of netlists that have no verdict yet.
PROOFS: frozenset[str] = frozenset()
