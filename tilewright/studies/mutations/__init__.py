"""Automatic errors in the RTL of every block, and whether its bench finds them.

A mutant is the RTLIL of a block with one place changed. A bench that passes on a mutant either
checks too little or the change makes no difference; ABC is asked for a proof of the latter.
``python -m tilewright.cli.mutation_campaign`` runs a campaign and keeps it as a record.
"""

from tilewright.studies.mutations.campaign import Campaign, Score, load_campaign, scores
from tilewright.studies.mutations.judging import Mutant, Verdict, judge
from tilewright.studies.mutations.operators import KINDS, Site, apply_to, sample, sites_of

__all__ = [
    "KINDS",
    "Campaign",
    "Mutant",
    "Score",
    "Site",
    "Verdict",
    "apply_to",
    "judge",
    "load_campaign",
    "sample",
    "scores",
    "sites_of",
]
