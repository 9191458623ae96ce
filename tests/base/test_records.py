"""Records as text and tables of them: few lines, nothing lost, what is shared there once."""

import json
import random

import pytest

from tilewright.base.records import WIDTH, load_table, record_text, table_text, updated_table


def metric(value, unit="um2"):
    return {"value": value, "unit": unit, "better": "lower"}


TABLE = {
    "a": {"tools": {"x": "1"}, "goal": "area", "metrics": {"area": metric(1.5)}, "path": None},
    "b": {"tools": {"x": "1"}, "goal": "fastest", "metrics": {"area": metric(2)}, "path": "x"},
    "c": {"tools": {"x": "1"}, "goal": "area", "metrics": {"delay": metric(0.0, "ps")}},
}


def test_numbers_fill_lines_and_what_is_nested_begins_one():
    text = record_text({"a": 1, "b": list(range(30)), "c": {"d": "e"}, "f": 2})
    assert text == (
        '{\n "a": 1,\n "b": [\n  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,'
        ' 19, 20, 21, 22, 23, 24, 25, 26,\n  27, 28, 29\n ],\n "c": {"d": "e"},\n "f": 2\n}\n'
    )
    assert record_text({"a": [], "b": {"c": [1, [2, 3]]}}) == '{"a": [], "b": {"c": [1, [2, 3]]}}\n'


def anything(rng, depth):
    kind = rng.randrange(5) if depth else rng.randrange(3)
    if kind == 3:
        return [anything(rng, depth - 1) for _ in range(rng.randrange(9))]
    if kind == 4:
        return {f"k{n}": anything(rng, depth - 1) for n in range(rng.randrange(9))}
    return (rng.randrange(1 << 20), rng.choice([None, True, 0.1]), "w]{,\n" * rng.randrange(4))[
        kind
    ]


@pytest.mark.parametrize("seed", range(20))
def test_text_has_everything_in_short_lines(seed):
    data = anything(random.Random(seed), 5)
    text = record_text(data)
    assert json.loads(text) == data
    assert max(map(len, text.splitlines())) <= WIDTH


def test_a_table_and_back(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(table_text(TABLE))
    assert load_table(path) == TABLE
    written = json.loads(path.read_text())
    assert written["common"] == {"tools": {"x": "1"}, "goal": "area"}
    assert written["metrics"] == {"area": ["um2", "lower"], "delay": ["ps", "lower"]}
    assert written["records"]["b"] == {"goal": "fastest", "metrics": {"area": 2}, "path": "x"}
    assert table_text(dict(reversed(TABLE.items()))) == table_text(TABLE)
    assert table_text(load_table(path)) == table_text(TABLE)
    assert load_table(tmp_path / "none.json") == {}


def test_one_metric_has_one_unit():
    with pytest.raises(ValueError, match=r"^metric 'area' of b has another unit or direction$"):
        table_text(TABLE | {"b": {"metrics": {"area": metric(1, "mm2")}}})


def test_an_update_that_fails_leaves_the_table(tmp_path):
    path = tmp_path / "folder" / "t.json"
    with updated_table(path) as table:
        table |= TABLE
    with pytest.raises(RuntimeError), updated_table(path) as table:
        del table["a"]
        raise RuntimeError
    assert load_table(path) == TABLE
    assert list(path.parent.iterdir()) == [path]
