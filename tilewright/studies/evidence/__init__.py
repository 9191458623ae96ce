"""Which long tests passed, on which commit, and whether the code they test is still the same."""

from tilewright.studies.evidence.outcomes import Outcome, Run, read_run
from tilewright.studies.evidence.sources import sources_key, sources_of
from tilewright.studies.evidence.summary import (
    Standing,
    Summary,
    merged,
    of_commit,
    read_summary,
    standings,
    table,
)

__all__ = [
    "Outcome",
    "Run",
    "Standing",
    "Summary",
    "merged",
    "of_commit",
    "read_run",
    "read_summary",
    "sources_key",
    "sources_of",
    "standings",
    "table",
]
