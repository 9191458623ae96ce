"""Models of a Hugging Face folder, and recipes, compiled and run."""

import gc
import json
import weakref
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy

from tilewright.base.errors import CommandError
from tilewright.cli import main
from tilewright.golden.harmonia_model.quantised import quantised_model
from tilewright.golden.harmonia_model.reference import Reference
from tilewright.golden.llm.folder import LLAMA, read_folder
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.model import Layer
from tilewright.golden.llm.tiny import SHAPES, tiny_model
from tilewright.studies.compiled import Runner, compile_model, open_folder
from tilewright.studies.compiled.compiling import Options
from tilewright.studies.compiled.generating import encoded
from tilewright.studies.compiled.recipes import read_recipe, smoothed_model
from tilewright.studies.on_cpu import CpuOptions, CpuSession
from tilewright.torch.config import AndaConfig, HarmoniaConfig
from tilewright.torch.recipe import Recipe

SMALL = Options(target="harmonia:small", context=16, group=8)
CONFIG = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}
LLAMA3 = {
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
}
KINDS = {
    "qwen2": {"model_type": "qwen2", "rope_theta": 1e6, "use_sliding_window": False},
    "mistral": {"model_type": "mistral", "sliding_window": None},
    "llama-2": {"model_type": "llama", "num_key_value_heads": 4},
    "llama-3": {"model_type": "llama", **LLAMA3},
}


def folder_of(path, kind, **changes):
    """A tiny model of random weights as a Hugging Face folder."""
    content = CONFIG | KINDS[kind] | changes
    shape = replace(
        SHAPES["llama"],
        num_key_value_heads=content["num_key_value_heads"],
        query_bias=kind == "qwen2",
        model_type="qwen2" if kind == "qwen2" else "llama",
    )
    model = tiny_model(config=shape)
    tensors = {f"{LLAMA.embedding}.weight": model.embedding}
    tensors[f"{LLAMA.final_norm}.weight"] = model.final_norm.gain
    for number, layer in enumerate(model.layers):
        start = LLAMA.layer.format(number)
        for name, linear in layer.linears.items():
            tensors[f"{start}{getattr(LLAMA, name)}.weight"] = linear.weight
            if linear.bias is not None:
                tensors[f"{start}{getattr(LLAMA, name)}.bias"] = linear.bias
        for name in ("attention_norm", "feed_norm"):
            tensors[f"{start}{getattr(LLAMA, name)}.weight"] = getattr(layer, name).gain
    path.mkdir()
    tensors = {name: np.ascontiguousarray(values) for name, values in tensors.items()}
    safetensors.numpy.save_file(tensors, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("kind", list(KINDS))
def test_families(tmp_path, kind):
    """Prompt and tokens are near the engine's in the same formats, and so are their choices."""
    source = folder_of(tmp_path / kind, kind)
    compile_model(source, tmp_path / "out", SMALL)
    folder = open_folder(tmp_path / "out")
    model = load_model(source)
    assert (model.layers[0].query.bias is not None) == (kind == "qwen2")
    quantised, _ = quantised_model(model, folder.plan, group=8)
    runner, prompt = Runner(folder), [3, 4, 5, 6, 7]
    reference = Reference(folder.plan, quantised, len(prompt))
    tokens = prompt
    # Later, where fp16 and float32 differ in a last place, truncation may take them to
    # neighbouring mantissas.
    for most in (0.05, 0.05, 0.3):
        got, want = runner.feed(tokens), reference.feed(tokens)[-1]
        assert np.sqrt(np.mean((got - want) ** 2)) < most * want.std()
        tokens = [int(want.argmax())]
        # Of random weights some choices are as good as tied.
        assert want[runner.choice] > want.max() - most * want.std()


def test_biases_count(tmp_path):
    """Without its biases the same model says something else."""
    source = folder_of(tmp_path / "qwen2", "qwen2")
    compile_model(source, tmp_path / "out", SMALL)
    runner = Runner(open_folder(tmp_path / "out"))
    logits = runner.feed([3, 4, 5])
    line, plan = runner.lines.bias, runner.plan
    size = plan.output_words(plan.matrices["qkv"]) * plan.params.row_bits(3) // 8
    other = Runner(open_folder(tmp_path / "out"))
    for layer in range(2):
        start = (layer * runner.lines.layer + line) * plan.params.line_bytes
        other.memory[start : start + size] = 0
    assert np.abs(other.feed([3, 4, 5]) - logits).max() > 0.1 * logits.std()


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("mistral", {"sliding_window": 32}, "sliding_window 32 is not supported"),
        ("llama-2", {"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported"),
        ("llama-2", {"num_hidden_layers": 3}, "model.layers.2."),
        ("llama-2", {"intermediate_size": 64}, "mlp."),
    ],
)
def test_refusals_name_the_tensor_and_the_reason(tmp_path, capsys, kind, changes, message):
    source = folder_of(tmp_path / "m", kind, **changes)
    words = ["--target", "harmonia:small", "-o", str(tmp_path / "out")]
    assert main(["compile", str(source), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# Recipes.


def recipe_of(path, **changes):
    config = {"group": 8, "initial": 8, "local": 16, "offset_channels": 1, "weight_bits": 4}
    kept = {"weight_group": 16} | changes.pop("config", {})
    modules = {"model.layers.0.self_attn.q_proj": ("qkv", 64, 64)}
    rows = [[1.0, 2.0, 0.5, 1.5] * 4, [1.0] * 16]
    recipe = Recipe(
        "LlamaForCausalLM",
        HarmoniaConfig(**(config | kept)),
        changes.pop("modules", modules),
        smoothing=changes.pop("smoothing", {"model.layers.1.self_attn": rows}),
    )
    recipe.save(path)
    return path


def test_a_recipe(tmp_path, capsys):
    """Bits, group, windows and offsets are the recipe's, and factors are in the weights."""
    path = recipe_of(tmp_path / "r.toml")
    words = ["--target", "harmonia:small", "--context", "16", "--recipe", str(path)]
    assert main(["compile", "tiny-llama", *words, "-o", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["weight_bits"] == 4
    folder = open_folder(tmp_path / "out")
    assert folder.manifest["target"] == "harmonia:small,offsets=1"
    assert folder.manifest["scale_group"] == 16
    assert folder.plan.params.offsets == 1
    model = smoothed_model(load_model("tiny-llama"), read_recipe(path), path)
    quantised, _ = quantised_model(model, folder.plan, group=16)
    want = Reference(folder.plan, quantised, 3).feed([3, 4, 5])[-1]
    got = Runner(folder).feed([3, 4, 5])
    assert np.sqrt(np.mean((got - want) ** 2)) < 0.05 * want.std()
    plain, _ = quantised_model(load_model("tiny-llama"), folder.plan, group=16)
    first, second = plain.layers[1].key.weight, quantised.layers[1].key.weight
    assert np.abs(first - second).max() > 0.1
    assert main(["run", str(tmp_path / "out"), "--prompt", "Hi", "--recipe", str(path)]) == 2
    assert "--recipe goes with a model to be compiled" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {"key_bits": (8, 6)}}, r"key_bits is \(8, 6\); the accelerator has \(8, 4\)"),
        ({"config": {"weight_bits": 3}}, "weights have 4 or 8 bits, not 3"),
        ({"config": {"group": 16, "initial": 16}}, "group is 16; .* has 8"),
        (
            {"modules": {"model.layers.0.mlp.up_proj": ("u", 64, 64)}},
            r"mlp.up_proj is 64 by 64; tiny-llama-0 has \(96, 64\): the recipe is for another",
        ),
        (
            {"modules": {"model.layers.7.self_attn.q_proj": ("qkv", 64, 64)}},
            "model.layers.7.self_attn.q_proj is no module of tiny-llama-0",
        ),
        (
            {"smoothing": {"model.layers.0.self_attn": [[1.0] * 16]}},
            r"factors of model.layers.0.self_attn are \(1, 16\), not \(2, 16\)",
        ),
        (
            {"smoothing": {"model.layers.0.self_attn": [[0.0] * 16] * 2}},
            "must be above 0 and finite",
        ),
    ],
)
def test_refused_recipes(tmp_path, changes, message):
    path = recipe_of(tmp_path / "r.json", **changes)
    with pytest.raises(CommandError, match=message):
        compile_model("tiny-llama", tmp_path / "out", replace(SMALL, recipe=path))


def test_a_recipe_of_another_method(tmp_path, capsys):
    path = tmp_path / "anda.toml"
    Recipe("LlamaForCausalLM", AndaConfig(8, 8, 8, 8), {"head": ("qkv", 1, 1)}).save(path)
    words = ["compile", "tiny-llama", "--target", "harmonia:small", "-o", str(tmp_path / "out")]
    assert main([*words, "--recipe", str(path)]) == 2
    assert "is a recipe of anda; programs of Harmonia need" in capsys.readouterr().err
    assert main([*words, "--recipe", str(path), "--group", "8"]) == 2
    assert "--group is what --recipe says" in capsys.readouterr().err


def test_one_layer_is_in_memory_at_a_time(tmp_path, monkeypatch):
    """A layer is read, quantised, written and given up before the next is read."""
    source = folder_of(tmp_path / "m", "qwen2")
    alive, most = weakref.WeakSet(), 0
    made = Layer.__init__

    def counted(self, *args, **kwargs):
        nonlocal most
        made(self, *args, **kwargs)
        if kwargs["query"].weight.size:  # one that was read
            alive.add(self)
            gc.collect()
            most = max(most, len(alive))

    monkeypatch.setattr(Layer, "__init__", counted)
    compile_model(source, tmp_path / "out", SMALL)
    assert most == 1
    image = (tmp_path / "out" / "image.bin").read_bytes()
    monkeypatch.undo()
    whole = "tilewright.golden.llm.load.read_folder"
    monkeypatch.setattr(whole, lambda path, lazy: read_folder(path))
    compile_model(source, tmp_path / "whole", SMALL)
    assert (tmp_path / "whole" / "image.bin").read_bytes() == image


def test_a_prompt_begins_with_the_token_that_the_files_put_before_texts(tmp_path):
    """On an accelerator, and on a CPU with a DECA; without the setting there is none."""
    source = folder_of(tmp_path / "llama", "llama-2", bos_token_id=1)
    for added in (True, False):
        settings = {"add_bos_token": added, "bos_token": "<s>"}
        (source / "tokenizer_config.json").write_text(json.dumps(settings))
        compile_model(source, tmp_path / f"{added}", SMALL)
        want = [1, *b"Hi"] if added else [*b"Hi"]
        assert encoded(open_folder(tmp_path / f"{added}"), "Hi") == want
        assert CpuSession(str(source), "Hi", CpuOptions()).prompt == want
