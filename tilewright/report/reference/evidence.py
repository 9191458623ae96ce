"""The table of long tests on the documentation's page of evidence."""

from pathlib import Path

import tilewright
from tilewright.report.reference.declarations import markdown_table
from tilewright.studies.evidence import read_summary, standings, table
from tilewright.studies.evidence.summary import FILE

__all__ = ["evidence_table"]

ROOT = Path(tilewright.__file__).parents[1]


def evidence_table() -> str:
    """Return one line a test file, from the outcomes that are kept."""
    found = standings(read_summary(ROOT / FILE), ROOT)
    if not found:
        return "No outcome is recorded."
    header, rows = table(found)
    return markdown_table([word.lower() for word in header], rows)
