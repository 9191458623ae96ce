"""Commands and Python of guides, tutorials and the designs' pages run and give what is shown."""

import pytest

from tests.docs.pages import DOCS, ROOT
from tests.support.examples import run_page

EXPLAINED = (
    *("anda-system", "conform", "deca", "deca-timing", "harmonia-system", "model"),
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
