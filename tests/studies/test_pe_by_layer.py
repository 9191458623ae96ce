"""Energy of PEs by model and layer: what is on record, and what the command says of it."""

import json

import pytest

from tilewright.cli import main
from tilewright.studies.pe.by_layer import MODELS, RECORD, SIXTHS, TECHNOLOGY, energy_by_layer
from tilewright.studies.pe.energy import PES, made_with
from tilewright.synth.record import rtlil_sha256


def test_the_record_is_of_the_compared_pes():
    record = json.loads(RECORD.read_text())
    for key, value in made_with(TECHNOLOGY).items():
        assert record[key] == value, "renew with `python -m tilewright.studies.pe.by_layer`"
    assert {name: entry["spec"] for name, entry in record["pes"].items()} == PES
    for entry in record["pes"].values():
        assert entry["rtlil_sha256"] == rtlil_sha256(entry["spec"])


def test_the_comparisons_tensors_are_typical():
    """The page says so; the comparison's own layer, drawn anew, gives its energy."""
    found = energy_by_layer()
    assert [*found.layers] == [*MODELS]
    assert found.layers["smollm2"] == [30 * sixth // 6 for sixth in SIXTHS]
    for name, usual in found.usual_fj.items():
        assert found.fj[name]["smollm2"][1] == pytest.approx(usual, rel=0.02), name
        everywhere = [x for layers in found.fj[name].values() for x in layers]
        assert max(everywhere) < 1.05 * min(everywhere)
    assert (found.pairs, found.turned) == (66, ())


def test_command(capsys):
    assert main(["compare", "pe", "--by-layer"]) == 0
    text = capsys.readouterr().out
    assert "SMOLLM2 5/15/25" in text and "pairs the same" in text
    assert main(["compare", "pe", "--by-layer", "--array"]) == 2
    assert "leave out other options" in capsys.readouterr().err
