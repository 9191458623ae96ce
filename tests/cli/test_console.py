"""Output of the commands."""

import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from rich.spinner import SPINNERS

from tilewright.base.console import print_json, print_table, progress


def test_table_aligns_and_never_cuts(capsys):
    print_table(("NAME", "AREA"), [("x" * 200, 1.5), ("y", 10)])
    assert capsys.readouterr().out.splitlines() == [
        "NAME" + " " * 196 + "  AREA",
        "x" * 200 + "   1.5",
        "y" + " " * 199 + "    10",
    ]


def test_a_wide_table_is_wrapped_where_a_person_watches(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    print_table(("NAME", "AREA"), [("many words of one cell, which is long", 1.5)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and max(map(len, lines)) <= 30
    assert lines[1].endswith(" 1.5")


def test_json_keeps_order(capsys):
    print_json({"b": 1, "a": [2]})
    out = capsys.readouterr().out
    assert json.loads(out) == {"b": 1, "a": [2]}
    assert out.index('"b"') < out.index('"a"')


def test_progress_says_nothing_where_nobody_watches(capsys):
    with progress("work", 2) as tick:
        tick("first")
        tick()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("total", [1, 3])
def test_progress_where_somebody_watches(monkeypatch, total):
    """A spinner turns during a step; a count is shown where there is one to show."""
    output = io.StringIO()
    monkeypatch.setattr(
        "rich.console.Console",
        lambda **_: Console(file=output, force_terminal=True, width=80, force_interactive=True),
    )
    with progress("work", total) as tick:
        tick("done")
        tick("next", steps=0)
    text = output.getvalue()
    assert "work: next" in text
    assert ("1/3" in text) is (total == 3)
    assert any(frame in text for frame in SPINNERS["dots"]["frames"])


@dataclass(frozen=True)
class Part:
    area_um2: float


@dataclass(frozen=True)
class Result:
    name: str
    parts: list[Part]
    output: Path


def test_result_objects_are_written_by_their_fields(capsys):
    print_json([Result("a", [Part(1.5)], Path("out/a.json"))])
    found = json.loads(capsys.readouterr().out)
    assert found == [{"name": "a", "parts": [{"area_um2": 1.5}], "output": "out/a.json"}]


def test_what_is_no_data_is_refused():
    with pytest.raises(TypeError, match=r"^set is not JSON data(\n|$)"):
        print_json({"a": {1}})
