"""The report as the installed package writes it: whole, closed in itself, without a problem."""

import re
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import pytest

from tilewright.report import html
from tilewright.report.pages import checks
from tilewright.synth.record import load_records

VOID = {"meta", "link", "img", "br", "hr", "input", "wbr"}
PAGES = sorted(path.stem for path in Path(checks.__file__).parent.glob("[!_]*.py"))


class Reader(HTMLParser):
    """Collects what a page refers to and complains about tags that do not match."""

    def __init__(self):
        super().__init__()
        self.open, self.loaded, self.links, self.ids, self.words = [], [], [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        if "href" in values:
            (self.links if tag == "a" else self.loaded).append(values["href"])
        self.loaded += [values[name] for name in ("src", "srcset", "data") if name in values]

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.words.append(text)


def read(path):
    reader = Reader()
    reader.feed(path.read_text())
    reader.close()
    assert reader.open == []
    return reader


def test_all_pages_and_their_data_are_there(written):
    pages = written.said["pages"]
    assert sorted(pages) == PAGES
    positions = [import_module(f"tilewright.report.pages.{name}").POSITION for name in pages]
    assert positions == sorted(positions)
    files = {path.name for path in written.folder.iterdir() if not path.name.startswith(".")}
    assert files == {"index.html"} | {f"{p}.{end}" for p in pages for end in ("html", "json")}
    assert written.said["index"].endswith("report/index.html")


@pytest.mark.parametrize("name", ["index", *PAGES])
def test_pages_are_well_formed_and_load_nothing(written, name):
    folder = written.folder
    page = read(folder / f"{name}.html")
    assert all(target.startswith("#") for target in page.loaded)  # parts of drawings
    assert {target[1:] for target in page.loaded} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    for target in page.links:
        assert (folder / target).is_file()
    text = (folder / f"{name}.html").read_text()
    assert not re.search(r"@import|url\((?!#)|<script[^>]*\bsrc|//[\w-]+\.\w", text)
    assert "prefers-color-scheme: dark" in text
    assert '<meta name="viewport"' in text


def test_no_page_has_a_problem_and_checks_pass(written):
    """Records are fresh under the installed name too."""
    assert not written.said["problems"]
    assert not written.said["failures"]


def test_every_figure_of_a_record_is_on_the_page(written):
    words = read(written.folder / "blocks.html").words
    records = written.data["blocks"]["records"]
    assert set(records) == set(load_records())
    for record in records.values():
        for metric in ("area", "delay", "cells"):
            assert html.number(record["metrics"][metric]["value"]) in words


def test_scoreboard_shows_every_verdict(written):
    words = " ".join(read(written.folder / "scoreboard.html").words)
    data = written.data["scoreboard"]
    assert sum(map(len, data["claims"].values())) > 100
    for rows in data["claims"].values():
        for row in rows:
            assert row["id"] in words
            assert row["verdict"] in words
    assert set(data["constants"]) <= set(words.split())
