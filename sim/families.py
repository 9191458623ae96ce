"""From the fields of a ``config.json`` to a shape, for every family of decoder models.

``FAMILIES`` is a table of what each has beyond a plain decoder. A field that nobody reads is
refused unless it is known not to matter: a model whose sizes are not understood has no answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from reprlib import repr as shorten
from typing import Any

from tilewright.golden.params.block import require
from tilewright.golden.params.llm import (
    LARGEST,
    MOST_LAYERS,
    DeltaAttention,
    Experts,
    LatentAttention,
    LlmShape,
)

# Fields that change neither the number of parameters nor the work of a token: bookkeeping;
# activations, dropout and training; positions and scaling of scores; how experts are chosen.
HARMLESS = """
    model_type architectures auto_map transformers_version torch_dtype dtype use_cache
    _name_or_path is_decoder id2label label2id num_labels problem_type output_attentions
    output_hidden_states return_dict return_dict_in_generate chunk_size_feed_forward prefix
    bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id decoder_start_token_id
    bad_words_ids task_specific_params tokenizer_class quantization_config is_llama_config
    _attn_implementation_autoset _num_labels transformers.js_config unsloth_fixed unsloth_version

    activation activation_function hidden_act hidden_activation hidden_dropout dropout
    activation_dropout attention_dropout attn_pdrop embd_pdrop resid_pdrop classifier_dropout
    layerdrop summary_activation summary_first_dropout summary_proj_to_labels summary_type
    summary_use_proj layer_norm_eps layer_norm_epsilon norm_eps rms_norm_eps initializer_range
    initializer_factor init_std gradient_checkpointing pretraining_tp ep_size
    attention_probs_dropout_prob hidden_dropout_prob

    rope_theta rope_scaling rope_parameters rope_local_base_freq rope_interleave rope_interleaved
    rotary_pct rotary_emb_base partial_rotary_factor original_max_position_embeddings
    no_rope_layers no_rope_layer_interval initial_context_length attn_temperature_tuning
    attn_scale floor_scale query_pre_attn_scalar attn_logit_softcapping final_logit_softcapping
    cache_implementation scale_attn_by_inverse_layer_idx scale_attn_weights clip_qkv
    reorder_and_upcast_attn use_parallel_residual n_special predict_special_tokens swiglu_limit

    router_aux_loss_coef router_jitter_noise output_router_logits aux_loss_alpha seq_aux
    norm_topk_prob routed_scaling_factor scoring_func topk_method topk_group n_group
    num_nextn_predict_layers

    logit_scale logits_scaling embedding_multiplier attention_multiplier residual_multiplier
    scale_emb scale_depth dim_model_base order_of_interleaved_layers position_embedding_type
    use_embedding_sharing use_gated_activation use_parallel_block use_parallel_embedding
    apply_residual_connection_post_layernorm norm_epsilon residual_dropout embedding_dropout

    vision_config vision_start_token_id vision_end_token_id vision_token_id image_token_id
    video_token_id
"""
DO_NOT_MATTER = frozenset(HARMLESS.split())


class Fields:
    """The fields of one model; knows which of them have been read."""

    def __init__(self, name: str, content: Mapping[str, Any]):
        self.name = name
        self._given = frozenset(content)
        self._content = {key: value for key, value in content.items() if value is not None}
        self._read: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._content

    def mentions(self, key: str) -> bool:
        """Whether ``key`` is there, be it null."""
        return key in self._given

    def refuse(self, message: str) -> ValueError:
        return ValueError(f"{self.name}: {message}")

    def number(
        self, *keys: str, default: int | None = None, least: int = 1, most: int = LARGEST
    ) -> int:
        """Return the whole number of the first of ``keys`` that is given, or ``default``."""
        self._read.update(keys)
        given = [key for key in keys if key in self._content]
        if not given:
            if default is None:
                raise self.refuse(f"it is not a config.json: {keys[0]} is missing")
            return default
        value = self._content[given[0]]
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            kind = "a positive number" if least else "a number, 0 or more"
            raise self.refuse(f"{given[0]} must be {kind}, not {shorten(value)}")
        if value > most:
            raise self.refuse(f"{given[0]} must be {least}..{most}, not {shorten(value)}")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        self._read.add(key)
        value = self._content.get(key, default)
        if not isinstance(value, bool):
            raise self.refuse(f"{key} must be true or false, not {shorten(value)}")
        return value

    def items(self, key: str, kind: type) -> list[Any] | None:
        """Return the list ``key`` of whole numbers or words; None where it is not given."""
        self._read.add(key)
        value = self._content.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(item) is kind for item in value):
            what = "whole numbers" if kind is int else "words"
            raise self.refuse(f"{key} must be a list of {what}, not {shorten(value)}")
        return value

    def only(self, key: str, *values: Any) -> None:
        """Refuse any other value of ``key`` than these: the model would be another."""
        self._read.add(key)
        value = self._content.get(key, values[0])
        if value not in values:
            raise self.refuse(f"{key} {shorten(value)} is not understood")

    def finish(self, family: str) -> None:
        """Refuse a field that was not read and may matter."""
        for key, value in self._content.items():
            if key not in self._read and key not in DO_NOT_MATTER and value is not False:
                raise self.refuse(
                    f"field {key} is not understood in a model of type {family}; where it changes"
                    " neither sizes nor work, take it out of the file"
                )


# Where a model that also sees or hears has its language model, which alone is answered for.
NESTED = "text_config"
UNIVERSAL = ("model_type", "max_position_embeddings", "tie_word_embeddings")
# Other names of a family, those of models around a language model among them.
ALIASES = {
    **{"gemma3": "gemma3_text", "llama4": "llama4_text"},
    **{"ministral": "mistral", "ministral3": "mistral", "mistral3": "mistral"},
    **dict.fromkeys(("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), "qwen2"),
    **{"qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe", "kimi_k2": "deepseek_v3"},
    **dict.fromkeys(("RefinedWeb", "RefinedWebModel"), "falcon"),
}
# Models that are refused whatever their sizes, and why.
REFUSED = {
    **dict.fromkeys(("kimi_linear", "minimax", "rwkv"), "linear attention"),
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "jamba", "zamba2"), "state-space layers"),
    **dict.fromkeys(("bart", "bert", "mllama", "roberta", "t5", "whisper"), "an encoder's layers"),
    **dict.fromkeys(("bloom", "mpt"), "positions as slopes of scores"),
}


Read = dict[str, Any]  # arguments of LlmShape


def shape_of(name: str, config: Mapping[str, Any]) -> LlmShape:
    """Return the shape that the fields of a ``config.json`` describe; ``name`` is for messages."""
    content = dict(config)
    if isinstance(config.get(NESTED), Mapping):
        content = {key: config[key] for key in UNIVERSAL if key in config} | dict(config[NESTED])
    fields = Fields(name, content)
    named = content.get("model_type")
    if named is None:
        raise fields.refuse("it is not a config.json: model_type is missing")
    family = ALIASES.get(named, named) if isinstance(named, str) else ""
    if family in REFUSED:
        raise fields.refuse(f"{REFUSED[family]} of model_type {family} are not modelled")
    if family not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise fields.refuse(f"unknown model_type {shorten(named)}; known: {known}")
    try:
        found = _common(fields, family) | _own(fields, FAMILIES[family])
        fields.finish(family)
        return LlmShape(model_type=family, name=name, **found)
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(name) else f"{name}: {text}") from None


INNER = {"opt": "ffn_dim", "gpt2": "n_inner", "falcon": "ffn_hidden_size"}
FOURFOLD = ("gpt2", "falcon")  # families whose files leave out the inner width


def _common(fields: Fields, family: str) -> Read:
    """Fields that every family has, some by names of their own."""
    known = FAMILIES[family].defaults
    hidden = fields.number("hidden_size", "n_embd")
    heads = fields.number("num_attention_heads", "n_head", default=known.get("heads"))
    head_dim = known.get("head_dim")
    if "head_dim" not in fields and head_dim is None and "kv_lora_rank" not in fields:
        require(
            hidden % heads == 0, f"{fields.name}: {heads} heads do not divide hidden_size {hidden}"
        )
    tied = fields.flag("tie_word_embeddings", bool(known.get("tied", False)))
    inner = INNER.get(family, "intermediate_size")
    return {
        "hidden_size": hidden,
        "intermediate_size": fields.number(
            inner, default=4 * hidden if family in FOURFOLD else None
        ),
        "num_hidden_layers": fields.number("num_hidden_layers", "n_layer", most=MOST_LAYERS),
        "num_attention_heads": heads,
        "num_key_value_heads": fields.number(
            "num_key_value_heads", default=known.get("kv_heads", heads)
        ),
        "head_dim": fields.number("head_dim", default=head_dim or max(1, hidden // heads)),
        "vocab_size": fields.number("vocab_size", default=known.get("vocabulary")),
        "max_position_embeddings": fields.number(
            *("max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length"),
            default=known.get("positions"),
        ),
        "tie_word_embeddings": tied,
    }


@dataclass(frozen=True, kw_only=True)
class Family:
    """Fields that only the models of a family have."""

    defaults: Mapping[str, int] = field(default_factory=dict)  # of fields that files leave out
    fixed: Read = field(default_factory=dict)  # the same in all of its models
    flags: Mapping[str, tuple[str, bool]] = field(default_factory=dict)  # field, and its default
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # values that are understood
    windows: Callable[[Fields], Read] | None = None
    experts: Callable[[Fields], Experts] | None = None
    more: Callable[[Fields], Read] | None = None  # replaces what the others say


def _own(fields: Fields, family: Family) -> Read:
    for key, values in family.only.items():
        fields.only(key, *values)
    found = dict(family.fixed)
    found |= {name: fields.flag(*given) for name, given in family.flags.items()}
    if family.experts is not None:
        found["experts"] = family.experts(fields)
    for read in (family.windows, family.more):
        found |= {} if read is None else read(fields)
    return found


def _windowed(
    fields: Fields, window: int = 0, *, use: bool = True, every: int = 1, first: int = 0
) -> Read:
    """Sliding windows in the layers that ``layer_types`` names.

    Without it they are in those from ``first`` on, but for the last of every ``every`` layers where
    that is more than 1. ``window`` is the family's where a file does not mention it.
    """
    kinds = fields.items("layer_types", str)
    given = fields.number("sliding_window", "sliding_window_size", default=0, least=0)
    window = given if fields.mentions("sliding_window") or given else window
    layers = fields.number("num_hidden_layers")
    if kinds is not None:
        known = ("full_attention", "sliding_attention", "chunked_attention")
        for kind in kinds:
            if kind not in known:
                raise fields.refuse(f"layer_types {kind!r} is not understood")
        if len(kinds) != layers:
            raise fields.refuse(f"layer_types has {len(kinds)} entries for {layers} layers")
        count = len(kinds) - kinds.count("full_attention")
    elif use and window:
        count = sum(every == 1 or (k + 1) % every != 0 for k in range(first, layers))
    else:
        count = 0
    if count and not window:
        raise fields.refuse("layers slide, but sliding_window is missing")
    return {"sliding_window": window, "sliding_layers": count} if count else {}


def _qwen_window(fields: Fields) -> Read:
    """A window that a switch turns on, in the layers from ``max_window_layers`` on."""
    layers = fields.number("num_hidden_layers")
    first = fields.number("max_window_layers", default=layers, least=0)
    return _windowed(fields, use=fields.flag("use_sliding_window"), first=min(first, layers))


def _experts(fields: Fields, **more: Any) -> Experts:
    """Routed experts; ``more`` are fields of the family's own."""
    return Experts(
        **{
            "layers": fields.number("num_hidden_layers"),
            "count": fields.number("num_local_experts", "num_experts", "n_routed_experts"),
            "per_token": fields.number("num_experts_per_tok", "experts_per_token"),
            "width": fields.number("moe_intermediate_size", "intermediate_size"),
            **more,
        }
    )


def _qwen_experts(fields: Fields, **more: Any) -> Experts:
    """In every ``decoder_sparse_step``-th layer but for those of a list."""
    layers = fields.number("num_hidden_layers")
    step = fields.number("decoder_sparse_step", default=1)
    dense = set(fields.items("mlp_only_layers", int) or ())
    count = sum((k + 1) % step == 0 and k not in dense for k in range(layers))
    return _experts(fields, layers=count, **more)


def _qwen2_experts(fields: Fields) -> Experts:
    shared = fields.number("shared_expert_intermediate_size")
    return _qwen_experts(fields, shared_width=shared, shared_gate=True)


def _qwen3_next(fields: Fields) -> Read:
    """Gated DeltaNet in all layers but every fourth, or in those that ``layer_types`` names."""
    layers, kinds = fields.number("num_hidden_layers"), fields.items("layer_types", str)
    every = fields.number("full_attention_interval", default=4)
    kinds = kinds or [f"{'linear' if (k + 1) % every else 'full'}_attention" for k in range(layers)]
    if len(kinds) != layers or not {"linear_attention", "full_attention"}.issuperset(kinds):
        raise fields.refuse("layer_types must name each layer linear_attention or full_attention")
    names = ("num_key_heads", "key_head_dim", "num_value_heads", "value_head_dim")
    heads, key, values, value = (fields.number(f"linear_{name}") for name in names)
    sizes = {"key_width": heads * key, "key_dim": key, "value_width": values * value}
    sizes |= {"value_heads": values, "taps": fields.number("linear_conv_kernel_dim")}
    count = kinds.count("linear_attention")
    return {"delta": DeltaAttention(layers=count, **sizes) if count else None}


def _gemma3_window(fields: Fields) -> Read:
    pattern = fields.number("sliding_window_pattern", "_sliding_window_pattern", default=6)
    return _windowed(fields, 4096, every=pattern)


def _latent(fields: Fields) -> Read:
    """Attention of a latent vector, whose keys and queries have a plain and a rotary part."""
    rotary = fields.number("qk_rope_head_dim")
    latent = LatentAttention(
        kv_rank=fields.number("kv_lora_rank"),
        query_rank=fields.number("q_lora_rank", default=0) or None,
        plain_dim=fields.number("qk_nope_head_dim"),
        rotary_dim=rotary,
        value_dim=fields.number(
            "v_head_dim",
            default=max(1, fields.number("hidden_size") // fields.number("num_attention_heads")),
        ),
    )
    # DeepSeek-V2's modelling code ignores its head_dim; later files give that of the rotary part.
    fields.number("head_dim", "qk_head_dim", default=rotary)
    return {"latent": latent, "head_dim": latent.plain_dim + latent.rotary_dim}


def _deepseek(fields: Fields, **more: Any) -> Read:
    layers = fields.number("num_hidden_layers")
    dense = fields.number("first_k_dense_replace", default=0, least=0)
    step = fields.number("moe_layer_freq", default=1)
    width = fields.number("moe_intermediate_size")
    experts = _experts(
        fields,
        layers=sum(k >= dense and k % step == 0 for k in range(layers)),
        shared_width=width * fields.number("n_shared_experts", default=0, least=0),
        **more,
    )
    return _latent(fields) | {"experts": experts}


def _falcon(fields: Fields) -> Read:
    """All queries share one key or, in the newer models, a group does; these have two norms."""
    heads = fields.number("num_attention_heads", "n_head")
    groups = fields.number("num_kv_heads", "n_head_kv", default=heads)
    if fields.flag("new_decoder_architecture"):
        fields.flag("multi_query", True)
        return {"num_key_value_heads": groups, "layer_norms": 2}
    shared = fields.flag("multi_query", True)
    return {"num_key_value_heads": 1 if shared else heads, "layer_norms": 1}


def _cohere(fields: Fields, window: int = 0) -> Read:
    found: Read = {"query_norm": "width" if fields.flag("use_qk_norm") else ""}
    pattern = fields.number("sliding_window_pattern", default=4) if window else 1
    return found | (_windowed(fields, window, every=pattern) if window else {})


def _llama4(fields: Fields) -> Read:
    """Three of four layers see the chunk of 8192 tokens that they are in: at most a window."""
    layers = fields.number("num_hidden_layers")
    fields.flag("use_qk_norm", True)  # without weights
    rotary = fields.items("no_rope_layers", int) or []
    interval = fields.number("no_rope_layer_interval", default=4)
    chunk = fields.number("attention_chunk_size", default=0, least=0)
    fields.items("layer_types", str)  # says the same of chunks once more
    chunked = sum(rotary) if rotary else sum((k + 1) % interval != 0 for k in range(layers))
    step = fields.number("interleave_moe_layer_step", default=1)
    with_experts = fields.items("moe_layers", int)
    count = layers // step if with_experts is None else len(with_experts)
    width = fields.number("intermediate_size")
    found: Read = {"sliding_window": chunk, "sliding_layers": chunked} if chunk else {}
    return found | {
        "experts": _experts(fields, layers=count, width=width, shared_width=width),
        "intermediate_size": fields.number("intermediate_size_mlp", default=width),
    }


def _opt(fields: Fields) -> Read:
    hidden = fields.number("hidden_size")
    embedding = fields.number("word_embed_proj_dim", default=hidden)
    return {"word_embed_proj_dim": None if embedding == hidden else embedding}


NO_BIAS = {"attention_bias": (False,)}
BIASES = {"query_bias": ("attention_bias", False), "output_bias": ("attention_bias", False)}
LLAMA = BIASES | {"feed_forward_bias": ("mlp_bias", False)}
GEMMA = {"tied": 1, "head_dim": 256}
GEMMA_3 = {**GEMMA, "heads": 8, "kv_heads": 4, "vocabulary": 262208, "positions": 131072}
PHI = {"mlp_bias": (False,), "lm_head_bias": (False,), "full_attn_mod": (1,)}
OPT = {"layer_norm_elementwise_affine": (True,), "_remove_final_layer_norm": (False,)}
FALCON = {"bias": (False,), "alibi": (False,), "parallel_attn": (True,)}
STARCODER = {"use_bias": (True,), "norm_type": ("layer_norm",), "mlp_type": ("default",)}
FAMILIES: dict[str, Family] = {
    "cohere": Family(defaults={"tied": 1}, fixed={"layer_norms": 1}, only=NO_BIAS, more=_cohere),
    "cohere2": Family(
        defaults={"tied": 1},
        fixed={"layer_norms": 1},
        only=NO_BIAS,
        more=partial(_cohere, window=4096),
    ),
    "deepseek_v2": Family(only=NO_BIAS, more=_deepseek),
    # A correction of each expert's score keeps their load even; it is part of the checkpoint.
    "deepseek_v3": Family(only=NO_BIAS, more=partial(_deepseek, router_bias=True)),
    "falcon": Family(
        defaults={"tied": 1, "vocabulary": 65024, "positions": 2048},
        fixed={"plain_feed_forward": True, "norm_bias": True},
        only=FALCON,
        more=_falcon,
    ),
    "gemma": Family(defaults=GEMMA, only=NO_BIAS),
    "gemma2": Family(
        defaults=GEMMA,
        fixed={"layer_norms": 4},
        only=NO_BIAS,
        windows=partial(_windowed, window=4096, every=2),
    ),
    "gemma3_text": Family(
        defaults=GEMMA_3,
        fixed={"layer_norms": 4, "query_norm": "head"},
        only=NO_BIAS,
        windows=_gemma3_window,
    ),
    "glm": Family(flags={"query_bias": ("attention_bias", True)}),
    "glm4": Family(fixed={"layer_norms": 4}, flags={"query_bias": ("attention_bias", True)}),
    "gpt2": Family(defaults={"tied": 1, "vocabulary": 50257}),
    "gpt_neox": Family(only={"attention_bias": (True,)}),
    "gpt_oss": Family(
        defaults={"head_dim": 64},
        fixed={"attention_sinks": True},
        flags={"query_bias": ("attention_bias", True), "output_bias": ("attention_bias", True)},
        windows=partial(_windowed, window=128, every=2),
        experts=partial(_experts, router_bias=True, bias=True),
    ),
    "granite": Family(flags=LLAMA),
    "llama": Family(flags=LLAMA),
    "llama4_text": Family(only=NO_BIAS, more=_llama4),
    "minicpm": Family(defaults={"tied": 1}, only=NO_BIAS),
    "minicpm3": Family(defaults={"tied": 1}, only=NO_BIAS, more=_latent),
    "mistral": Family(windows=partial(_windowed, window=4096)),
    "mixtral": Family(windows=_windowed, experts=_experts),
    "olmo": Family(fixed={"norm_weights": False}, only=NO_BIAS),
    "olmo2": Family(fixed={"query_norm": "width"}, only=NO_BIAS),
    "olmo3": Family(
        fixed={"query_norm": "width"},
        only=NO_BIAS,
        windows=partial(_windowed, window=4096, every=4),
    ),
    "olmoe": Family(fixed={"query_norm": "width"}, only=NO_BIAS, experts=_experts),
    "opt": Family(
        defaults={"tied": 1},
        flags={"do_layer_norm_before": ("do_layer_norm_before", True)},
        only=OPT | {"enable_bias": (True,)},
        more=_opt,
    ),
    "phi": Family(fixed={"layer_norms": 1, "head_bias": True}, only={"qk_layernorm": (False,)}),
    "phi3": Family(only=NO_BIAS | PHI | {"interpolate_factor": (1,)}, windows=_windowed),
    "qwen2": Family(
        fixed={"query_bias": True},  # queries, keys and values always have biases
        only={"attention_bias": (True, False)},
        windows=_qwen_window,
    ),
    "qwen2_moe": Family(
        flags={"query_bias": ("qkv_bias", True)}, windows=_qwen_window, experts=_qwen2_experts
    ),
    "qwen3": Family(fixed={"query_norm": "head"}, flags=BIASES, windows=_qwen_window),
    "qwen3_moe": Family(
        fixed={"query_norm": "head"}, flags=BIASES, windows=_qwen_window, experts=_qwen_experts
    ),
    "qwen3_next": Family(
        fixed={"query_norm": "head", "query_gate": True},
        only=NO_BIAS,
        experts=_qwen2_experts,
        more=_qwen3_next,
    ),
    "smollm3": Family(defaults={"tied": 1}, flags=LLAMA, windows=_qwen_window),
    "starcoder2": Family(
        defaults={"tied": 1}, only=STARCODER, windows=partial(_windowed, window=4096)
    ),
}
