"""The page of the papers' contradictions: its arithmetic gives what it says, beyond rounding."""

from decimal import Decimal

import pytest

from tests.docs.pages import DOCS

LINES = (DOCS / "results" / "contradictions.md").read_text().splitlines()
ROWS = [line.strip("| ").split(" | ") for line in LINES if line.startswith("| ") and "`" in line]


def number(cell: str) -> Decimal:
    return Decimal(cell.split()[0])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_arithmetic(row):
    _, printed, follows, _, arithmetic, _ = row
    ours = eval(arithmetic.strip("`"), {"__builtins__": {}, "min": min})
    assert f"{ours:.4g}" == follows.split()[0]
    half_a_digit = 0.5 * 10.0 ** number(printed).as_tuple().exponent
    assert abs(ours - float(number(printed))) > half_a_digit * (1 + 1e-9)


def test_none_is_lost():
    assert len(ROWS) == 29
