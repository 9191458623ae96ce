"""The report as a reader gets it: whole, closed in itself, true to the records."""

import json
import re
import shutil
from html.parser import HTMLParser

import pytest

from synth.record import RECORDS, load_records
from tilewright import cli
from tilewright.report import build_report, html, plots
from tilewright.report.page import Context, Page
from tilewright.report.pages import checks, units

VOID = {"meta", "link", "img", "br", "hr", "input", "wbr"}
PAGES = ("units", "technology", "checks", "formats", "tools")


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


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report on the committed records, and its pages."""
    folder = tmp_path_factory.mktemp("report") / "out"
    return folder, build_report(folder, Context(records=RECORDS, cases=500))


def test_all_pages_and_their_data_are_there(report):
    folder, pages = report
    assert tuple(pages) == PAGES
    files = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert files == {"index.html"} | {f"{p}.{end}" for p in pages for end in ("html", "json")}
    for name, page in pages.items():
        assert json.loads((folder / f"{name}.json").read_text()) == page.data


@pytest.mark.parametrize("name", ["index", *PAGES])
def test_pages_are_well_formed_and_load_nothing(report, name):
    folder, _ = report
    page = read(folder / f"{name}.html")
    assert all(target.startswith("#") for target in page.loaded)  # parts of drawings
    assert {target[1:] for target in page.loaded} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    for target in page.links:
        assert (folder / target).is_file()
    text = (folder / f"{name}.html").read_text()
    assert not re.search(r"@import|url\((?!#)|<script|//[\w-]+\.\w", text)
    assert "prefers-color-scheme: dark" in text
    assert '<meta name="viewport"' in text


def test_committed_records_are_fresh_and_checks_pass(report):
    _, pages = report
    assert [(name, list(p.failures), list(p.problems)) for name, p in pages.items()] == [
        (name, [], []) for name in PAGES
    ]


def test_every_figure_of_a_record_is_on_the_page(report):
    folder, pages = report
    words = read(folder / "units.html").words
    records = pages["units"].data["records"]
    assert set(records) == set(load_records())
    for record in records.values():
        for metric in ("area", "delay", "cells"):
            assert html.number(record["metrics"][metric]["value"]) in words


def test_a_stale_record_is_shown_and_strict_fails(tmp_path, monkeypatch, capsys):
    records = tmp_path / "records"
    records.mkdir()
    for technology in ("asap7", "sky130hd"):
        name = f"popcount.{technology}.json"
        shutil.copy(RECORDS / name, records / name)
    path = records / "popcount.asap7.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"rtlil_sha256": "0" * 64}))
    page = units.build(Context(records=records, cases=1))
    (problem,) = page.problems
    assert problem == (
        "popcount.asap7.json no longer describes its block; to renew it:"
        f" tilewright synth {record['spec']} --tech asap7 --update-records"
    )
    assert page.body.count(">stale<") == 2  # beside the block and beside the record
    assert page.body.count(">fresh<") == 1
    pages = {"units": page}
    monkeypatch.setattr("tilewright.report.build_report", lambda *_: pages)
    assert cli.main(["report", "-o", str(tmp_path / "out")]) == 0
    assert cli.main(["report", "-o", str(tmp_path / "out"), "--strict"]) == 1
    assert f"tilewright: units: {problem}\n" in capsys.readouterr().err


def test_many_stale_records_are_one_line(tmp_path):
    for name in ("popcount.asap7.json", "popcount.sky130hd.json", "fork.asap7.json"):
        record = json.loads((RECORDS / name).read_text())
        changed = {} if name.startswith("fork") else {"rtlil_sha256": "0" * 64}
        (tmp_path / name).write_text(json.dumps(record | changed))
    assert units.build(Context(records=tmp_path, cases=1)).problems == [
        "2 of 3 records no longer describe their blocks;"
        " to renew them: tilewright synth --all --stale --update-records"
    ]


def test_a_failing_check_fails_the_command(tmp_path, monkeypatch, capsys):
    pages = {"checks": Page(summary="", body=html.Markup(""), data={}, failures=["add: case 3"])}
    monkeypatch.setattr("tilewright.report.build_report", lambda *_: pages)
    assert cli.main(["report", "-o", str(tmp_path / "out"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failures"] == ["checks: add: case 3"]


def test_live_checks_notice_a_wrong_golden_model(monkeypatch):
    def wrong(a_fmt, b_fmt, out_fmt, a, b):
        good = checks.multiply(a_fmt, b_fmt, out_fmt, a, b)
        good[7] ^= 1
        return good

    check = checks._operation("multiply", checks.FP16, wrong, checks.np.multiply)
    assert re.fullmatch(r"case 7 \(0x\w+, 0x\w+\): 0x\w+, not 0x\w+", check(100)["mismatch"])


def test_live_checks_notice_wrong_rtl(monkeypatch):
    from golden.params.arith import PopcountParams
    from hw.arith.popcount import Popcount

    stages = Popcount.stages

    def wrong(self):
        return [*stages(self), lambda m, x: {"count": x.count ^ 1}]

    monkeypatch.setattr(Popcount, "stages", wrong)
    assert checks._check_rtl(PopcountParams())["mismatch"].startswith("case 0 (")


def test_without_records_the_page_says_so(tmp_path):
    page = units.build(Context(records=tmp_path, cases=1))
    assert page.summary == "No synthesis record yet."


def test_text_is_escaped_once():
    assert html.paragraph("a < b & c", html.code("<x>")) == (
        "<p>a &lt; b &amp; c <code>&lt;x&gt;</code></p>"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (12345, "12,345"), (0.18954, "0.1895"), (2047.4, "2,047"), (1e38, "1e+38")],
)
def test_numbers(value, shown):
    assert html.number(value) == shown


def test_tables_put_numbers_to_the_right_and_dash_what_is_missing():
    made = html.table(("A", "B"), [("x", 1.5), ("y", None)])
    assert '<th class="number">B</th>' in made
    assert '<td class="number">\N{EN DASH}</td>' in made
    assert "<td>x</td>" in made


def test_drawings_are_the_same_every_time_and_take_the_page_colours():
    points = {"one": [("a", 1, 2), ("b", 3, 4)], "two": [("c", 10, 20)]}
    drawn = [plots.scatter("name", points, x_label="x", y_label="y") for _ in range(2)]
    assert drawn[0] == drawn[1]
    for words in ("currentColor", "var(--series-0)", "var(--series-1)", ">a<", ">b<", ">c<"):
        assert words in drawn[0]
    assert not re.search(r"#0[147]0[258]", drawn[0])
