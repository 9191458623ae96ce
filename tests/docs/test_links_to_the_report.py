"""Site and report link to each other where both are built into one folder."""

from tests.docs.pages import DOCS
from tilewright.report import _navigation


def test_the_report_links_to_the_site_beside_it(tmp_path):
    titles = {"deca": "DECA"}
    alone = [("index.html", "Tilewright"), ("deca.html", "DECA")]
    assert _navigation(tmp_path / "report", titles) == alone
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.html").touch()
    link = ("../docs/index.html", "Documentation")
    assert _navigation(tmp_path / "report", titles) == [*alone, link]


def test_the_site_links_to_the_report():
    for page in ("index.md", "explanation.md"):
        assert '<a href="../report/index.html">' in (DOCS / page).read_text()
