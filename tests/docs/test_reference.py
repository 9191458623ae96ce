"""Content of the reference pages that comes from the code."""

import argparse
import re
from enum import IntEnum

import pytest

from tests.docs.pages import DOCS, pages
from tilewright.cli import all_commands, command_parser
from tilewright.golden.params.describe import comments
from tilewright.golden.params.resolve import BLOCKS
from tilewright.site.reference.api import (
    api_pages,
    members_as_list,
    public_names,
    runs_in_simulator,
    write_api_pages,
)
from tilewright.site.reference.command_line import command_reference
from tilewright.site.reference.declarations import TABLES, markdown_table


def test_public_names():
    source = (
        '__all__ = ["f"]\n\ndef f(): ...\ndef g(): ...\nclass A: ...\nclass _B: ...\n'
        "async def _h(): ...\n"
    )
    assert public_names(source) == ["f", "A"]
    assert public_names(source.replace("__all__", "names")) == ["f", "g", "A"]


def test_a_page_per_package_and_a_section_per_module():
    made = api_pages(["tilewright.golden"])
    assert {"tilewright.golden", "tilewright.golden.params", "tilewright.golden.deca"} <= set(made)
    page = made["tilewright.golden.deca"]
    assert "## matrix\n\n```{eval-rst}\n.. automodule:: tilewright.golden.deca.matrix\n" in page
    (names,) = re.findall(r"deca\.matrix\n   :members: (.*)\n", page)
    assert "compress" in names.split(", ")


def test_benches_that_only_a_simulator_can_import_have_no_page():
    assert runs_in_simulator("JOB = job.load()")
    assert runs_in_simulator("TASK = json.loads(os.environ['TILEWRIGHT_TASK'])")
    assert not runs_in_simulator("def f():\n    return job.load()")
    assert "\n## block\n" in api_pages(["tilewright.golden"])["tilewright.golden.llm"]
    page = api_pages(["tilewright.verify"])["tilewright.verify.deca"]
    assert "\n## memory\n" in page
    for name in ("session", "tiles", "axi", "gemm"):
        assert f"\n## {name}\n" not in page


def test_pages_of_packages_that_are_gone_go_too(tmp_path):
    (tmp_path / "tilewright.gone.md").write_text("# tilewright.gone")
    write_api_pages(["tilewright.base"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["tilewright.base.md"]


def test_members_become_a_list():
    lines = ["What it is.", "", "Members", "-------", "a, b : ports", "    of two", "c : a wire"]
    assert members_as_list(lines) == [
        *("What it is.", "", ".. rubric:: Members", ""),
        *("* ``a, b``: ports", "  of two", "* ``c``: a wire"),
    ]
    assert members_as_list(lines[:2]) == lines[:2]


def test_every_command_and_each_of_its_options_is_in_the_reference():
    parsers = [command_parser(*words) for words in [(), *all_commands()]]
    text = command_reference(parsers)
    for parser in parsers:
        assert f"## {parser.prog}\n" in text
        for option in parser._option_string_actions:
            assert option in text
    assert "\n## tilewright compare pe\n" in text


def test_help_is_no_markup():
    parser = argparse.ArgumentParser(prog="x")
    parser.add_argument("--a", metavar="N", help="*a* of [%(default)s] <b>", default=3)
    assert "`--a N`\n: \\*a\\* of \\[3\\] \\<b\\>\n" in command_reference([parser])


class Planted(IntEnum):
    A = 1  # the first
    B = 2
    C = 3  # the third,
    # which goes on


def test_meanings_are_the_comments():
    assert comments(Planted) == {"A": "the first", "B": "", "C": "the third, which goes on"}


def test_cells_do_not_end_a_table():
    assert markdown_table(["a"], [["x|y"]]) == "| a |\n|---|\n| x\\|y |"


@pytest.mark.parametrize("name", TABLES)
def test_tables_can_be_made(name):
    assert TABLES[name]().count("|---|") >= 1


def test_every_table_has_its_place_and_every_place_its_table():
    written = "".join(path.read_text() for path in pages(DOCS))
    places = re.findall(r"^<!-- generated: (\w+) -->$", written, re.MULTILINE)
    others = ("commands", "fpga", "layouts", "layout_orders", "search_orders")
    assert sorted(places) == sorted([*TABLES, *others])


def test_every_block_is_in_the_reference():
    headings = re.findall(r"^## (\w+)$", TABLES["blocks"](), re.MULTILINE)
    assert headings == sorted(BLOCKS)
