"""Tables and drawings: numbers as a reader wants them, colours of the page, nothing random."""

import re

import pytest

from tilewright.base.table import Table, code, number
from tilewright.site import plots
from tilewright.site.html import figure


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (-0.0, "0"),
        (12345, "12,345"),
        (0.18954, "0.1895"),
        (2047.4, "2,047"),
        (1e38, "1e+38"),
    ],
)
def test_numbers(value, shown):
    assert number(value) == shown


def test_tables_put_numbers_to_the_right_and_dash_what_is_missing():
    made = Table(("A", "B", "C"), [("x < y", 1.5, True), (code("<b>"), None, False)])._repr_html_()
    assert "<th class='number'>B</th>" in made
    assert "<td class='number'>\N{EN DASH}</td>" in made
    assert "<td>x &lt; y</td>" in made and "<code>&lt;b&gt;</code>" in made
    assert "<td>yes</td>" in made


def test_long_words_of_a_table_may_be_broken():
    rows = [(1, "short"), (2, "many words " * 9), (3, "some words " * 3)]
    made = Table(("a", "b" * 99), rows)._repr_html_()
    assert made.count("class='words'") == 1
    assert "<td class='phrase'>some words " in made


def test_columns_are_keys_attributes_or_functions():
    records = [{"a": 1}, {"a": 2}]
    assert Table.of(records, {"A": "a", "B": lambda r: -r["a"]}).rows == [[1, -1], [2, -2]]
    assert Table.of([1j], {"Imaginary": "imag"}).column("Imaginary") == [1.0]
    columns = {"B": "a.b.1:.2f", "C": "c.real:.1f"}
    assert Table.of([{"a": {"b": [3, 4]}}, {"c": 5}], columns).rows == [
        ["4.00", None],
        [None, "5.0"],
    ]


def test_drawings_are_the_same_every_time_and_take_the_page_colours():
    points = {"one": [("a", 1, 2), ("b", 3, 4)], "two": [("c", 10, 20)]}
    drawn = [plots.scatter("a < b", points, x_label="x", y_label="y") for _ in range(2)]
    assert drawn[0] == drawn[1] and 'aria-label="a &lt; b"' in drawn[0]
    for words in ("currentColor", "var(--series-0)", "var(--series-1)", ">a<", ">b<", ">c<"):
        assert words in drawn[0]
    assert not re.search(r"#0[147]0[258]", drawn[0])
    assert figure("", "a < b").count("a &lt; b") == 1


@pytest.mark.parametrize(("top", "labels"), [(1000, "100 200 500"), (170, "60 70 80 90 100")])
def test_a_logarithmic_axis_has_enough_numbers(top, labels):
    line = {"a": [(0, 60), (1, top)]}
    drawn = plots.curves("name", line, line, x_label="x", y_label="y", logarithmic=True)
    assert {f">{label}<" for label in labels.split()} <= set(re.findall(r">\d+<", drawn))
    assert ">300<" not in drawn
