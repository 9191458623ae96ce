"""Below a line ``<!-- report: PAGE -->`` a table of the documentation has rows of the report."""

import re
from functools import cache
from html import unescape
from importlib import import_module

import pytest

from tests.docs.pages import DOCS
from tilewright.report.page import Context
from tilewright.synth.record import RECORDS

TABLES = re.findall(
    r"^<!-- report: (\w+) -->\n(.*)\n\|[-:|]*\n((?:\|.*\n)+)",
    "\n".join(path.read_text() for path in sorted(DOCS.glob("*.md"))),
    re.MULTILINE,
)


@cache
def rows_of_the_report(page):
    build = import_module(f"tilewright.report.pages.{page}").build
    rows = re.findall(r"<tr>(.*?)</tr>", build(Context(records=RECORDS, cases=1)).body, re.DOTALL)
    cells = (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows)
    return {tuple(unescape(re.sub("<[^>]*>", "", cell)) for cell in row) for row in cells}


@pytest.mark.parametrize(("page", "header", "rows"), TABLES)
def test_rows_are_those_of_the_report(page, header, rows):
    for row in (header, *rows.splitlines()):
        cells = tuple(cell.strip() for cell in row.strip("|").split("|"))
        assert cells in rows_of_the_report(page)
