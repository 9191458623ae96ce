"""Records side by side."""

import copy

import pytest

from tilewright.synth.compare import compare_records

OLD = {
    "metrics": {
        "area": {"value": 10.0, "unit": "um2", "better": "lower"},
        "rate": {"value": 2.0, "unit": "1/cycle", "better": "higher"},
        "cells": {"value": 5, "unit": "cells", "better": "lower"},
    }
}


def changed(**values):
    new = copy.deepcopy(OLD)
    for name, value in values.items():
        new["metrics"][name]["value"] = value
    return new


def test_direction_decides():
    changes = {c.metric: c for c in compare_records(OLD, changed(area=12.0, rate=3.0, cells=5))}
    assert {name: c.verdict for name, c in changes.items()} == {
        "area": "worse",
        "rate": "better",
        "cells": "same",
    }
    assert changes["area"].percent == pytest.approx(20.0)
    assert [c.verdict for c in compare_records(changed(area=12.0, rate=3.0), OLD)] == [
        "better",
        "worse",
        "same",
    ]


def test_another_unit_is_refused():
    new = copy.deepcopy(OLD)
    new["metrics"]["area"]["unit"] = "mm2"
    with pytest.raises(ValueError, match=r"^metric 'area' has another unit or direction in the"):
        compare_records(OLD, new)
