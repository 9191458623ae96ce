"""What the records of kernels must show."""

from tilewright.kernels.records import load_records


def test_shared_processors_make_no_sparse_model_slower_than_stock():
    """At most 5% slower in any measured situation is allowed."""
    for record in load_records("sharing").values():
        rows = record["rows"]
        assert len(rows) == 6
        for row in rows:
            assert row["sparse bf16"]["seconds"] <= 1.05 * row["stock bf16"]["seconds"]
