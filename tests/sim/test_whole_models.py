"""Whole models that were measured, beside the model: how far it may be off is held here."""

from tilewright.sim.whole_models import SCHEMES, measured_models


def test_measured_steps_of_software_like_the_papers_are_near_the_model():
    """Not so PyTorch's own bf16, nor our look-up kernel for mxfp4, which the papers do not have."""
    found = measured_models()
    assert len(found) == 3 * len(SCHEMES)
    like = [row for row in found if row.model in ("sparse bf16", "dense int8", "sparse bf8")]
    assert all(abs(row.percent(row.ours_ms)) < 35 for row in like)
    for row in like:
        if row.batch > 1:
            assert abs(row.percent(row.ours_ms)) < abs(row.percent(row.roofline_ms))


def test_no_step_is_faster_than_its_roofline():
    for row in measured_models():
        assert row.roofline_ms < min(row.measured_ms, row.ours_ms)
