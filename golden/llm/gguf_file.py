"""LLaMA, Qwen2 and Gemma 3 models in GGUF files, through the optional ``gguf`` package, as float32.

A file of LLaMA stores the channels of a rotary pair next to each other, c and c + 1; here they are
c and c + C/2, so the rows of the query and key projections are put back in order. Files of Qwen2
and Gemma 3 have them in this order; the gains of Gemma's norms include the 1 that its folders
leave out.
"""

import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.llm.assemble import GEMMA_PERIOD, Names, Reader, Tensors, assemble
from tilewright.golden.llm.model import Model, ModelError
from tilewright.golden.llm.start import Start, chat_of_gguf, start_of_gguf
from tilewright.golden.llm.tokenizer import BytePairs, Pieces, Tokenizer
from tilewright.golden.params.llm import LlmShape

MAGIC = b"GGUF"
_USER_DEFINED = 4  # the kind of a token that no merge makes
_ROWS = 2048  # of a tensor that are dequantised at a time
ROPE_FACTORS = "rope_freqs.weight"
ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2", "gemma3": "gemma3_text"}  # to model_type

NAMES = Names(
    embedding="token_embd",
    head="output",
    final_norm="output_norm",
    layer="blk.{}.",
    attention_norm="attn_norm",
    query="attn_q",
    key="attn_k",
    value="attn_v",
    output="attn_output",
    feed_norm="ffn_norm",
    gate="ffn_gate",
    up="ffn_up",
    down="ffn_down",
    query_norm="attn_q_norm",
    key_norm="attn_k_norm",
    after_attention="post_attention_norm",
    after_feed="post_ffw_norm",
)


def read_gguf(path: str | Path, *, lazy: bool = False) -> Model:
    """The model of a file; ``lazy``: layers and rows are read when they are asked for."""
    path = Path(path)
    fields, tensors = open_gguf(path)
    architecture = fields.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise ModelError(
            f"{path}: architecture {architecture!r} is not supported; of GGUF files,"
            f" {', '.join(ARCHITECTURES)} are"
        )
    config = _config(path, architecture, fields, tensors)
    readers = {t.name: _reader(path, t, config) for t in tensors.values()}
    rope_factors = readers.pop(ROPE_FACTORS)(slice(None)) if ROPE_FACTORS in readers else None
    return assemble(
        config,
        NAMES,
        Tensors(path, readers),
        tied=True,
        tokenizer=_tokenizer(path, fields),
        start=start_of_gguf(fields).before_text,
        chat=chat_of_gguf(fields),
        rope_factors=rope_factors,
        lazy=lazy,
    )


def gguf_tokenizer(path: Path) -> tuple[Tokenizer | None, Start]:
    """The tokenizer of a file, None if it is of no kind known here, and what begins a sequence."""
    fields, _ = open_gguf(path)
    try:
        return _tokenizer(path, fields), start_of_gguf(fields)
    except ModelError:
        return None, start_of_gguf(fields)


def open_gguf(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields and tensors by their names."""
    try:
        import gguf
    except ImportError:
        raise ModelError(f"{path}: reading GGUF needs: pip install 'tilewright[gguf]'") from None
    with open(path, "rb") as file:
        magic = file.read(len(MAGIC))
    if magic != MAGIC:
        raise ModelError(f"{path}: not a GGUF file: it begins with {magic!r}, not {MAGIC!r}")
    try:
        reader = gguf.GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
    except (ValueError, IndexError, KeyError, UnicodeDecodeError, OverflowError) as error:
        raise ModelError(f"{path}: a truncated or damaged GGUF file: {error}") from None
    return fields, {tensor.name: tensor for tensor in reader.tensors}


def _config(path: Path, kind: str, fields: dict[str, Any], tensors: dict[str, Any]) -> LlmShape:
    def number(name: str, default: float | None = None) -> Any:
        value = fields.get(f"{kind}.{name}", default)
        if value is None:
            raise ModelError(f"{path}: field {kind}.{name} is missing")
        return value

    if number("expert_count", 0):
        raise ModelError(f"{path}: a mixture of {number('expert_count')} experts is not supported")
    scaling = fields.get(f"{kind}.rope.scaling.type", "none")
    if scaling != "none":
        raise ModelError(f"{path}: rotary scaling {scaling!r} is not supported")
    layers = number("block_count")
    width, heads = number("embedding_length"), number("attention.head_count")
    channels = number("attention.key_length", width // heads)
    rotary = number("rope.dimension_count", channels)
    if rotary != channels or number("attention.value_length", channels) != channels:
        raise ModelError(
            f"{path}: heads of {channels} channels with {rotary} of them rotary are not supported"
        )
    embedding = tensors.get(f"{NAMES.embedding}.weight")
    if embedding is None:
        raise ModelError(f"{path}: tensor {NAMES.embedding}.weight is missing")
    gemma: dict[str, Any] = {}
    if kind == "gemma3":
        gemma = {"sliding_window": number("attention.sliding_window"), "layer_norms": 4}
        gemma |= {"sliding_layers": layers - layers // GEMMA_PERIOD, "query_norm": "head"}
    return LlmShape(
        model_type=ARCHITECTURES[kind],
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=number("feed_forward_length"),
        num_attention_heads=heads,
        num_key_value_heads=number("attention.head_count_kv", heads),
        head_dim=channels,
        vocab_size=int(embedding.shape[1]),
        max_position_embeddings=number("context_length"),
        norm_eps=number("attention.layer_norm_rms_epsilon"),
        rope_theta=number("rope.freq_base", 10000.0),
        query_bias=kind == "qwen2",
        **gemma,
    )


def _reader(path: Path, tensor: Any, config: LlmShape) -> Reader:
    part = ".".join(tensor.name.split(".")[-2:-1])  # nothing, where a name has no point
    turned = config.model_type == "llama" and part in (NAMES.query, NAMES.key)

    def rows(chosen: slice) -> NDArray:
        from gguf.quants import dequantize

        try:
            data = np.asarray(tensor.data)[chosen]
            # In pieces: an embedding's temporaries would be several times as large as itself.
            first = dequantize(data[:_ROWS], tensor.tensor_type)
            values = np.empty((len(data), *first.shape[1:]), first.dtype)
            values[:_ROWS] = first
            for start in range(_ROWS, len(data), _ROWS):
                some = slice(start, start + _ROWS)
                values[some] = dequantize(data[some], tensor.tensor_type)
            _let_go(tensor.data)
        except NotImplementedError:
            kind = tensor.tensor_type.name
            raise ModelError(
                f"{path}: tensor {tensor.name} is {kind}, which has no reader"
            ) from None
        return values

    def read(chosen: slice) -> NDArray:
        """Turned rows are read all at once."""
        values = rows(chosen)
        if not turned:
            return values
        pairs = values.reshape(-1, config.head_dim // 2, 2, *values.shape[1:])
        return pairs.swapaxes(1, 2).reshape(values.shape)

    return read


def _let_go(data: Any) -> None:
    """Let the pages of a mapped file leave memory; they are read again when they are needed."""
    while data is not None and not isinstance(data, mmap.mmap):
        data = getattr(data, "base", None)
    if data is not None and hasattr(mmap, "MADV_DONTNEED"):
        data.madvise(mmap.MADV_DONTNEED)


def _tokenizer(path: Path, fields: dict[str, Any]) -> Tokenizer | None:
    def entry(name: str, default: Any = None) -> Any:
        value = fields.get(f"tokenizer.ggml.{name}", default)
        if value is None:
            raise ModelError(f"{path}: field tokenizer.ggml.{name} is missing")
        return value

    if "tokenizer.ggml.model" not in fields:
        return None
    kind, tokens = entry("model"), entry("tokens")
    if kind == "gpt2":
        merges = [pair.split(" ") for pair in entry("merges")]
        splitting = entry("pre", "gpt-2")
        try:
            return BytePairs(tokens, merges, "gpt-2" if splitting == "default" else splitting)
        except ValueError as error:
            raise ModelError(f"{path}: {error}") from None
    if kind == "llama":
        scores = dict(zip(tokens, entry("scores"), strict=True))
        kinds = entry("token_type", ())
        whole = [number for number, each in enumerate(kinds) if each == _USER_DEFINED]
        first = bool(entry("add_space_prefix", True))
        return Pieces(tokens, scores, space_first=first, whole=whole)
    raise ModelError(f"{path}: tokenizer {kind!r} is not supported; gpt2 and llama are")
