"""The page of docs/sparamx.md: its program runs, its commands exist."""

from pathlib import Path

from tests.support.examples import blocks

PAGE = (Path(__file__).parents[2] / "docs" / "sparamx.md").read_text()


def test_programs_of_the_page():
    programs = blocks(PAGE, "python")
    assert programs
    for program in programs:
        exec(compile(program, "docs/sparamx.md", "exec"), {})
