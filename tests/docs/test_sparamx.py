"""The page of docs/sparamx.md: its program runs, its commands exist."""

from pathlib import Path

from tests.support.examples import blocks
from tilewright.kernels.records import load_records

PAGE = (Path(__file__).parents[2] / "docs" / "sparamx.md").read_text()


def test_programs_of_the_page():
    programs = blocks(PAGE, "python")
    assert programs
    for program in programs:
        exec(compile(program, "docs/sparamx.md", "exec"), {})


def test_shared_processors_make_no_sparse_model_slower_than_stock():
    """At most 5% slower in any measured situation is allowed."""
    for record in load_records("sharing").values():
        rows = record["rows"]
        assert len(rows) == 6
        for row in rows:
            assert row["sparse bf16"]["seconds"] <= 1.05 * row["stock bf16"]["seconds"]
