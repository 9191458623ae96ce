"""A wheel built from the checkout: what it holds, and that it works installed elsewhere.

The folders ``golden``, ``hw``, ``sim`` and ``synth`` are part of the package through the links
``tilewright/golden`` and so on; a wheel and an sdist must hold the files themselves.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tilewright import __version__

ROOT = Path(__file__).parents[1]
NAME = f"tilewright-{__version__}"
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


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory) -> Path:
    return build_wheel(checkout, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
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


def test_a_wheel_holds_every_file_of_the_package_and_no_other_name(checkout, wheel):
    expected = {
        (Path(folder) / name).relative_to(checkout).as_posix()
        for folder, _, names in os.walk(checkout / "tilewright", followlinks=True)
        for name in names
    }
    packed = contents(wheel)
    assert {name.split("/")[0] for name in packed} == {"tilewright", f"{NAME}.dist-info"}
    assert {name for name in packed if name.startswith("tilewright/")} == expected
    # One of each kind that is no module.
    assert {
        "tilewright/py.typed",
        "tilewright/kernels/src/portable.cpp",
        "tilewright/sim/claims/deca.toml",
        "tilewright/synth/lint_waivers.vlt",
        "tilewright/synth/tech/asap7.toml",
    } <= expected


def test_an_sdist_holds_the_package_once_and_gives_the_same_wheel(checkout, wheel, tmp_path):
    script = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    run(sys.executable, "-c", script, tmp_path, cwd=checkout)
    sdist = tmp_path / f"{NAME}.tar.gz"
    with tarfile.open(sdist) as archive:
        assert not [member.name for member in archive if member.issym() or member.islnk()]
        names = {member.name for member in archive}
    assert {name.split("/")[1] for name in names if "/" in name} == {
        *("tilewright", "tilewright.egg-info", "pyproject.toml", "setup.cfg", "MANIFEST.in"),
        *("README.md", "LICENSE", "PKG-INFO"),
    }
    assert f"{NAME}/tilewright/golden/params/resolve.py" in names
    again = build_wheel(sdist, tmp_path / "again")
    assert contents(again) == contents(wheel)


def test_the_installed_package_is_imported_and_no_bare_name(installed, tmp_path):
    script = "import tilewright.synth.record as record; print(record.__file__)"
    found = run(installed / "bin" / "python", "-c", script, cwd=tmp_path)
    assert Path(found.strip()).is_relative_to(installed)
    script = "import sys, importlib.util as u; print([*filter(u.find_spec, sys.argv[1:])])"
    bare = run(installed / "bin" / "python", "-c", script, *LINKED, "kernels", cwd=tmp_path)
    assert bare.strip() == "[]"


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("list", "number of set bits"),
        ("verilog popcount:odd -o verilog", "popcount__width_13.v"),
        ("simulate popcount:odd", "passed"),
        ("synth popcount:odd", "sky130hd"),
        ("claims", "sparamx"),
    ],
)
def test_a_command_of_the_installed_package_works_outside_a_checkout(
    installed, tmp_path, command, printed
):
    assert printed in run(installed / "bin" / "tilewright", *command.split(), cwd=tmp_path)


def test_the_installed_package_writes_the_report(installed, tmp_path):
    """Its records are fresh under the installed name too."""
    command = (installed / "bin" / "tilewright", "report", "--cases", "1", "-o", "report", "--json")
    written = json.loads(run(*command, cwd=tmp_path))
    assert not written["problems"]
    assert written["index"] == "report/index.html"
    assert (tmp_path / "report" / "index.html").is_file()
