"""The API pages of ``tilewright.torch`` are made where PyTorch is missing, with a stand-in for it.

Sphinx's stand-in gives a class for every name that is asked for: it has no numbers, and ``X | it``
is no type. So no module may compute with PyTorch while it is imported.
"""

import subprocess
import sys

import pytest

from tilewright.site.reference.api import ROOT

MODULES = sorted(path.stem for path in (ROOT / "torch").glob("*.py") if path.stem[0] != "_")
PROGRAM = """
import sys
from importlib import import_module
from sphinx.ext.autodoc.mock import mock

with mock(["torch", "transformers", "triton"]):
    for name in sys.argv[1:]:
        import_module(name)
"""


def imported(program: str, *names: str) -> subprocess.CompletedProcess:
    """A process of its own: the stand-in would stay in the modules of this one."""
    command = [sys.executable, "-c", program, *names]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_modules_can_be_imported_with_a_stand_in():
    assert {"convert", "linear", "quantize"} <= set(MODULES)
    result = imported(PROGRAM, *(f"tilewright.torch.{name}" for name in MODULES))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "line", ["limit = float(torch.finfo(torch.half).max)", "Numbers = list[int] | torch.Tensor"]
)
def test_planted_modules_are_refused(tmp_path, line):
    (tmp_path / "planted.py").write_text(f"import torch\n\n{line}\n")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}"
    assert "TypeError" in imported(program, "planted").stderr
