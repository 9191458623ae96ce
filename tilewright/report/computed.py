"""The answers of cycle models that the report asks for, written for the package.

``python -m tilewright.report.computed`` follows all of them anew (two minutes); where a model has
changed, its answers are computed in every new environment until that was done.
"""

import tempfile

from tilewright.base.files import write_atomic
from tilewright.report import build_report
from tilewright.report.page import Context
from tilewright.sim.computed import COMPUTED, recorded, text_of
from tilewright.synth.record import RECORDS

__all__ = ["computed_text"]


def computed_text() -> str:
    """Return the content of the file, every answer computed by today's models."""
    with tempfile.TemporaryDirectory() as folder, recorded() as answers:
        build_report(folder, Context(records=RECORDS, cases=1))
    return text_of(answers)


if __name__ == "__main__":
    write_atomic(COMPUTED, computed_text())
