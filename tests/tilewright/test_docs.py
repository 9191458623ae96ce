"""The documentation builds, and a link that leads nowhere does not pass."""

from pathlib import Path

import pytest

from tilewright.docs import build_docs
from tilewright.errors import CommandError

ROOT = Path(__file__).parents[2]


def build(tmp_path, **files):
    source = tmp_path / "docs"
    source.mkdir()
    for name, content in files.items():
        (source / f"{name}.md").write_text(content)
    return build_docs(source, tmp_path / "html")


def test_the_documentation_of_the_project_builds(tmp_path):
    pages = build_docs(ROOT / "docs", tmp_path / "html")
    assert "index.html" in pages
    html = (tmp_path / "html" / "index.html").read_text()
    assert 'href="architecture.html"' in html
    assert 'src="spine.svg"' in html
    assert (tmp_path / "html" / "spine.svg").exists()


def test_links_of_the_pages_beside_docs(tmp_path):
    assert {"README.html", "CONTRIBUTING.html"} <= set(build_docs(ROOT, tmp_path / "html"))


def test_links_between_pages_become_html(tmp_path):
    build(tmp_path, index="# A\n[b](b.md#the-end)\n", b="# B\n## The end!\n[x](../docs/index.md)\n")
    assert '<a href="b.html#the-end">' in (tmp_path / "html" / "index.html").read_text()
    page = (tmp_path / "html" / "b.html").read_text()
    assert '<h2 id="the-end">' in page
    assert '<a href="index.html">' in page


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("# A\n[x](gone.md)", "gone.md does not exist"),
        ("# A\n![x](gone.svg)", "gone.svg does not exist"),
        ("# A\n[x](#nowhere)", "#nowhere: no such heading"),
        ("# A\n[x](../src.py)", "../src.py does not exist"),
    ],
)
def test_broken_links_are_named(tmp_path, content, problem):
    with pytest.raises(CommandError, match=r"^broken links\n.*index\.md: ") as refusal:
        build(tmp_path, index=content)
    assert str(refusal.value).endswith(f"index.md: {problem}")
    assert not (tmp_path / "html").exists()


def test_a_page_needs_a_heading(tmp_path):
    with pytest.raises(CommandError, match=r"index\.md has no heading$"):
        build(tmp_path, index="words\n")


def test_a_folder_without_pages_is_refused(tmp_path):
    with pytest.raises(CommandError, match=r"^no Markdown file in "):
        build(tmp_path)
