"""Sizes and encodings of the Anda accelerator."""

import pytest

from tilewright.golden.params.anda_machine import AndaParams, Memory, group_rows
from tilewright.golden.params.vector import (
    SLOPE_BITS,
    STEP_BITS,
    TABLES,
    VALUE_BITS,
    Operation,
    VectorParams,
)


def test_buffers_have_the_papers_sizes():
    p = AndaParams()
    size = {memory: p.depth(memory) * p.row_bits(memory) // 8 for memory in Memory}
    assert size[Memory.ACTIVATIONS] == 1 << 20
    assert size[Memory.EXPONENTS] == 1 << 17  # 0.125 MB
    assert size[Memory.WEIGHTS] == 1 << 20
    assert p.vector.lanes == 64 and p.compressor.lanes == 16
    assert (p.mxu.rows, p.mxu.columns) == (16, 16)


def test_tables_fit_their_words():
    limit = 1 << (SLOPE_BITS - 1)
    for table in TABLES.values():
        assert len(table) == 64
        for segment in table:
            assert -limit <= segment.slope < limit
            end = segment.base + (segment.slope * ((1 << STEP_BITS) - 1) >> STEP_BITS)
            for value in (segment.base, end):
                assert 1 << (VALUE_BITS - 2) <= value < 1 << VALUE_BITS  # one leading zero at most


def test_group_rows():
    assert [group_rows(m) for m in (0, 1, 16)] == [16, 2, 17]


def test_operations_know_what_they_take():
    assert [o for o in Operation if o.reduces] == [Operation.SUM, Operation.DOT, Operation.LARGEST]
    assert not Operation.SUM.takes_b and Operation.DOT.takes_b
    assert not Operation.LARGEST.takes_scale


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group": 8}, "group must be 16, 32 or 64, not 8"),
        ({"columns": 2}, "columns must fill whole words of 64 bits, not 2"),
        ({"columns": 24}, "columns must divide the group of 64, not be 24"),
        ({"weight_rows": 1 << 17}, "weight_rows must be 16..65536, not 131072"),
        ({"line_bytes": 8}, "line_bytes must be 16..1024, not 8"),
        ({"line_bytes": 96}, "line_bytes must be a power of two, not 96"),
    ],
)
def test_refusals(changes, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        AndaParams(**changes)


def test_vector_refusals():
    with pytest.raises(ValueError, match=r"^group must be 16, 32, 64, 128 or 256, not 48$"):
        VectorParams(group=48)
    with pytest.raises(ValueError, match=r"^rows must be at least 1, not 0$"):
        VectorParams(rows=0)
