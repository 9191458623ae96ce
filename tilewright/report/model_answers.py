"""Answers of cycle models that the report and ``tilewright claims`` need.

They ship with the package. ``python -m tilewright.report.model_answers`` computes all of them;
after a change of the models, until that has been run, they are computed where they are needed.
"""

import tempfile

from tilewright.base.files import write_atomic
from tilewright.report import build_report
from tilewright.report.page import Context
from tilewright.sim.model_answers import ANSWERS, recorded, text_of
from tilewright.synth.record import RECORDS

__all__ = ["answers_text"]


def answers_text() -> str:
    """Return the content of the file, every answer computed by today's models."""
    with tempfile.TemporaryDirectory() as folder, recorded() as answers:
        build_report(folder, Context(records=RECORDS, cases=1))
    return text_of(answers)


if __name__ == "__main__":
    write_atomic(ANSWERS, answers_text())
