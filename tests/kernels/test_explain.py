"""Where a packed model's time goes: bytes, bounds and advice; no speed is measured here."""

import json

import numpy as np
import pytest

from tilewright.cli import main
from tilewright.golden.tensorfile import TensorFileWriter
from tilewright.kernels.explain import Kind, _advice, explain
from tilewright.kernels.forms import METHOD, PARTS, family, pack
from tilewright.kernels.library import Path

FORMS = {"model.layers.0.down": "mxfp4", "model.layers.1.down": "mxfp4", "head": "int8"}
SHAPE = (64, 96)


@pytest.fixture
def folder(tmp_path):
    bits = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32).view("u4") >> 16
    packed = {name: pack(form, bits.astype(np.uint16)).parts for name, form in FORMS.items()}
    with (tmp_path / "model.safetensors").open("wb") as file:
        names = [(f"{layer}.{part}", 1) for layer, parts in packed.items() for part in parts]
        writer = TensorFileWriter(file, names)
        for layer, parts in packed.items():
            for part, content in parts.items():
                writer.region(f"{layer}.{part}", "U8", content.shape).write(content)
        writer.close({})
    layers = {name: {"form": form, "shape": SHAPE} for name, form in FORMS.items()}
    about = {"quantization_config": {"quant_method": METHOD, "layers": layers}}
    (tmp_path / "config.json").write_text(json.dumps(about))
    return tmp_path


def test_layers_of_one_name_are_a_row(folder, capsys):
    assert main(["kernels", "explain", str(folder), "--threads", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in found["kinds"]}
    assert {name: (row["layers"], row["form"]) for name, row in rows.items()} == {
        "model.layers.*.down": (2, "mxfp4"),
        "head": (1, "int8"),
    }
    assert rows["model.layers.*.down"]["megabytes"] == pytest.approx(2 * 64 * 96 * 4.25 / 8e6)
    assert rows["head"]["bits_per_weight"] == 8 * 128 / 96  # tiles of 64 inputs
    for row in found["kinds"]:
        assert row["share"] == pytest.approx(row["bound_ms"] / row["measured_ms"])
        assert row["gb_per_second"] * row["measured_ms"] == pytest.approx(row["megabytes"])
    assert found["bound_ms"] == pytest.approx(sum(row["bound_ms"] for row in found["kinds"]))
    assert main(["kernels", "explain", str(folder)]) == 0
    assert "a token's products:" in capsys.readouterr().out


def test_advice_names_what_costs_most():
    same = {"layers": 1, "order": "vector", "megabytes": 1.0, "bound_ms": 1.0, "gb_per_second": 1.0}
    rows = [
        Kind(name="up", form="bf16", bits_per_weight=17, measured_ms=2.0, share=0.5, **same),
        Kind(name="down", form="int8", bits_per_weight=8.5, measured_ms=8.0, share=0.9, **same),
        Kind(name="o", form="mxfp4", bits_per_weight=4.25, measured_ms=1.0, share=0.6, **same),
    ]
    down, up, slow, *_ = _advice(rows, Path.PORTABLE, 1)
    assert down.startswith("down in 4 bits") and down.endswith("up to 4.00 of 11.00 ms less")
    assert up.startswith("up in 4 bits") and up.endswith("up to 1.50 of 11.00 ms less")
    assert slow.startswith("up, o: portable code")
    assert "instructions, or small layers" in [*_advice(rows, Path.AMX, 1)][2]
    assert any("10000 threads have fewer" in text for text in _advice(rows, Path.AMX, 10000))


def test_what_is_not_packed_is_refused(folder, tmp_path, capsys):
    with pytest.raises(ValueError, match=r"has no config.json: not a model of Hugging Face$"):
        explain(tmp_path / "none")
    lacking = json.loads((folder / "config.json").read_text())
    lacking["quantization_config"]["layers"]["other"] = {"form": "int8", "shape": SHAPE}
    (folder / "config.json").write_text(json.dumps(lacking))
    assert main(["kernels", "explain", str(folder)]) == 2
    assert capsys.readouterr().err.endswith(f"has no tensor other.{min(PARTS[family('int8')])}\n")
    (folder / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="is not packed: tilewright kernels sparsify"):
        explain(folder)
