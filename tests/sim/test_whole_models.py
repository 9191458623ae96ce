"""Whole models that were measured, beside the model: how far it may be off is held here."""

import os

import pytest

from benchmarks.whole_model_bench import ask_viewer
from tilewright.sim.models import resolve_model
from tilewright.sim.whole_models import SCHEMES, measured_models, viewer_seconds


def test_measured_steps_of_software_like_the_papers_are_near_the_model():
    """Not so PyTorch's own bf16, nor our look-up kernel for mxfp4, which the papers do not have."""
    found = measured_models()
    assert len(found) == 3 * len(SCHEMES)
    like = [row for row in found if row.model in ("sparse bf16", "dense int8", "sparse bf8")]
    assert all(abs(row.percent(row.ours_ms)) < 35 for row in like)
    for row in like:
        if row.batch > 1:
            for other in (row.roofline_ms, row.viewer_ms):
                assert abs(row.percent(row.ours_ms)) < abs(row.percent(other))


def test_no_step_is_faster_than_its_rooflines():
    for row in measured_models():
        assert max(row.roofline_ms, row.viewer_ms) < min(row.measured_ms, row.ours_ms)


def test_the_formula_of_llm_viewer_is_the_longer_of_bytes_and_work():
    """A token of one sequence is its bytes alone; with ever more bandwidth it is its work alone."""
    model = resolve_model("llama-3-8b")
    size = {"weight_bytes": 2.0, "batch": 1, "context": 1}
    by_bytes = viewer_seconds(model, **size, operations=1e30, bandwidth=1e9)
    # The table of embeddings is not read.
    read = model.parameters - model.vocab_size * model.hidden_size
    assert by_bytes == pytest.approx(2 * read / 1e9, rel=0.001)
    by_work = viewer_seconds(model, **size, operations=1e9, bandwidth=1e30)
    head = model.vocab_size * model.hidden_size
    assert by_work == pytest.approx((2 * read - head) / 1e9, rel=0.001)


@pytest.mark.full
@pytest.mark.skipif(
    "LLMVIEWER" not in os.environ,
    reason="LLMVIEWER names no checkout of github.com/hahnyuan/LLM-Viewer",
)
def test_llm_viewer_itself_says_what_its_formula_says():
    for row in measured_models()[::4]:
        assert ask_viewer(row, os.environ["LLMVIEWER"]) == pytest.approx(row.viewer_ms, rel=1e-9)
