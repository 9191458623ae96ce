"""Every command and every line of Python in the how-to guides runs and gives what is shown."""

import pytest

from tests.docs.pages import DOCS
from tests.support.examples import run_page

GUIDES = sorted((DOCS / "how-to").glob("*.md"))


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_guide(guide, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page(guide.read_text(), str(guide), capsys)
