"""Compiling a model: its folder and its faults, families, recipes, and views of a layer."""

import gc
import json
import shutil
import weakref
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy

from tilewright.base.errors import CommandError
from tilewright.cli import main
from tilewright.compiler.compile import Options, compile_model, compiled_folder
from tilewright.compiler.folder import FORMAT, open_folder
from tilewright.compiler.host import Runner
from tilewright.compiler.quantise import quantised_model
from tilewright.golden.formats import resolve_format
from tilewright.golden.harmonia_machine.reference import reference
from tilewright.golden.llm.folder import LLAMA, read_folder
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.model import Layer
from tilewright.golden.llm.tiny import SHAPES, tiny_model
from tilewright.golden.params.resolve import resolve
from tilewright.studies.on_cpu import CpuOptions, CpuSession
from tilewright.studies.recipes import RecipeFile, read_recipe, smoothed_model
from tilewright.torch.config import AndaConfig, HarmoniaConfig
from tilewright.torch.recipe import Recipe

GROUPS = {"anda:small": 16, "harmonia:small": 8}  # by target
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
KINDS = {
    "qwen2": {"model_type": "qwen2", "rope_theta": 1e6, "use_sliding_window": False},
    "mistral": {"model_type": "mistral", "sliding_window": None},
    "llama": {"model_type": "llama", "num_key_value_heads": 4},
}


@pytest.fixture(scope="module", params=list(GROUPS))
def small(request):
    return Options(target=request.param, context=8, weight_bits=4, group=GROUPS[request.param])


@pytest.fixture(scope="module")
def compiled(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("compiled") / "tiny"
    compile_model("tiny-llama", path, small)
    return path


@pytest.fixture
def copied(compiled, tmp_path):
    return shutil.copytree(compiled, tmp_path / "copy")


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


# The folder.


def test_command(small, tmp_path, capsys):
    words = ["--target", small.target, "--context", "8", "--sequences", "2"]
    assert main(["compile", "tiny-llama", *words, "-o", str(tmp_path / "tiny"), "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["context"], done["sequences"], done["weight_bits"]) == (8, 2, 8)
    size = (tmp_path / "tiny" / "image.bin").stat().st_size
    assert size == done["image_bytes"]
    parts = done["constant_bytes"] + done["program_bytes"] + done["state_bytes"]
    assert 0.95 * size < parts <= size
    assert main(["compile", "tiny-llama", *words]) == 2
    assert "-o DIR or --show VIEW" in capsys.readouterr().err


def test_manifest(compiled, small):
    folder = open_folder(compiled)
    assert folder.manifest["block"] == resolve(small.target).slug
    assert folder.manifest["format"] == FORMAT
    names = [tensor["name"] for tensor in folder.manifest["tensors"]]
    assert names[:2] == ["layers.0.attention_norm", "layers.0.feed_norm"]
    assert names[-1] == "programs and state"
    assert not folder.memory()[folder.lines.programs * folder.manifest["line_bytes"] :].any()
    listing = (compiled / "listing.txt").read_text()
    for title in ("; a first step, tokens 0 to ", "; a decode step, token 7", "; the head"):
        assert title in listing


def test_every_program_has_room(small, tmp_path):
    """Steps of all sizes and positions of two sequences fit the lines that are reserved."""
    compile_model("tiny-llama", tmp_path / "tiny", replace(small, sequences=2))
    for prompt in (1, 5, 7):
        runner = Runner(open_folder(tmp_path / "tiny", check=False))
        runner.feed({0: [1] * prompt, 1: [2]})
        for position in range(prompt, 8):
            runner.feed({0: [position], 1: [position]} if position < 7 else {0: [3]})


def test_the_cache_of_the_user(small, tmp_path, monkeypatch):
    """A model is compiled once for each set of options."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ticks = []
    first = compiled_folder("tiny-llama", small, ticks.append)
    count = len(ticks)
    assert count and compiled_folder("tiny-llama", small, ticks.append) == first
    assert len(ticks) == count
    assert compiled_folder("tiny-llama", replace(small, sequences=2)) != first


def test_one_layer_is_in_memory_at_a_time(small, tmp_path, monkeypatch):
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
    compile_model(source, tmp_path / "out", small)
    assert most == 1
    image = (tmp_path / "out" / "image.bin").read_bytes()
    monkeypatch.undo()
    whole = "tilewright.golden.llm.load.read_folder"
    monkeypatch.setattr(whole, lambda path, lazy: read_folder(path))
    compile_model(source, tmp_path / "whole", small)
    assert (tmp_path / "whole" / "image.bin").read_bytes() == image


# Faults.


def broken(path, message, **options):
    with pytest.raises(CommandError, match=message):
        open_folder(path, **options)


@pytest.mark.parametrize("name", ["layers.1.up", "embedding.0", "head.0"])
def test_a_corrupted_image(copied, name):
    folder, image = open_folder(copied), copied / "image.bin"
    line = next(t["line"] for t in folder.manifest["tensors"] if t["name"] == name)
    data = bytearray(image.read_bytes())
    data[line * folder.manifest["line_bytes"] + 5] ^= 1
    image.write_bytes(data)
    broken(copied, rf"image\.bin: {name} differs from its hash in manifest\.json")


def test_a_truncated_image(copied):
    image = copied / "image.bin"
    size = image.stat().st_size
    image.write_bytes(image.read_bytes()[:-64])
    broken(copied, rf"image\.bin has {size - 64} bytes, not {size}: it is cut off")
    image.unlink()
    broken(copied, r"has no image\.bin; compile the model again$")


def test_other_files_and_targets(copied, small):
    other = f"{small.target},dma_lines=4"
    broken(copied, r"is an image for .*, not for .*_dma_lines_4; compile", target=other)
    file = copied / "manifest.json"
    manifest = json.loads(file.read_text())
    tensors = [t for t in manifest["tensors"] if not t["name"].startswith("embedding")]
    for change, message in (
        ({"instruction_set": "older"}, "is an image for another instruction set; compile"),
        ({"tensors": tensors}, r"image\.bin has no table of embeddings; compile the model again"),
        ({"format": 4}, r"manifest\.json has format 4, not 5; compile the model again$"),
        ({"files": {"listing.txt": ""}}, r"listing\.txt differs from its hash"),
    ):
        file.write_text(json.dumps(manifest | change))
        broken(copied, message)
    file.write_text("{}")
    broken(copied, r"manifest\.json is no manifest")
    broken(copied / "none", r"has no manifest\.json")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.gguf"], "none.gguf: no such file or folder"),
        (["tiny-opt", "--target", "anda:small"], "a model of type opt is not supported"),
        (["tiny-llama", "--target", "deca"], "models are compiled for a block"),
        (["tiny-llama", "--target", "anda:small", "--group", "24"], "must be a multiple of 16"),
        (["tiny-llama", "--target", "anda:small", "--mantissas", "8,8"], "are four numbers such"),
        (["tiny-llama", "--target", "anda:small", "--mantissas", "8,8,8,17"], "has 1..16 bits"),
        (["tiny-llama", "--target", "anda:small", "--sequences", "0"], "must be 1..65536, not 0"),
    ],
)
def test_refused_models(words, message, tmp_path, capsys):
    assert main(["compile", *words, "-o", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("mistral", {"sliding_window": 32}, "sliding_window 32 is not supported"),
        ("llama", {"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported"),
        ("llama", {"num_hidden_layers": 3}, "model.layers.2."),
        ("llama", {"intermediate_size": 64}, "mlp."),
    ],
)
def test_refusals_name_the_tensor_and_the_reason(tmp_path, capsys, kind, changes, message):
    source = folder_of(tmp_path / "m", kind, **changes)
    words = ["--target", "anda:small", "-o", str(tmp_path / "out")]
    assert main(["compile", str(source), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# Families and recipes.


@pytest.mark.parametrize("kind", list(KINDS))
def test_families(tmp_path, kind, small):
    """Each says something of its own, and biases count."""
    source = folder_of(tmp_path / kind, kind)
    compile_model(source, tmp_path / "out", small)
    folder = open_folder(tmp_path / "out")
    runner = Runner(folder)
    logits = runner.feed([3, 4, 5])
    assert np.isfinite(logits).all() and logits.argmax() == runner.choice
    if kind == "qwen2":
        other, lines = Runner(folder), folder.lines
        for layer in range(2):
            first = layer * lines.layer + lines.of_layer("k bias")
            end = layer * lines.layer + lines.of_layer("k")
            size = folder.manifest["line_bytes"]
            other.memory[first * size : end * size] = 0
        assert np.abs(other.feed([3, 4, 5]) - logits).max() > 0.1 * logits.std()


def test_a_prompt_begins_with_the_token_that_the_files_put_before_texts(tmp_path, small):
    source = folder_of(tmp_path / "llama", "llama", bos_token_id=1)
    for added in (True, False):
        settings = {"add_bos_token": added, "bos_token": "<s>"}
        (source / "tokenizer_config.json").write_text(json.dumps(settings))
        compile_model(source, tmp_path / f"{added}", small)
        assert open_folder(tmp_path / f"{added}").start == (1 if added else None)
        prompt = CpuSession(str(source), "Hi", CpuOptions()).prompt
        assert prompt == ([1, *b"Hi"] if added else [*b"Hi"])


def test_a_recipe(tmp_path, capsys):
    """Lengths of activations, bits and groups of weights are the recipe's."""
    path, out = tmp_path / "r.toml", tmp_path / "out"
    config = AndaConfig(9, 7, 8, 6, group=16, weight_group=32)
    modules = {"model.layers.0.self_attn.q_proj": ("qkv", 64, 64)}
    Recipe("LlamaForCausalLM", config, modules).save(path)
    words = ["compile", "tiny-llama", "--target", "anda:small", "--context", "8", "-o", str(out)]
    assert main([*words, "--recipe", str(path)]) == 0
    folder = open_folder(out)
    assert folder.manifest["formats"]["mantissas"] == {"qkv": 9, "o": 7, "u": 8, "d": 6}
    assert (folder.plan.weight_bits, folder.manifest["scale_group"]) == (4, 32)
    runner = Runner(folder)
    runner.feed([1])
    assert set(dict(runner.runs[0].sums)) == {(9, 1), (7, 1), (8, 1), (6, 1)}
    capsys.readouterr()
    assert main([*words, "--recipe", str(path), "--mantissas", "8,8,8,8"]) == 2
    assert "--mantissas is what --recipe says; leave one of them out" in capsys.readouterr().err
    assert main(["run", str(out), "--prompt", "Hi", "--recipe", str(path)]) == 2
    assert "--recipe goes with a model to be compiled" in capsys.readouterr().err


def harmonia_recipe(path, smoothing=None, **changes):
    config = {"group": 8, "initial": 8, "local": 16, "offset_channels": 1, "weight_bits": 4}
    config |= {"weight_group": 16} | changes
    rows = [[1.0, 2.0, 0.5, 1.5] * 4, [1.0] * 16]
    Recipe(
        "LlamaForCausalLM",
        HarmoniaConfig(**config),
        {"model.layers.0.self_attn.q_proj": ("qkv", 64, 64)},
        smoothing=smoothing or {"model.layers.1.self_attn": rows},
    ).save(path)
    return Options(target="harmonia:small", context=16, recipe=RecipeFile(path))


def test_a_recipe_of_harmonia(tmp_path):
    """Bits, group, windows and offsets are the recipe's, and factors are in the weights."""
    path = tmp_path / "r.toml"
    compile_model("tiny-llama", tmp_path / "out", harmonia_recipe(path))
    folder = open_folder(tmp_path / "out")
    assert folder.manifest["target"] == "harmonia:small,offsets=1"
    assert (folder.plan.weight_bits, folder.manifest["scale_group"]) == (4, 16)
    params, plain = folder.plan.machine.params, load_model("tiny-llama")
    assert params.offsets == 1
    model = smoothed_model(plain, read_recipe(path), path)
    assert np.abs(model.layers[1].key.weight - plain.layers[1].key.weight).max() > 0.1
    quantised, _ = quantised_model(model, weight_bits=4, head_bits=8, group=16)
    want = reference(params, quantised, 3).feed([3, 4, 5])[-1]
    got = Runner(folder).feed([3, 4, 5])
    assert np.sqrt(np.mean((got - want) ** 2)) < 0.05 * want.std()


REFUSED = [
    ({"key_bits": (8, 6)}, r"key_bits is \(8, 6\); the accelerator has \(8, 4\)"),
    ({"weight_bits": 3}, "weights have 4 or 8 bits, not 3"),
    ({"group": 16, "initial": 16}, "group is 16; .* has 8"),
    (
        {"smoothing": {"model.layers.0.self_attn": [[1.0] * 16]}},
        r"factors of model.layers.0.self_attn are \(1, 16\), not \(2, 16\)",
    ),
    ({"smoothing": {"model.layers.0.self_attn": [[0.0] * 16] * 2}}, "must be above 0 and finite"),
    ((AndaConfig(9, 7, 8, 6), "head"), "group is 64; anda__.* has 16"),
    ((HarmoniaConfig(), "head"), "is a recipe of harmonia; programs of Anda need one of anda"),
    (
        (AndaConfig(8, 8, 8, 8, group=16), "model.layers.0.mlp.up_proj"),
        r"mlp.up_proj is 64 by 64; tiny-llama-0 has \(96, 64\): the recipe is for another",
    ),
    (
        (AndaConfig(8, 8, 8, 8, group=16), "model.layers.7.self_attn.q_proj"),
        "model.layers.7.self_attn.q_proj is no module of tiny-llama-0",
    ),
]


@pytest.mark.parametrize(("recipe", "message"), REFUSED)
def test_refused_recipes(tmp_path, recipe, message):
    """Changes of one of Harmonia, or one for Anda with a module."""
    path = tmp_path / "r.json"
    if isinstance(recipe, dict):
        options = harmonia_recipe(path, **recipe)
    else:
        config, module = recipe
        Recipe("LlamaForCausalLM", config, {module: ("u", 64, 64)}).save(path)
        options = Options(target="anda:small", context=8, recipe=RecipeFile(path))
    with pytest.raises(CommandError, match=message):
        compile_model("tiny-llama", tmp_path / "out", options)


# Formats of the user's own.

MINE = """import numpy as np
class Mine:
    bits, scale_bits, group = 4, 16, {group}
    def encode(self, values):
        groups = values.reshape(*values.shape[:-1], -1, self.group)
        scales = ({share} * np.abs(groups).max(-1) / 7).astype(np.float16)
        ratio = groups / scales.astype(float)[..., None]
        codes = 8 + np.clip(np.rint(ratio), -8, 7).astype(int)
        return codes.reshape(values.shape), scales.view(np.uint16)
    def decode(self, codes, scales):
        steps = np.repeat(scales.view(np.float16).astype(float), self.group, axis=-1)
        return (codes - {zero}) * steps
"""


def mine(folder, group, share=1.0, zero=8):
    path = folder / f"mine_{share}_{zero}.py"
    path.write_text(MINE.format(group=group, share=share, zero=zero))
    return f"{path}:Mine"


def test_a_format_of_ones_own_is_compiled(small, tmp_path):
    """The same integers and scales give the same image; clipped groups give another."""
    words = ["compile", "tiny-llama", "--on", small.target, "--context", "8"]
    images = []
    for weights in (["4", "--group", str(small.group)], *((share,) for share in (1.0, 0.75))):
        if len(weights) == 1:
            weights = [mine(tmp_path, small.group, *weights)]
        assert main([*words, "--weights", *weights, "-o", str(tmp_path / "own")]) == 0
        images.append((tmp_path / "own" / "image.bin").read_bytes())
    assert images[0] == images[1] != images[2]
    model = open_folder(tmp_path / "own")
    assert (model.manifest["weight_bits"], model.manifest["weight_format"]) == (4, "Mine")
    form = resolve_format(weights[0])
    clipped, _ = quantised_model(
        load_model("tiny-llama"), weight_bits=4, head_bits=8, group=small.group, form=form
    )
    weight = load_model("tiny-llama").layers[0].query.weight
    expected = form.through(weight).astype(np.float32)
    assert np.array_equal(clipped.layers[0].query.weight, expected)


def test_a_format_that_no_array_multiplies_is_refused(small, tmp_path, capsys):
    words = ["compile", "tiny-llama", "--on", small.target, "-o", str(tmp_path / "own")]
    for weights, message in (
        (
            mine(tmp_path, small.group, zero=7.5),
            "Mine cannot be compiled: arrays multiply integers",
        ),
        (mine(tmp_path, 12, share=0.5), "--group must be a multiple of"),
        ("5", "--weights must be 4, 8 or FILE.py:CLASS, not '5'"),
        ("none.py:X", "there is no file"),
    ):
        assert main([*words, "--weights", weights]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "own").exists()


# Views.


def test_views_of_a_layer(small, tmp_path, capsys):
    """From a config.json alone."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG | KINDS["qwen2"]))
    words = ["compile", str(config), "--target", small.target, "--context", "8"]
    found = {}
    for view in ("graph", "schedule", "program"):
        assert main([*words, "--show", view]) == 0
        found[view] = capsys.readouterr().out.splitlines()
    assert any("rotary(bias(matmul(normed, k)))" in line for line in found["graph"])
    assert found["schedule"][0].split() == [
        *("NUMBER", "INSTRUCTION", "OPERATION", "UNIT", "BEGIN", "END")
    ]
    ends = [int(line.split()[-1]) for line in found["schedule"][1:]]
    assert len(ends) > 50 and min(ends) > 0
    assert any(line.startswith("loop") for line in found["program"]) or len(found["program"]) > 200
