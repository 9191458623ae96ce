"""The inspection of pages in a browser finds what it is for."""

import shutil

import pytest

from tests.docs.browser import NAMES, open_browser
from tests.docs.screens import PICTURES, problems

PAGE = "<!DOCTYPE html><meta name=viewport content='width=device-width'><body>"
PLANTED = {
    "<p style='width: 500px'>wide</p>": ["pixels wide", "P: wide"],
    "<img src=gone.png alt=x>": ["no picture", "gone.png"],
    "<script>missing()</script>": ["missing is not defined"],
    "<div style='overflow-x: auto'><p style='width: 500px; margin: 0'>wide</p></div>": [],
}


def test_twelve_pages_are_photographed():
    assert len(set(PICTURES.values())) == len(PICTURES) >= 12


@pytest.mark.full
def test_planted_problems_are_found(tmp_path):
    if not any(map(shutil.which, NAMES)):
        pytest.skip("no Chromium here; to get it: apt-get install chromium")
    with open_browser() as browser:
        for k, (content, words) in enumerate(PLANTED.items()):
            path = tmp_path / f"{k}.html"
            path.write_text(PAGE + content)
            found = " ".join(problems(browser, path.as_uri(), 390))
            assert all(word in found for word in words) and bool(found) == bool(words), found
