"""The package as a wheel installs it, away from the checkout, and the report that it writes.

One for all tests of a worker: tests/conftest.py has those that ask for it run one after another.
"""

import io
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tilewright import cli

ROOT = Path(__file__).parents[2]
# Everything that a build could take by mistake, and what it must take.
COPIED = (
    *("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "tilewright"),
    *("golden", "hw", "sim", "synth", "docs", "tests", "benchmarks"),
)
LINKED = ("golden", "hw", "sim", "synth")


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of ``command``, which must succeed and sees nothing of the checkout."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_wheel(source: Path, folder: Path) -> Path:
    """The wheel that pip builds from ``source``, with the setuptools that is installed."""
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    run(sys.executable, "-m", "pip", "wheel", *options, "-w", folder, source, cwd=folder.parent)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def checkout(tmp_path_factory) -> Path:
    """A copy of the checkout: a build leaves folders behind that the next build would use."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    assert all((folder / "tilewright" / name).is_symlink() for name in LINKED)
    return folder


@pytest.fixture(scope="session")
def wheel(checkout, tmp_path_factory) -> Path:
    return build_wheel(checkout, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory) -> Path:
    """A fresh environment with the wheel; the dependencies are those of the tests' environment.

    A path in a ``.pth`` file adds a folder's packages and not its own ``.pth`` files, so that an
    editable installation of the checkout is not seen.
    """
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin" / "python"
    options = ("--quiet", "--no-deps", "--no-index")
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, cwd=folder)
    paths = sysconfig.get_path("purelib"), sysconfig.get_path("platlib")
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text("\n".join(dict.fromkeys(paths)) + "\n")
    return folder


@dataclass(frozen=True)
class Written:
    """A report, what was said when it was written, and the data behind its pages."""

    folder: Path
    said: dict[str, Any]
    data: dict[str, Any]  # by page, in the order of the navigation


@pytest.fixture(scope="session")
def written(request, tmp_path_factory) -> Written:
    """The report of the installed package; under pytest-cov, of this process."""
    folder = tmp_path_factory.mktemp("written")
    words = ("report", "--cases", "500", "-o", "report", "--json")
    if request.config.pluginmanager.hasplugin("_cov"):
        with redirect_stdout(io.StringIO()) as shown:
            assert cli.main([*words[:4], str(folder / "report"), words[5]]) == 0
        said = json.loads(shown.getvalue())
    else:
        installed = request.getfixturevalue("installed")
        said = json.loads(run(installed / "bin" / "tilewright", *words, cwd=folder))
    folder /= "report"
    data = {page: json.loads((folder / f"{page}.json").read_text()) for page in said["pages"]}
    return Written(folder, said, data)
