"""The tutorial, typed into a shell and into Python by somebody who follows it."""

import doctest
import os
import shutil
import subprocess
import sys

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.support.examples import blocks, console_examples
from tests.support.outside import outside_environment

PAGE = DOCS / "tutorial.md"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.full  # other tests do the same on their way: verify/test_outside_block.py
def test_commands_of_the_tutorial(tmp_path):
    """One shell from beginning to end: what is exported stays, and so do files."""
    folder = tmp_path / "docs" / "examples" / "pe_int_int"
    shutil.copytree(DOCS / "examples" / "pe_int_int", folder)
    begin = f'tilewright() {{ "{sys.executable}" -m tilewright "$@"; }}'
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for command, shown in [pair for block in console_examples(PAGE.read_text()) for pair in block]:
        run = subprocess.run(
            ["bash", "-ec", f"{begin}\n{command}"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr
        assert doctest.OutputChecker().check_output(shown, run.stdout, FLAGS), run.stdout
        if command.startswith("export "):
            begin += f"\n{command}"


def test_python_of_the_tutorial(tmp_path):
    """In a process of its own: the import registers the block."""
    typed = tmp_path / "typed.txt"
    typed.write_text("\n".join(blocks(PAGE.read_text(), "pycon")))
    command = [sys.executable, "-m", "doctest", "-o", "ELLIPSIS", str(typed)]
    run = subprocess.run(command, env=outside_environment(), capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("step", ["2. Golden model", "3. RTL", "4. Bench", "5. Registration"])
def test_the_example_has_the_marks_by_which_it_is_cut(step):
    source = (DOCS / "examples" / "pe_int_int" / "pe_int_int.py").read_text()
    assert source.count(f"# {step}") == 1
    assert PAGE.read_text().count(f"# {step}") in (2, 3)
