"""A wheel built from the checkout: what it holds, and that it works installed elsewhere.

The folders ``golden``, ``hw``, ``sim`` and ``synth`` are part of the package through the links
``tilewright/golden`` and so on; a wheel and an sdist must hold the files themselves.
"""

import os
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.installed import LINKED, build_wheel, run
from tilewright import __version__

NAME = f"tilewright-{__version__}"


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


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
        "tilewright/claims/deca.toml",
        "tilewright/synth/lint_waivers.vlt",
        "tilewright/synth/tech/asap7.toml",
    } <= expected
    assert wheel.stat().st_size < 3_000_000


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
        ("claims --paper sparamx", "sparamx"),
    ],
)
def test_a_command_of_the_installed_package_works_outside_a_checkout(
    installed, tmp_path, command, printed
):
    assert printed in run(installed / "bin" / "tilewright", *command.split(), cwd=tmp_path)
