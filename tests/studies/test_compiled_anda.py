"""A model compiled for Anda: commands, runs, and a token on the RTL."""

import json

import numpy as np
import pytest

from tests.support.smollm2 import smollm2_or_skip
from tilewright.base.errors import CommandError
from tilewright.cli import main
from tilewright.golden.anda_model.same_rounding import SameRounding
from tilewright.golden.harmonia_model.quantised import quantised_model
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.text import default_text
from tilewright.sim.compiled_steps import anda_compiled_time, compiled_steps
from tilewright.studies.compiled import Runner, Session, compile_model, open_folder
from tilewright.studies.compiled.compiling import Options
from tilewright.studies.compiled.counting import counted_prompt
from tilewright.torch.config import AndaConfig
from tilewright.torch.recipe import Recipe


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    path = tmp_path_factory.mktemp("compiled") / "tiny"
    compile_model("tiny-llama", path, Options(target="anda:small", context=8, weight_bits=4))
    return path


def test_commands(compiled, capsys):
    assert main(["run", str(compiled), "--prompt", "He", "--tokens", "2", "--layers"]) == 0
    shown = capsys.readouterr().out
    assert "tiny-llama-0 on anda:small at 285 MHz" in shown and "ATTENTION" in shown
    assert main(["run", str(compiled), "--prompt", "He", "--tokens", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert shown.startswith(f"He{result['text']}\n")
    kinds = [p["kind"] for p in result["programs"]]
    assert kinds == ["prefill", "head", "decode", "head"]
    assert result["decode"]["bound"] == "gemm"


def test_manifest(compiled):
    manifest = json.loads((compiled / "manifest.json").read_text())
    assert manifest["mantissas"] == {"qkv": 8, "o": 8, "u": 8, "d": 8}
    assert manifest["choice"] == "machine"
    assert manifest["cache"] == "fp16"
    assert "dots" in (compiled / "listing.txt").read_text()


@pytest.mark.parametrize(
    ("target", "loops"),
    [
        ("anda:small", 2),
        # The loop over banks is within that over layers, as at the paper's size.
        pytest.param("anda:small,instructions=512", 3, marks=pytest.mark.full),
    ],
)
def test_tokens_on_rtl(target, loops, tmp_path):
    """Memory, counters and cycles of a prompt and of three tokens behind it are golden's."""
    compile_model("tiny-llama", tmp_path / "tiny", Options(target=target, context=8, weight_bits=4))
    assert (tmp_path / "tiny" / "listing.txt").read_text().count("loop ") == loops
    session = Session(open_folder(tmp_path / "tiny"), "AB", rtl=True)
    assert session.generate(3) == Session(open_folder(tmp_path / "tiny"), "AB").generate(3)


def test_predicted_cycles_are_those_of_a_run(compiled):
    """Steps of a prompt and the head, counted without values, and by the golden machine."""
    runner = Runner(open_folder(compiled), latency=60)
    runner.feed([1, 2, 3, 4, 5])
    kinds = [run.kind for run in runner.runs]
    assert kinds == ["prefill", "prefill", "decode", "head"]
    steps = list(compiled_steps(runner.plan, 5))
    found = anda_compiled_time(runner.plan, steps, runner.latency)
    assert found["layers"].cycles == sum(run.cycles for run in runner.runs[:-1])
    assert found["head"].cycles == runner.runs[-1].cycles
    assert counted_prompt(runner.folder, 5, 60) == sum(run.cycles for run in runner.runs)


def test_single_tokens(compiled, tmp_path):
    """The same text from an image without steps of several tokens."""
    words = ["compile", "tiny-llama", "--target", "anda:small", "--context", "8", "--weights", "4"]
    assert main([*words, "--single-tokens", "-o", str(tmp_path / "single")]) == 0
    single = Session(open_folder(tmp_path / "single"), "AB").generate(3)
    wanted = Session(open_folder(compiled), "AB").generate(3)
    assert (single.tokens, single.text) == (wanted.tokens, wanted.text)
    assert {run.kind for run in single.programs} == {"decode", "head"}
    assert single.prefill.cycles > wanted.prefill.cycles


def test_a_recipe(tmp_path, capsys):
    """Lengths of activations, bits and groups of weights are the recipe's."""
    path, out = tmp_path / "r.toml", tmp_path / "out"
    config = AndaConfig(9, 7, 8, 6, group=16, weight_group=32)
    modules = {"model.layers.0.self_attn.q_proj": ("qkv", 64, 64)}
    Recipe("LlamaForCausalLM", config, modules).save(path)
    words = ["compile", "tiny-llama", "--target", "anda:small", "--context", "8", "-o", str(out)]
    assert main([*words, "--recipe", str(path)]) == 0
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["mantissas"] == {"qkv": 9, "o": 7, "u": 8, "d": 6}
    assert (manifest["weight_bits"], manifest["scale_group"]) == (4, 32)
    capsys.readouterr()
    assert main([*words, "--recipe", str(path), "--mantissas", "8,8,8,8"]) == 2
    assert "--mantissas is what --recipe says; leave one of them out" in capsys.readouterr().err
    Recipe("LlamaForCausalLM", AndaConfig(9, 7, 8, 6), modules).save(path)
    assert main([*words, "--recipe", str(path)]) == 2
    assert "group is 64; anda__" in capsys.readouterr().err


def test_refusals(compiled, tmp_path, capsys):
    with pytest.raises(CommandError, match=r"has programs for anda__.*, not for harmonia"):
        open_folder(compiled, target="harmonia:small")
    out = str(tmp_path / "out")
    for words, message in (
        (["--target", "deca"], "compile runs on a block harmonia or anda, not deca"),
        (["--target", "harmonia", "--mantissas", "8,8,8,8"], "--mantissas are those of Anda's"),
        (["--target", "harmonia", "--single-tokens"], "--single-tokens is an option of Anda"),
        (["--target", "anda:small", "--mantissas", "8,8"], "mantissas are four numbers such as"),
        (["--target", "anda:small", "--group", "24"], "--group must be a multiple of 16"),
    ):
        assert main(["compile", "tiny-llama", *words, "-o", out]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.full
def test_smollm2_has_the_bits_of_formulas(tmp_path):
    """Two steps of a prompt and single tokens at the paper's size: all logits, in every bit."""
    smollm2_or_skip()
    compile_model("smollm2", tmp_path / "smollm2", Options(target="anda", context=40))
    folder, model = open_folder(tmp_path / "smollm2", check=False), load_model("smollm2")
    tokens = [int(k) for k in model.tokenizer.encode(default_text()[:1000])[:34]]
    runner = Runner(folder)
    got = runner.score(tokens)
    kinds = [run.kind for run in runner.runs if run.kind != "head"]
    assert kinds == ["prefill", "prefill", "decode", "decode"]
    formulas = SameRounding(folder.plan, *quantised_model(model, folder.plan, group=64))
    assert np.array_equal(got, formulas.feed(tokens))
