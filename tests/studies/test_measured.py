"""Records of what simulations measured: result objects go in, plain data comes out."""

from dataclasses import dataclass

import pytest

from tilewright.studies.measured import load_measured, write_measured


@dataclass(frozen=True)
class Row:
    cycles: int
    shape: tuple[int, ...]


def test_records_hold_result_objects(tmp_path):
    write_measured("x", {"command": "c", "rows": [Row(1, (2, 3))]}, tmp_path)
    assert load_measured("x", tmp_path) == {
        "command": "c",
        "rows": [{"cycles": 1, "shape": [2, 3]}],
    }
    assert load_measured("y", tmp_path) is None


def test_other_objects_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"^set is not JSON data(\n|$)"):
        write_measured("x", {"rows": {1}}, tmp_path)
    assert list(tmp_path.iterdir()) == []
