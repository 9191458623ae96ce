"""Measurements of the kernels, as the scoreboard reads them; on a record made up here."""

import json

import pytest

from tilewright.claims import sparamx
from tilewright.sim import records
from tilewright.sim.records import NoRecordError


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Every layer takes one second per 1024 outputs, stock three times and dense twice that."""
    shapes = ((4096, 4096), (4096, 1024), (4096, 14336), (14336, 4096))
    slower = {"sparse bf16": 1, "dense bf16": 2, "stock bf16": 3, "sparse int8": 1, "dense int8": 2}
    layers = [
        {"inputs": inputs, "outputs": outputs, "batch": batch, "kernel": kernel, "seconds": seconds}
        for inputs, outputs in shapes
        for batch in (1, 32)
        for kernel, factor in slower.items()
        for seconds in [outputs / 1024 * factor * batch]
    ]
    batches = [
        {"batch": batch, "kernel": kernel, "seconds": batch * (kernel == "sparse bf16") + 5}
        for batch in (4, 8)
        for kernel in ("sparse bf16", "sparse bf16, other order")
    ]
    path = tmp_path / "record.json"
    record = {"in_model": layers, "batch": batches}
    path.write_text(json.dumps(record))
    monkeypatch.setattr(records, "RECORD", path)
    models = tmp_path / "models.json"
    decode = [
        {"model": model, "batch": batch, "seconds": seconds}
        for model, seconds in (("stock bf16", 6), ("sparse bf16", 2), ("sparse int8", 1))
        for batch in (1, 32)
    ]
    decode += [{"model": "dense int8", "batch": 32, "seconds": 3}]
    stock = {"model": "stock bf16", "sparsity": None, "seconds": 9}
    along = [
        {"model": "sparse bf16", "sparsity": k, "seconds": s}
        for k, s in ((0.7, 1), (0.3, 2), (1, 3))
    ]
    long = [
        {"model": "sparse bf16", "attention": name, "seconds": seconds}
        for name, seconds in (("PyTorch", 8), ("dense kernel", 6), ("pruned", 5))
    ]
    text = {"decode": decode, "sparsity": [stock, *along], "long_context": long}
    models.write_text(json.dumps(text))
    monkeypatch.setattr(records, "MODEL_RECORD", models)
    return path


@pytest.mark.usefixtures("record")
def test_gains_are_ratios_of_measured_times():
    assert sparamx.measured_layer_gain("4096x1024", 32, "stock bf16") == 3
    assert sparamx.measured_layer_gain("4096x1024", 32, "dense bf16") == 2
    assert sparamx.measured_model_gain("sparse bf16", 32) == 3
    assert sparamx.measured_gain_grows(0.8) is True
    assert sparamx.measured_gain_grows(1) is False
    assert sparamx.measured_kv_gain() == 6 / 5
    assert sparamx.measured_dense_int8_wins(32) is False
    assert sparamx.measured_tiles_beat_vectors((4, 8)) is False


def test_what_was_not_measured_is_named(record):
    with pytest.raises(NoRecordError, match=r"^no measurement of \{.*'batch': 5.* the in_model$"):
        records.layer_seconds("4096x1024", 5, "sparse bf16")
    with pytest.raises(NoRecordError, match=r"^no measurement of \{.*'batch': 7\} among the"):
        records.model_seconds("sparse int8", 7)
    with pytest.raises(NoRecordError, match=r"^no measurement of \{.*'attention': 'magic'\}"):
        records.long_context_seconds("magic")
    record.rename(record.with_name("gone"))
    records.read_json.cache_clear()
    with pytest.raises(NoRecordError, match=r"^no record of the kernels on a processor$"):
        records.batch_seconds(4, "sparse bf16")
