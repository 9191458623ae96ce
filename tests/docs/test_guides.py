"""Commands and Python of guides, tutorials and the designs' pages run and give what is shown."""

import runpy

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.support.examples import run_page

EXPLAINED = (
    *("anda-system", "deca", "deca-timing", "harmonia-system", "model"),
    *("sparamx", "sparamx-kernels"),
)
GUIDES = [
    *sorted((DOCS / "how-to").glob("*.md")),
    *sorted((DOCS / "learn").glob("*.md")),
    *(DOCS / f"{name}.md" for name in EXPLAINED),
]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_guide(guide, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for folder in ("docs", "examples"):  # of the checkout in which a reader types
        (tmp_path / folder).symlink_to(ROOT / folder)
    run_page(guide.read_text(), str(guide), capsys)


@pytest.mark.full
def test_a_tile_through_deca():
    """The example of the page on DECA's interface; it compares the rows with golden's."""
    assert len(runpy.run_path(str(DOCS / "examples" / "deca_tile.py"))["rows"]) == 16
