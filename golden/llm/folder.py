"""Models in Hugging Face folders: ``config.json``, ``*.safetensors`` and, if there, a tokenizer.

Families: llama, mistral (without a window) and qwen2, which share one computation, and opt (sizes
with norms before their modules, all but 350M).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bits import decode
from tilewright.golden.llm.assemble import Names, Reader, Tensors, assemble
from tilewright.golden.llm.model import Model, ModelError
from tilewright.golden.llm.start import chat_of_folder, json_object, start_of_folder
from tilewright.golden.llm.tokenizer import BytePairs, Pieces, Tokenizer
from tilewright.golden.params.formats import E4M3, E5M2
from tilewright.golden.params.llm import OPT_POSITION_OFFSET, LlmShape
from tilewright.golden.tensorfile import TensorFile, TensorFileError

LLAMA = Names(
    embedding="model.embed_tokens",
    head="lm_head",
    final_norm="model.norm",
    layer="model.layers.{}.",
    attention_norm="input_layernorm",
    query="self_attn.q_proj",
    key="self_attn.k_proj",
    value="self_attn.v_proj",
    output="self_attn.o_proj",
    feed_norm="post_attention_layernorm",
    gate="mlp.gate_proj",
    up="mlp.up_proj",
    down="mlp.down_proj",
)
OPT = Names(
    embedding="model.decoder.embed_tokens",
    positions="model.decoder.embed_positions",
    head="lm_head",
    final_norm="model.decoder.final_layer_norm",
    layer="model.decoder.layers.{}.",
    attention_norm="self_attn_layer_norm",
    query="self_attn.q_proj",
    key="self_attn.k_proj",
    value="self_attn.v_proj",
    output="self_attn.out_proj",
    feed_norm="final_layer_norm",
    up="fc1",
    down="fc2",
)
GEMMA = replace(
    LLAMA,
    feed_norm="pre_feedforward_layernorm",
    query_norm="self_attn.q_norm",
    key_norm="self_attn.k_norm",
    after_attention="post_attention_layernorm",
    after_feed="post_feedforward_layernorm",
)
SIZES = (  # that every configuration has, under these names
    *("num_hidden_layers", "hidden_size", "num_attention_heads"),
    *("vocab_size", "max_position_embeddings"),
)
KNOWN = "llama, mistral, qwen2 and opt"
FLOATS: dict[str, Callable[[NDArray[np.uint8]], NDArray]] = {  # of bytes, by a tensor's type
    "F64": lambda raw: raw.view("<f8"),
    "F32": lambda raw: raw.view("<f4"),
    "F16": lambda raw: raw.view("<f2"),
    "BF16": lambda raw: (raw.view("<u2").astype(np.uint32) << 16).view(np.float32),
    "F8_E4M3": lambda raw: decode(E4M3, raw),
    "F8_E5M2": lambda raw: decode(E5M2, raw),
}


def names_of(model_type: str) -> Names:
    """Tensor names of a family, as Hugging Face has them."""
    return {"opt": OPT, "gemma3_text": GEMMA}.get(model_type, LLAMA)


def read_folder(path: str | Path, *, lazy: bool = False) -> Model:
    """The model of a folder; ``lazy``: layers are read when they are asked for."""
    path = Path(path)
    content = json_object(path, "config.json")
    readers = _readers(path)
    kind, factors = content.get("model_type"), None
    try:
        if kind in ("llama", "mistral", "qwen2"):
            config, factors = _llama(path, content)
        elif kind == "opt":
            config = _opt(path, content)
        else:
            raise ModelError(f"{path}: architecture {kind!r} is not supported; {KNOWN} are")
    except KeyError as error:
        raise ModelError(f"{path}: config.json has no {error}") from None
    names = names_of(config.model_type)
    return assemble(
        config,
        names,
        Tensors(path, readers),
        tied=bool(content.get("tie_word_embeddings", kind == "opt")),
        tokenizer=_tokenizer(path),
        start=start_of_folder(path).before_text,
        chat=chat_of_folder(path),
        rope_factors=factors,
        position_offset=OPT_POSITION_OFFSET if names.positions else 0,
        lazy=lazy,
    )


def _llama(path: Path, content: dict[str, Any]) -> tuple[LlmShape, NDArray[np.float32] | None]:
    # Qwen2 states a window that it does not use.
    unused = content.get("use_sliding_window") is False
    for name, wanted in (("hidden_act", "silu"), ("sliding_window", None)):
        if content.get(name, wanted) != wanted and not (unused and name == "sliding_window"):
            raise ModelError(f"{path}: {name} {content[name]!r} is not supported")
    rope = content.get("rope_scaling") or content.get("rope_parameters") or {}
    qwen = content["model_type"] == "qwen2"
    config = LlmShape(
        model_type="qwen2" if qwen else "llama",
        query_bias=qwen,
        **{name: content[name] for name in SIZES},
        intermediate_size=content["intermediate_size"],
        num_key_value_heads=content.get("num_key_value_heads") or content["num_attention_heads"],
        head_dim=content.get("head_dim")
        or content["hidden_size"] // content["num_attention_heads"],
        norm_eps=content["rms_norm_eps"],
        rope_theta=content.get("rope_theta") or rope.get("rope_theta", 10000.0),
    )
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return config, None
    if kind == "llama3":
        return config, _llama3_factors(config, rope)
    raise ModelError(f"{path}: rotary scaling {kind!r} is not supported")


def _llama3_factors(config: LlmShape, rope: Mapping[str, float]) -> NDArray[np.float32]:
    """Slow frequencies are divided by the factor, fast ones not, those between in proportion."""
    turns = rope["original_max_position_embeddings"] / (
        2 * np.pi * config.rope_theta ** (np.arange(0, config.head_dim, 2) / config.head_dim)
    )
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / (kept + (1 - kept) / rope["factor"])).astype(np.float32)


def _opt(path: Path, content: dict[str, Any]) -> LlmShape:
    width = content["hidden_size"]
    unsupported = {
        "do_layer_norm_before": content.get("do_layer_norm_before", True) is not True,
        "word_embed_proj_dim": content.get("word_embed_proj_dim", width) != width,
        "activation_function": content.get("activation_function", "relu") != "relu",
    }
    for name in (name for name, bad in unsupported.items() if bad):
        raise ModelError(f"{path}: {name} {content[name]!r} is not supported")
    heads = content["num_attention_heads"]
    return LlmShape(
        model_type="opt",
        **{name: content[name] for name in SIZES},
        intermediate_size=content["ffn_dim"],
        num_key_value_heads=heads,
        head_dim=width // heads,
    )


def _readers(path: Path) -> dict[str, Reader]:
    """Every tensor of the folder; buffers that follow from the configuration are passed over."""
    readers = {}
    for file in shards(path):
        try:
            with TensorFile(file) as tensors:
                names = [n for n in tensors.entries if not n.endswith("rotary_emb.inv_freq")]
        except TensorFileError as error:
            raise ModelError(str(error)) from None
        readers.update({name: _reader(file, name) for name in names})
    return readers


def _reader(file: Path, name: str) -> Reader:
    def read(chosen: slice) -> NDArray:
        with TensorFile(file) as tensors:
            entry = tensors.entries[name]
            if entry.dtype not in FLOATS:
                raise ModelError(f"{file}: tensor {name} is {entry.dtype}, which has no reader")
            count = entry.shape[0] if entry.shape else 1
            first, end, _ = chosen.indices(count)
            each = (entry.stop - entry.start) // max(1, count)
            content = tensors.read(name, first * each, end * each)
        shape = (end - first, *entry.shape[1:]) if entry.shape else ()
        return FLOATS[entry.dtype](content).reshape(shape)

    return read


def shards(path: Path) -> list[Path]:
    """The safetensors files of a folder: those of its index, or all."""
    index = path / "model.safetensors.index.json"
    if index.is_file():
        named = json_object(path, index.name).get("weight_map")
        names = set(named.values()) if isinstance(named, dict) else set()
        for name in sorted(names):
            if not (path / str(name)).is_file():
                raise ModelError(f"{path}: {name}, which {index.name} names, is missing")
        return [path / name for name in sorted(names)]
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise ModelError(f"{path}: no *.safetensors in this folder")
    return files


def _tokenizer(path: Path) -> Tokenizer | None:
    if (path / "tokenizer.json").is_file():
        return _from_tokenizer_json(path)
    if (path / "vocab.json").is_file() and (path / "merges.txt").is_file():
        lines = (path / "merges.txt").read_text(encoding="utf-8").splitlines()
        pairs = [line for line in lines if line and not line.startswith("#version")]
        return BytePairs(_ordered(json_object(path, "vocab.json")), _merges(pairs), "gpt-2")
    return None


def _from_tokenizer_json(path: Path) -> Tokenizer:
    content = json_object(path, "tokenizer.json")
    model = content.get("model", {})
    for name in ("vocab", "merges"):
        if name not in model:
            raise ModelError(f"{path}: the model of tokenizer.json has no {name}")
    if model.get("type", "BPE") != "BPE":
        raise ModelError(f"{path}: tokenizer {model['type']!r} is not supported; BPE is")
    vocabulary = dict(model["vocab"])
    vocabulary.update({token["content"]: token["id"] for token in content.get("added_tokens", [])})
    tokens, merges = _ordered(vocabulary), _merges(model["merges"])
    if model.get("byte_fallback"):
        scores: dict[str, float] = {}
        for rank, (a, b) in enumerate(merges):
            scores.setdefault(a + b, -rank)
        first = "Prepend" in json.dumps(content.get("normalizer"))
        return Pieces(tokens, scores, space_first=first)
    steps = json.dumps(content.get("pre_tokenizer"))
    if "\\\\p{N}{1,3}" in steps:
        splitting = "llama-bpe"
    elif "\\\\p{L}+|\\\\p{N}|" in steps:
        splitting = "qwen2"
    else:
        splitting = "smollm" if "Digits" in steps else "gpt-2"
    return BytePairs(tokens, merges, splitting)


def _ordered(vocabulary: Mapping[str, int]) -> list[str]:
    """Tokens by their numbers; a number that no token has is an empty one."""
    tokens = [""] * (max(vocabulary.values()) + 1)
    for token, number in vocabulary.items():
        tokens[number] = token
    return tokens


def _merges(pairs: list[Any]) -> list[tuple[str, str]]:
    """Written "a b" or ["a", "b"]."""
    split = (pair.split(" ") if isinstance(pair, str) else pair for pair in pairs)
    return [(a, b) for a, b in split]
