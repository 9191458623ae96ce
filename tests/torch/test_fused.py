"""The Triton kernels: on a GPU, else by Triton's interpreter, in a process of their own.

Triton decides when it is imported whether its own functions are interpreted, and whatever ran
before in this process, ``torch.compile`` for one, may have imported it.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("fused_kernels.py")


@pytest.mark.skipif(
    find_spec("torch") is None or find_spec("triton") is None,
    reason="PyTorch or Triton missing: pip install torch triton",
)
def test_kernels_have_the_bits_of_the_plain_conversions():
    import torch

    interpreted = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)],
        env=os.environ | interpreted,
        cwd=CASES.parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and "skipped" not in done.stdout
