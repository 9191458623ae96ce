"""Tables of sizes that a paper states: the values are those of the parameters."""

import re
from operator import attrgetter

import pytest

from tests.docs.pages import DOCS
from tilewright.golden.params.resolve import resolve
from tilewright.golden.params.sparamx import ElementType, WeightFormat

PLACE = re.compile(r"<!-- from the paper: (.*) -->\n\|.*\n\|.*\n((?:\|.*\n)+)")


@pytest.mark.parametrize("page", ["anda", "deca", "harmonia", "sparamx"])
def test_sizes_of_the_paper(page):
    ((subject, rows),) = PLACE.findall((DOCS / f"{page}.md").read_text())
    if subject == "WeightFormat":
        owners = [WeightFormat(element=ElementType(name)) for name in ("bf16", "int8")]
    else:
        owners = [resolve(subject)]
    for row in rows.splitlines():
        name, *values, place = row.strip("| ").split(" | ")
        found = [attrgetter(name.strip("`"))(owner) for owner in owners]
        assert [str(value) for value in found] == values, row
        assert re.search(r"Section|Table|Figure", place)
