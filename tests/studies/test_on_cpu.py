"""A model on a CPU with a DECA: values tile for tile, and what a run costs."""

import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from tests.golden.llm.test_files import llama_folder
from tests.support.smollm2 import smollm2_or_skip
from tilewright.base.errors import CommandError
from tilewright.cli import main
from tilewright.golden.bits import encode
from tilewright.golden.deca import gemm, resolve_scheme, restore
from tilewright.golden.deca.packed import PackedModel
from tilewright.golden.llm.engine import Session
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.on_deca import DecaFormat, Storage, compressed_model
from tilewright.golden.params.formats import BF16
from tilewright.studies.on_cpu import CpuOptions, CpuSession

BF8, PLAIN = Storage(scheme=resolve_scheme("bf8")), Storage(scheme=resolve_scheme("bf16"))


class _TileByTile(DecaFormat):
    """The same products by the golden models of DECA and AMX, without any rearrangement."""

    def __init__(self, model, matrices):
        super().__init__(model, matrices)
        self._matrices = {
            id(linear): matrices[f"layers.{number}.{name}"]
            for number, layer in enumerate(model.layers)
            for name, linear in layer.linears.items()
        }

    def _product(self, linear, values):
        patterns = gemm(self._matrices[id(linear)], encode(BF16, values).T)
        return np.ascontiguousarray(patterns.T).view(np.float32)


@pytest.mark.parametrize("scheme", ["bf8", "mxfp4"])
def test_equals_the_engine_in_the_order_of_amx(scheme):
    """Prompt and tokens have the bits of golden.llm with the same weights and AMX's sums."""
    model = load_model("tiny-llama")
    matrices = compressed_model(model, Storage(scheme=resolve_scheme(scheme)), PLAIN)
    slow = Session(model, _TileByTile(model, matrices))
    hidden = Session(model, DecaFormat(model, matrices))
    for tokens in ([1, 2, 3], [4], [5]):
        assert np.array_equal(hidden.feed(tokens), slow.feed(tokens))
    # And they are near what plain float32 makes of the same weights.
    plain = model
    for number, layer in enumerate(model.layers):
        linears = {
            name: type(linear)(restore(matrices[f"layers.{number}.{name}"]), linear.bias)
            for name, linear in layer.linears.items()
        }
        plain = plain.with_linears(number, **linears)
    want = Session(plain).feed([1, 2, 3])[-1]
    got = Session(model, DecaFormat(model, matrices)).feed([1, 2, 3])[-1]
    assert np.abs(got - want).max() < 0.05 * want.std()


def test_command(capsys):
    """Text and tables; --json has what they are made of."""
    words = ["run", "tiny-llama", "--on", "deca", "--scheme", "bf8_50%", "--prompt", "Hi"]
    assert main([*words, "--tokens", "3"]) == 0
    shown = capsys.readouterr().out
    assert "on spr-hbm at 2.5 GHz with deca" in shown
    assert "CYCLES/TILE" in shown
    assert main([*words, "--tokens", "3", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert shown.startswith("Hi" + "".join(f" {token}" for token in data["tokens"]))
    assert data["decode"]["tokens"] == 2
    kinds = {m["name"]: m for m in data["matrices"]}
    assert kinds["query"]["tiles"] == 2 * 4 * 2  # two layers of 64 by 64 weights
    assert kinds["query"]["bytes"] == 16 * (64 + 256)  # half of the codes, and bitmasks
    total = sum(m["tiles"] * m["cycles_per_tile"] for m in data["matrices"])
    assert data["core_cycles_per_token"] == round(total)


def _tokens(capsys, *words):
    assert main(["run", *map(str, words), "--prompt", "Hi", "--tokens", "3", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("family", ["tiny-llama", "tiny-opt"])
@pytest.mark.parametrize("scheme", ["mxfp4", "bf8_50%"])
def test_a_packed_file_runs_as_the_model_does(family, scheme, tmp_path, capsys):
    """Embeddings that stay as they are make a head of bf16; all fields of the answer agree."""
    name, _, share = scheme.partition("_")
    words = ["--scheme", name, *(["--density", f"0.{share[:-1]}"] if share else [])]
    packed = str(tmp_path / "p.safetensors")
    kept = ["--keep", "*embed*", "--keep", "*head*"] if "head" in family else ["--keep", "*embed*"]
    assert main(["pack", family, *words, *kept, "-o", packed]) == 0
    capsys.readouterr()
    found = _tokens(capsys, packed)
    assert found == _tokens(capsys, family, "--on", "deca", "--scheme", scheme)
    assert _tokens(capsys, packed, "--on", "deca") == found


@pytest.mark.parametrize(
    ("kind", "tied"), [(np.float32, True), (np.float16, False), (ml_dtypes.bfloat16, True)]
)
def test_a_folder_is_packed_and_runs(kind, tied, tmp_path, capsys):
    """Tensors of two files; those of 16 bits are the values that they have."""
    folder = llama_folder(tmp_path / "model", lambda values: values.astype(kind))
    if not tied:
        head = {"lm_head.weight": np.eye(128, 64).astype(kind)}
        safetensors.numpy.save_file(head, folder / "model-2.safetensors")
    packed = tmp_path / "p.safetensors"
    words = ["--scheme", "bf8", "--keep", "*embed*"]
    assert main(["pack", str(folder), *words, "-o", str(packed)]) == 0
    capsys.readouterr()
    head = "bf16" if tied else "bf8"
    words = ["--on", "deca", "--scheme", "bf8", "--head-scheme", head]
    assert _tokens(capsys, packed) == _tokens(capsys, folder, *words)
    with PackedModel(packed) as opened:
        assert ("lm_head.weight" in opened.tensors) is not tied
        assert {t.dtype for t in opened.tensors.values()} == {
            {np.float32: "F32", np.float16: "F16"}.get(kind, "BF16")
        }
    assert main(["unpack", str(packed), "--reference", str(folder)]) == 0


def test_packed_files_that_cannot_run(tmp_path, capsys):
    folder = llama_folder(tmp_path / "model")
    index = {"weight_map": {"a": "model-0.safetensors", "b": "model-9.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    packed, bare = str(tmp_path / "p.safetensors"), str(tmp_path / "bare.safetensors")
    assert main(["pack", "tiny-llama", "--scheme", "int8_tile", "-o", packed]) == 0
    assert main(["pack", "synthetic:32x64", "--scheme", "bf8", "-o", bare]) == 0
    plain = str(folder / "model-0.safetensors")
    for words, line in (
        (["pack", str(folder), "--scheme", "bf8", "-o", packed], "model-9.safetensors, which"),
        (
            ["pack", str(folder), "--scheme", "bf8", "-o", plain],
            "cannot take the place of the model",
        ),
        (["run", packed, "--prompt", "Hi"], "int8_tile: int8 tiles need activations"),
        (["run", bare, "--prompt", "Hi"], f"{bare}: tensors alone, without the model's shape"),
        (["run", plain, "--prompt", "Hi"], "no packed model: tilewright pack makes one of it"),
        (["run", bare, "--prompt", "Hi", "--on", "anda"], "has tiles of DECA; leave out"),
        (["run", bare, "--prompt", "Hi", "--scheme", "bf8"], "--scheme and --head-scheme are"),
        (["run", "no.safetensors", "--prompt", "Hi"], "no.safetensors: No such file"),
    ):
        capsys.readouterr()
        assert main(words) == 2
        err = capsys.readouterr().err
        assert line in err and err.count("\n") == 1


def test_an_answer_stops_at_its_end():
    session = CpuSession("tiny-llama", "Hi", CpuOptions())
    whole = session.generate(3)
    told = []
    session = CpuSession("tiny-llama", "Hi", CpuOptions())
    done = session.generate(3, ends=whole.tokens[1:2], tell=told.append)
    assert done.tokens == whole.tokens[:2]
    assert (told, done.text) == (whole.tokens[:1], f" {whole.tokens[0]}")


def test_refusals(capsys):
    """One line that says what to do."""
    for words, line in (
        (["--on", "deca", "--layers"], "--layers goes with an accelerator's programs"),
        (["--on", "deca", "--weights", "4"], "--weights goes with a model to be compiled"),
        (["--on", "deca", "--system", "anda"], "block deca is beside the cores of a server"),
        (["--on", "deca", "--scheme", "int8_tile"], "int8_tile: int8 tiles need activations"),
        (["--scheme", "bf8"], "--scheme goes with --on deca"),
        (["--on", "deca", "--tokens", "0"], "tokens must be at least 1, not 0"),
        (["--on", "deca", "--temperature", "-5"], "temperature must be at least 0"),
        (["--on", "deca", "--chat"], "--chat: the model's files have no chat template"),
        (["--temperature", "nan"], "temperature must be at least 0 and finite, not nan"),
        (["--on", "deca", "--tokens", "300"], "301 tokens exceed the model's context of 256"),
    ):
        assert main(["run", "tiny-llama", "--prompt", "Hi", *words]) == 2
        assert line in capsys.readouterr().err
    with pytest.raises(CommandError, match=r"^300 tokens exceed the model's context of 256$"):
        CpuSession("tiny-llama", "Hi", CpuOptions()).generate(299)


@pytest.mark.full  # on the same block in every run: tests/verify/test_decoder_layer.py
def test_rtl():
    """Tiles of a layer pass through the simulated DECA."""
    session = CpuSession("tiny-llama", "Hi", CpuOptions(block="deca:small", scheme="bf8"))
    runs = session.check_on_rtl()
    names = [f"layers.0.{n}" for n in session.model.layers[0].linears]
    assert [run["matrix"] for run in runs] == names
    assert all(run["tiles"] >= 2 for run in runs)


def test_a_broken_rtl_is_named(monkeypatch):
    """Products that differ from golden's end the run."""
    from types import SimpleNamespace

    from tilewright.base.errors import CheckError

    monkeypatch.setattr(
        "tilewright.studies.on_cpu.run_matrix",
        lambda *_, **__: SimpleNamespace(equal=False, wrong=3),
    )
    with pytest.raises(CheckError, match=r"^layers.0.query: 3 products with tiles of the RTL"):
        CpuSession("tiny-llama", "Hi", CpuOptions()).check_on_rtl()


@pytest.mark.full
def test_smollm2():
    """The real model says what it says in full precision."""
    smollm2_or_skip()
    session = CpuSession("smollm2", "The capital of France is", CpuOptions(scheme="bf8"))
    assert session.generate(4).text.startswith(" Paris")
