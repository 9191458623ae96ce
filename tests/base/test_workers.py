"""Tests that share something stay in one worker; short ones come last."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.workers import group_of, pytest_collection_modifyitems

ROOT = Path(__file__).parents[2]
UNITS = "tests/hw/test_blocks.py"


@pytest.mark.parametrize(
    ("test", "group"),
    [
        ("tests/report/test_written.py::test_any[1-1]", "installed package"),
        ("tests/test_wheel.py::test_any", "installed package"),
        ("tests/synth/test_clock_gates.py::test_any", "tests/synth/test_clock_gates.py"),
        (f"{UNITS}::test_unit_equals_golden[queue:tiny-0.3-80]", f"{UNITS}[queue:tiny]"),
        (f"{UNITS}::test_latency_is_as_stated[queue:tiny]", f"{UNITS}[queue:tiny]"),
        ("tests/base/test_workers.py::test_any[a-b]", "tests/base/test_workers.py::test_any[a-b]"),
    ],
)
def test_groups(test, group):
    assert group_of(test, ROOT) == group


def test_short_tests_come_last_in_workers():
    names = [f"tests/{name}.py::test_any" for name in ("base/a", "cli/b", "golden/c", "verify/d")]
    items = [SimpleNamespace(nodeid=name) for name in names]
    pytest_collection_modifyitems(SimpleNamespace(), items)
    assert [item.nodeid for item in items] == names
    pytest_collection_modifyitems(SimpleNamespace(workerinput={}), items)
    assert [item.nodeid for item in items] == [names[k] for k in (1, 3, 0, 2)]
