"""The answers of cycle models that the report asks for, all of them computed anew."""

import subprocess
import sys

import pytest

from tilewright.sim.computed import COMPUTED

TEXT = "from tilewright.report.computed import computed_text; print(end=computed_text())"


@pytest.mark.full
def test_the_file_is_what_the_models_say():
    done = subprocess.run([sys.executable, "-c", TEXT], capture_output=True, text=True, check=True)
    assert done.stdout == COMPUTED.read_text(), "renew: python -m tilewright.report.computed"
