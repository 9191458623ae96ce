"""Whole models that were measured, beside the model: how far it may be off is held here."""

from benchmarks.whole_model_bench import SCHEMES, rows
from tests.docs.pages import DOCS


def test_measured_steps_of_software_like_the_papers_are_near_the_model():
    """Not so PyTorch's own bf16, nor our look-up kernel for mxfp4, which the papers do not have."""
    found = rows()
    assert len(found) == 3 * len(SCHEMES)
    like = [row for row in found if row.model in ("sparse bf16", "dense int8", "sparse bf8")]
    assert all(abs(row.ours_percent) < 35 for row in like)
    batches = [row for row in like if row.batch > 1]
    assert all(abs(row.ours_percent) < abs(row.roofline_percent) for row in batches)


def test_the_page_has_every_step():
    page = (DOCS / "model.md").read_text()
    for row in rows():
        ours = f"{row.measured_ms:.1f} | {row.ours_ms:.1f} | {row.ours_percent:+.0f}%"
        roof = f"{row.roofline_ms:.1f} | {row.roofline_percent:+.0f}%"
        assert f"| {row.model} | {row.batch} | {ours} | {roof} |" in page


def test_no_step_is_faster_than_its_roofline():
    for row in rows():
        assert row.roofline_ms < row.measured_ms
        assert row.roofline_ms < row.ours_ms
