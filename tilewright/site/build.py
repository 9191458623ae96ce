"""Builds the documentation site, results among it, from a checkout."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import tilewright
from tilewright.base.errors import CheckError, CommandError
from tilewright.base.files import replace_directory
from tilewright.site.own import DESIGNS

PACKAGES = {"sphinx": "Sphinx", "furo": "furo", "myst_nb": "myst-nb"}


def find_source() -> Path:
    """The folder ``docs`` of the checkout that the package, or the working directory, is in."""
    for folder in (Path(tilewright.__file__).resolve().parents[1], Path.cwd()):
        if (folder / "docs" / "conf.py").is_file() and (folder / "tilewright").is_dir():
            return folder / "docs"
    raise CommandError(
        "the report is made of docs/, which an installed package does not have:"
        " run this in a checkout of the project"
    )


def build_site(
    folder: str | Path,
    designs: Sequence[str] = (),
    *,
    source: Path | None = None,
    with_api: bool = True,
    with_cells: bool = True,
    strict: bool = False,
) -> None:
    """Write the site into ``folder``, replacing it as a whole.

    ``designs`` are those of the user. With ``strict`` a warning is an error; a cell that fails
    always is. ``source`` may be another folder than the checkout's ``docs``. Without the pages of
    the API, which others link to, there are warnings; without cells pages lack what these show.
    """
    if missing := [title for name, title in PACKAGES.items() if find_spec(name) is None]:
        raise CommandError(f"the report needs {', '.join(missing)}: pip install -e '.[docs]'")
    pages = source or find_source()
    # Cells run in other folders.
    named = json.dumps([str(Path(design).absolute()) for design in designs])
    options = ["-q", "-j", "auto", *(("-W", "--keep-going") if strict else ())]
    options += [] if with_api else ["-D", "with_api=0"]
    options += [] if with_cells else ["-D", "nb_execution_mode=off"]
    # Next to its output Sphinx leaves its caches.
    with replace_directory(folder) as fresh, tempfile.TemporaryDirectory() as room:
        built = Path(room) / "site"
        command = [sys.executable, "-m", "sphinx", *options, "-d", f"{room}/parsed"]
        command += [str(pages), str(built)]
        if subprocess.run(command, env=os.environ | {DESIGNS: named}).returncode:
            raise CheckError("the site was not built: Sphinx has said what failed")
        shutil.copytree(built, fresh, dirs_exist_ok=True)
