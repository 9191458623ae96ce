"""Tables of decoding steps on machines with row groups."""

from pathlib import Path

import pytest

from tests.support.examples import table
from tilewright.golden.params.resolve import resolve
from tilewright.sim.models import resolve_model
from tilewright.sim.step_programs import step_time
from tilewright.sim.workload import Batch, Pass

DOCS = Path(__file__).parents[2] / "docs"
PRESETS = {"anda": ("paper", "decode"), "harmonia": ("paper", "wide", "decode")}
CYCLES = {"anda": 2.85e5, "harmonia": 3e5}  # of a millisecond
FULL = pytest.mark.full


@pytest.mark.parametrize("number", [2, pytest.param(0, marks=FULL), pytest.param(1, marks=FULL)])
@pytest.mark.parametrize("name", PRESETS)
def test_tokens_of_few_sequences(name, number):
    page = (DOCS / f"{name}-system.md").read_text()
    model, sequences, *shown, limit = table(page, "decode")[number]
    work = Pass(Batch(((int(sequences), 512),)))
    blocks = [resolve(f"{name}:{preset}") for preset in PRESETS[name]]
    found = [step_time(block, resolve_model(model), work) for block in blocks]
    digits = len(limit.partition(".")[2])
    assert [f"{time.cycles / CYCLES[name]:.{digits}f}" for time in found] == shown
    beats = found[-1].programs.lines_read / blocks[-1].memory_channels
    assert f"{beats / CYCLES[name]:.{digits}f}" == limit
