"""``quantize_`` on models of Transformers: in place, reversible, refused with the module's name."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    OPTConfig,
    Qwen2Config,
)

from tests.support.examples import blocks
from tests.support.transformers_models import SHAPE, random_model
from tilewright.golden import bfp, weights
from tilewright.golden.params.formats import BlockFormat
from tilewright.torch import (
    AndaConfig,
    DecaConfig,
    FormatConfig,
    HarmoniaConfig,
    ModuleError,
    Recipe,
    RecipeError,
    quantize_,
    restore_,
)
from tilewright.torch.config import config_from
from tilewright.torch.linear import FormatLinear

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:mkldnn_matmul failed"),
]

ROOT = Path(__file__).parents[2]
MODELS = {
    "llama": LlamaConfig(**SHAPE),
    "qwen2": Qwen2Config(**SHAPE),
    "gemma3": Gemma3TextConfig(**SHAPE | {"head_dim": 16, "sliding_window": 32}),
    "opt": OPTConfig(
        hidden_size=64,
        ffn_dim=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=99,
        max_position_embeddings=256,
        word_embed_proj_dim=64,
    ),
}
CONFIGS = {
    "anda": AndaConfig(7, 6, 5, 4),
    "anda, weights left": AndaConfig(7, 6, 5, 4, weight_bits=None),
    "harmonia": HarmoniaConfig(),
    "deca": DecaConfig("mxfp4"),
    "deca, pruned": DecaConfig("bf8", density=0.5),
    "nf4": DecaConfig("nf4"),
    "mx": FormatConfig("mxfp4", "mxfp8_e4m3"),
    "mxint8": FormatConfig("mxint8", "mxint8"),
}
IDS = torch.arange(1, 91)[None] % 99


def made(family):
    return random_model(copy.deepcopy(MODELS[family]))


@pytest.mark.parametrize(
    ("family", "name"),
    [
        *(("llama", name) for name in CONFIGS),
        *((family, name) for family in MODELS if family != "llama" for name in ("harmonia", "mx")),
    ],
)
def test_formats_go_in_and_out(family, name):
    model = made(family)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    pointers = [parameter.data_ptr() for parameter in model.parameters()]
    with torch.no_grad():
        before = model(IDS).logits
        recipe = quantize_(model, CONFIGS[name])
        inside = model(IDS).logits
        assert list(model.state_dict()) == list(state)  # nothing was added, nothing copied
        assert [parameter.data_ptr() for parameter in model.parameters()] == pointers
        restore_(model)
        after = model(IDS).logits
    assert not torch.equal(inside, before)
    # Random weights have logits of about 1; a format moves them, and breaks nothing.
    assert float((inside - before).abs().mean()) < 0.7 * float(before.abs().mean()) + 0.7
    assert torch.equal(after, before)
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert len(recipe.modules) == 2 * (6 if family == "opt" else 7)


@pytest.mark.parametrize(
    ("name", "suffix"), [*((name, "toml") for name in CONFIGS), ("harmonia", "json")]
)
def test_a_recipe_does_the_same_again(name, suffix, tmp_path):
    model, other = made("llama"), made("llama")
    quantize_(model, CONFIGS[name]).save(tmp_path / f"recipe.{suffix}")
    recipe = Recipe.load(tmp_path / f"recipe.{suffix}")
    assert recipe.config == CONFIGS[name]
    quantize_(other, recipe)
    with torch.no_grad():
        assert torch.equal(model(IDS).logits, other(IDS).logits)


@pytest.mark.parametrize("name", CONFIGS)
def test_baked_weights_give_the_same(name):
    model, other = made("llama"), made("llama")
    quantize_(model, CONFIGS[name])
    recipe = quantize_(other, CONFIGS[name], bake=True)
    assert recipe.baked
    with torch.no_grad():
        assert torch.equal(model(IDS).logits, other(IDS).logits)
    if any(m.baked for m in other.modules() if isinstance(m, FormatLinear)):
        with pytest.raises(ModuleError, match=r"^model\.layers\.0\.\S+: its weights were convert"):
            restore_(other)


@pytest.mark.parametrize("name", CONFIGS)
def test_compile_sees_one_graph(name):
    torch.compiler.reset()  # how often a function may be compiled again counts from here
    model = made("llama")
    quantize_(model, CONFIGS[name])
    compiled = torch.compile(model, fullgraph=True, backend="eager", dynamic=False)
    with torch.no_grad():
        assert torch.equal(
            compiled(IDS, use_cache=False).logits, model(IDS, use_cache=False).logits
        )


@pytest.mark.parametrize(
    "config",
    [
        AndaConfig(5, 5, 5, 5, straight_through=True),
        HarmoniaConfig(straight_through=True),
        DecaConfig("mxfp4", straight_through=True),
        FormatConfig("mxfp4", "mxfp4", straight_through=True),
    ],
    ids=lambda c: c.method,
)
def test_gradients_pass_straight_through(config):
    model = made("llama")
    quantize_(model, config)
    model(IDS, labels=IDS).loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(torch.isfinite(parameter.grad).all()), name
    assert float(model.model.layers[0].mlp.down_proj.weight.grad.abs().sum()) > 0
    # One step downhill: training goes on in the format.
    with torch.no_grad():
        first = float(model(IDS, labels=IDS).loss)
        for parameter in model.parameters():
            parameter -= 0.02 * parameter.grad
        assert float(model(IDS, labels=IDS).loss) < first


def activations(rng, rows, width):
    scale = np.exp2(rng.integers(-12, 6, (rows, 1)))
    return (rng.standard_normal((rows, width)) * scale).astype(np.float16)


def layer(rng, outputs, inputs, dtype=torch.float32):
    linear = torch.nn.Linear(inputs, outputs, bias=False, dtype=dtype)
    matrix = rng.standard_normal((outputs, inputs)).astype(np.float32) / 8
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(matrix))
    return torch.nn.ModuleDict({"q_proj": linear}), linear.weight.detach().float().numpy()


def test_products_are_as_near_as_stated():
    """float32: exact operands. bf16: each weight is off by at most 2^-8 of itself."""
    rng = np.random.default_rng(5)
    x = torch.from_numpy(activations(rng, 40, 256).astype(np.float32))
    model, matrix = layer(rng, 32, 256)
    quantize_(model, AndaConfig(7, 7, 7, 7))
    exact = weights.dequantise(weights.quantise(matrix))
    fmt = BlockFormat(group=64, mantissa_bits=7)
    words = x.numpy().astype(np.float16).view(np.uint16)
    values = bfp.decode(fmt, bfp.encode(fmt, words))
    wanted = values @ exact.T
    bound = np.abs(values) @ np.abs(exact).T
    with torch.no_grad():
        fast = model["q_proj"](x).numpy()
        narrow = model["q_proj"].to(torch.bfloat16)(x.bfloat16()).float().numpy()
    assert np.all(np.abs(fast - wanted) <= 2.0**-17 * bound)
    rounded = torch.from_numpy(x.numpy()).bfloat16().float().numpy().astype(np.float16)
    again = bfp.decode(fmt, bfp.encode(fmt, rounded.view(np.uint16)))
    small = torch.from_numpy(matrix).bfloat16().float().numpy()
    product = again @ weights.dequantise(weights.quantise(small)).T
    limit = np.abs(again) @ np.abs(weights.dequantise(weights.quantise(small))).T
    assert np.all(np.abs(narrow - product) <= 1.1 * 2.0**-8 * limit)


@pytest.mark.parametrize(
    ("change", "config", "text"),
    [
        (
            lambda m: m.model.layers[1].mlp.up_proj.weight.data.__setitem__((3, 5), torch.nan),
            AndaConfig(7, 6, 7, 7),
            r"^model\.layers\.1\.mlp\.up_proj: weight nan at row 3, column 5 is no finite number$",
        ),
        (
            lambda m: None,
            AndaConfig(7, 6, 7, 7, group=128),
            r"^model\.layers\.0\.self_attn\.q_proj: 64 inputs are no multiple of the group of 128:",
        ),
        (
            lambda m: m.model.layers[0].mlp.add_module("extra", torch.nn.Linear(4, 4)),
            DecaConfig("mxfp4"),
            r"^model\.layers\.0\.mlp\.extra: a linear layer of no known kind: give modules=",
        ),
        (
            lambda m: m.model.layers[0].mlp.up_proj.weight.data.mul_(1e-12),
            AndaConfig(7, 6, 7, 7),
            r"^model\.layers\.0\.mlp\.up_proj: a group of weights is too small for an fp16 scale$",
        ),
    ],
)
def test_refusals_name_the_module_and_change_nothing(change, config, text):
    model = made("llama")
    change(model)
    with pytest.raises(ModuleError, match=text):
        quantize_(model, config)
    assert not any(isinstance(m, FormatLinear) for m in model.modules())


def test_other_layers_are_refused():
    shape = dict(n_embd=64, n_layer=1, n_head=4, vocab_size=99, n_positions=128)
    model = AutoModelForCausalLM.from_config(GPT2Config(**shape))
    text = r"^transformer\.h\.0\.attn\.c_attn: Conv1D layers are not supported; torch\.nn\.Linear"
    with pytest.raises(ModuleError, match=text):
        quantize_(model, AndaConfig(7, 6, 7, 7))


def test_twice_is_refused():
    model = made("llama")
    quantize_(model, DecaConfig("mxfp4"))
    with pytest.raises(ModuleError, match=r"q_proj: it has a format already: restore_ the model"):
        quantize_(model, DecaConfig("mxfp4"))
    restore_(model)
    with pytest.raises(ValueError, match=r"^LlamaForCausalLM: no format to take out$"):
        restore_(model)


def test_a_recipe_of_another_model_is_refused():
    recipe = quantize_(made("llama"), DecaConfig("mxfp4"))
    with pytest.raises(RecipeError, match=r"^the recipe is of a LlamaForCausalLM, not of a Qwen2"):
        quantize_(made("qwen2"), recipe)
    wider = copy.copy(MODELS["llama"])
    wider.intermediate_size = 192
    model = AutoModelForCausalLM.from_config(wider)
    text = r"^model\.layers\.0\.mlp\.gate_proj: the recipe has 128 x 64, the model 192 x 64: it bel"
    with pytest.raises(RecipeError, match=text):
        quantize_(model, recipe)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: AndaConfig(0, 6, 7, 7), "mantissa_bits"),
        (lambda: AndaConfig(7, 6, 7, 7, group=48), "a weight group of 128 is no multiple of"),
        (lambda: HarmoniaConfig(local=33), "local must be a multiple of the group 32"),
        (lambda: DecaConfig("mxfp5"), "mxfp5"),
        (lambda: DecaConfig("int4_tile"), "int8"),
        (lambda: DecaConfig("mxfp4", 1.5), "density must be 0..1, not 1.5"),
        (lambda: FormatConfig("nf4"), "nf4"),
        (lambda: AndaConfig("7", 6, 7, 7), "^qkv must be a whole number, not '7'$"),
        (lambda: AndaConfig(7, 6, 7, 7, pad=1), "^pad must be True or False, not 1$"),
        (lambda: AndaConfig(7, 6, 7, 7, 64, True), "^weight_bits must be a whole number or None"),
        (lambda: HarmoniaConfig(key_bits=8), "^key_bits must be 2 whole numbers, not 8$"),
        (lambda: DecaConfig("mxfp4", "half"), "^density must be a number or None, not 'half'$"),
        (lambda: config_from({"method": "anda", "qkv": 7}), "^o is missing$"),
    ],
)
def test_configurations_refuse(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_what_is_no_configuration_and_no_model():
    with pytest.raises(TypeError, match=r"one of AndaConfig, .* or a Recipe, not 'anda'$"):
        quantize_(made("llama"), "anda")
    with pytest.raises(TypeError, match=r"^the model must be a torch\.nn\.Module, not str$"):
        quantize_("MODEL_DIR", AndaConfig(7, 6, 7, 7))


@pytest.mark.parametrize("page", ["docs/torch.md"])
def test_the_example_runs(page, tmp_path, monkeypatch, capsys):
    (program,) = blocks((ROOT / page).read_text(), "py")
    assert len([line for line in program.splitlines() if line]) == 5
    made("llama").save_pretrained(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    exec(compile(program.replace("MODEL_DIR", "model"), page, "exec"), {})
    assert "tensor(" in capsys.readouterr().out
    assert Recipe.load(tmp_path / "recipe.toml").config == AndaConfig(7, 6, 7, 7)
