"""Measurements of the kernels, as the scoreboard reads them; on a record made up here."""

import json

import pytest

from tilewright.sim import measured
from tilewright.sim.evaluations import EVALUATIONS
from tilewright.sim.measured import BLOCK
from tilewright.sim.records import NoRecordError


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Every layer takes one second per 1024 outputs, stock three times and dense twice that."""
    slower = {"sparse bf16": 1, "dense bf16": 2, "stock bf16": 3, "sparse int8": 1, "dense int8": 2}
    layers = [
        {"inputs": inputs, "outputs": outputs, "batch": batch, "kernel": kernel, "seconds": seconds}
        for inputs, outputs in (map(int, layer.split("x")) for layer in dict.fromkeys(BLOCK))
        for batch in (1, 32)
        for kernel, factor in slower.items()
        for seconds in [outputs / 1024 * factor * batch]
    ]
    attention = [{"kernel": "pruned", "seconds": 2}, {"kernel": "dense", "seconds": 10}]
    batches = [
        {"batch": batch, "kernel": kernel, "seconds": batch * (kernel == "sparse bf16") + 5}
        for batch in (4, 8)
        for kernel in ("sparse bf16", "sparse bf16, other order")
    ]
    path = tmp_path / "record.json"
    kernel = "sparse bf16"
    rows = [
        {"sparsity": k, "kernel": kernel, "seconds": s} for k, s in ((0.7, 1), (0.3, 2), (1, 3))
    ]
    record = {"layers": layers, "attention": attention, "batch": batches, "sparsity": rows}
    path.write_text(json.dumps(record))
    monkeypatch.setattr(measured, "RECORD", path)
    models = tmp_path / "models.json"
    decode = [
        {"model": model, "batch": batch, "seconds": seconds}
        for model, seconds in (("stock bf16", 6), ("sparse bf16", 2), ("sparse int8", 1))
        for batch in (1, 32)
    ]
    decode += [{"model": "dense int8", "batch": 32, "seconds": 3}]
    models.write_text(json.dumps({"decode": decode}))
    monkeypatch.setattr(measured, "MODEL_RECORD", models)
    return path


@pytest.mark.usefixtures("record")
def test_gains_are_ratios_of_measured_times():
    assert EVALUATIONS["measured_layer_gain"](layer="4096x1024", batch=32) == 3
    assert EVALUATIONS["measured_model_gain"](model="sparse bf16", batch=32) == 3
    assert EVALUATIONS["measured_gain_grows"](up_to=0.8) is True
    assert EVALUATIONS["measured_gain_grows"](up_to=1) is False
    # Dense: 2 s for each 1024 of the 2 (4 + 1 + 14) + 4 times 1024 outputs.
    assert EVALUATIONS["measured_kv_gain"]() == (2 * 42 + 10) / (2 * 42 + 2)
    assert EVALUATIONS["measured_dense_int8_wins"](batch=32) is False
    assert EVALUATIONS["measured_tiles_beat_vectors"](batches=[4, 8]) is False


def test_what_was_not_measured_is_named(record):
    with pytest.raises(NoRecordError, match=r"^no measurement of \{.*'batch': 5.* the layers of"):
        measured.layer_seconds("4096x1024", 5, "sparse bf16")
    with pytest.raises(NoRecordError, match=r"^no measurement of sparse int8 at batch 7 among"):
        measured.model_seconds("sparse int8", 7)
    record.rename(record.with_name("gone"))
    measured._record.cache_clear()
    with pytest.raises(NoRecordError, match=r"^no record of the kernels on a processor$"):
        measured.batch_seconds(4, "sparse bf16")
