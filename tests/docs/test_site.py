"""Every page of the site can be reached and every link leads somewhere.

`nox -s docs` builds the whole site with warnings as errors; these are the same properties in a
second.
"""

import re

import pytest

from tests.docs.pages import DOCS, GENERATED, ROOT, broken_links, contents, pages

PAGES = [*pages(DOCS), *sorted(ROOT.glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_begins_with_of_or_who(page):
    text = page.read_text(encoding="utf-8")
    assert (
        re.findall(r"(?:^(?: *[-*:] )?|[.!?] |\| )(?:Of|Who|Whoever) [^|\n]{0,40}", text, re.M)
        == []
    )


def test_every_page_is_in_a_table_of_contents():
    written = {*pages(DOCS), *DOCS.rglob("*.ipynb")}
    reached, ahead = set(), [DOCS / "index"]
    while ahead:
        page = ahead.pop()
        if GENERATED in page.parents or page in reached:
            continue
        reached.add(page)
        if (markdown := page.with_name(f"{page.name}.md")).exists():
            ahead += contents(markdown)
    assert reached == {page.with_suffix("") for page in written}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("# A\n[x](gone.md)", "gone.md does not exist"),
        ("# A\n![x](gone.svg)", "gone.svg does not exist"),
        ("# A\n[x](#nowhere)", "#nowhere: no such heading"),
        ("# A\n[x](page.md#b)", "page.md#b: no such heading"),
    ],
)
def test_planted_broken_links_are_named(tmp_path, content, problem):
    (tmp_path / "page.md").write_text(content)
    assert broken_links(tmp_path / "page.md") == [problem]


def test_links_that_hold_pass(tmp_path):
    (tmp_path / "page.md").write_text("# A, b!\n[x](#a-b) [y](https://z.org) [z](page.md#a-b)")
    assert broken_links(tmp_path / "page.md") == []
