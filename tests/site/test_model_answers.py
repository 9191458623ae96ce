"""The answers of cycle models that the site asks for, all of them computed anew."""

import subprocess
import sys

import pytest

from tilewright.sim.model_answers import ANSWERS

TEXT = "from tilewright.site.model_answers import answers_text; print(end=answers_text())"


@pytest.mark.full
def test_the_file_is_what_the_models_say():
    done = subprocess.run([sys.executable, "-c", TEXT], capture_output=True, text=True, check=True)
    assert done.stdout == ANSWERS.read_text(), "renew: python -m tilewright.site.model_answers"
