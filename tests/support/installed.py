"""The package as a wheel installs it, away from the checkout.

One for all tests of a worker: tests/conftest.py has those that ask for it run one after another.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

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
    """A copy of the checkout: a build leaves folders that the next build would use."""
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
