"""The real language model, where it is installed."""

from pathlib import Path

import pytest

from tilewright.golden.llm.load import smollm2_path
from tilewright.golden.llm.model import ModelError


def smollm2_or_skip() -> Path:
    """Its file; the test that asks is skipped if there is none."""
    try:
        return smollm2_path()
    except ModelError as missing:
        pytest.skip(str(missing))
