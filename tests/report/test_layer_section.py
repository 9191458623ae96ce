"""The report's section on real tensors: figures of the records, or how to make them."""

from tilewright.golden.params.harmonia_machine import Counter
from tilewright.report.accuracy import layer
from tilewright.report.measured import load_measured


def test_figures_are_the_records():
    page = str(layer.layer_section())
    record = load_measured("deca_layer")
    assert record["equal"]
    for matrix in record["matrices"]:
        assert f"{matrix['bytes']:,}" in page
    assert record["command"] in page


def test_records_that_are_missing_are_named_with_their_command(monkeypatch):
    monkeypatch.setattr(layer, "load_measured", lambda name: None)
    page = str(layer.layer_section())
    for workload in ("deca.layer", "machine.layer --block anda", "machine.layer --block harmonia"):
        assert f"tilewright simulate {workload}" in page


def test_every_kind_of_record_is_shown(monkeypatch):
    counters = {counter.name.lower(): 7 for counter in Counter}
    common = {"command": "tilewright simulate x", "layer": 3, "model": "m", "block": "b"}
    records = {
        f"{name}_layer": {
            "tokens": 104,
            "steps": [{"first": 96, "tokens": 1, "counters": {**counters, "cycles": cycles}}],
            **common,
        }
        for name, cycles in (("anda", 4321), ("harmonia", 8765))
    }
    monkeypatch.setattr(layer, "load_measured", records.get)
    page = str(layer.layer_section())
    for text in ("4,321", "8,765", "layer 3 of m on b", "tilewright simulate deca.layer"):
        assert text in page
