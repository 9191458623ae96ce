"""What `pip install .` gives: every data file that the packages read, and no need for more."""

import os
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def taken_along(path: str) -> bool:
    """Whether a pattern of the package data names ``path``, relative to the checkout."""
    return any(
        fnmatch(path, f"{package.replace('.', '/')}/{pattern}")
        and path.count("/") == package.count(".") + 1 + pattern.count("/")
        for package, patterns in SETUPTOOLS["package-data"].items()
        for pattern in patterns
    )


def test_no_data_file_stays_behind():
    data = [
        (Path(folder) / name).relative_to(ROOT).as_posix()
        for folder, _, names in os.walk(ROOT / "tilewright", followlinks=True)
        for name in names
        if not name.endswith((".py", ".pyc"))
    ]
    assert "tilewright/sim/claims/deca_system.toml" in data
    assert [path for path in data if not taken_along(path)] == []


def test_the_report_needs_no_optional_package():
    names = ["cocotb", "distributed", "gguf", "ml_dtypes", "pytest", "safetensors", "torch"]
    script = (
        f"import sys; sys.modules |= dict.fromkeys({names});"
        "from tilewright.report import _page_modules; print(len(_page_modules()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10
