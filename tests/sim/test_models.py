"""Models of the table against published counts; config.json as others write it."""

import json
import tomllib

import pytest

from tilewright.golden.params.llm import Experts, LatentAttention, LlmShape
from tilewright.sim.families import FAMILIES, shape_of
from tilewright.sim.models import ABOUT, TABLE, model_names, published, resolve_model

CONFIG = {
    "model_type": "llama",
    "hidden_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


def table():
    """The fields of every model of the table."""
    entries = tomllib.loads(TABLE.read_text())
    return {
        name: {key: value for key, value in entry.items() if key not in ABOUT}
        for name, entry in entries.items()
    }


def written(tmp_path, config):
    """The model of a config.json with these fields; None leaves one out."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return resolve_model(str(path))


def test_the_table_has_the_families_that_people_run():
    assert len(model_names()) >= 100
    assert {resolve_model(name).model_type for name in model_names()} == set(FAMILIES)


@pytest.mark.parametrize("name", model_names())
def test_parameters_are_the_published_ones(name):
    ours, known = resolve_model(name), published(name)
    if known["digits"] is not None:
        places = known["digits"] - len(str(known["parameters"]))
        assert round(ours.parameters, places) == known["parameters"]
    else:
        assert ours.parameters == known["parameters"]
    assert known["source"].startswith("https://huggingface.co/")
    if known["active_billions"] is not None:  # with the embeddings, or without
        near = (ours.active_parameters, ours.active_parameters + ours.head_weights)
        assert any(n / 1e9 == pytest.approx(known["active_billions"], rel=0.025) for n in near)


def test_grouped_queries_share_keys():
    model = resolve_model("llama-2-70b")
    assert (model.query_width, model.kv_width) == (8192, 1024)
    # 80 layers, keys and values, 1024 wide: 163840 elements a token.
    assert model.kv_elements(3) == 3 * 163840


def test_latent_attention_caches_one_vector_for_all_heads():
    """DeepSeek-V2's paper: 576 values a token and layer, not 128 heads of 192 and 128."""
    model = resolve_model("deepseek-v2")
    assert model.cached_per_token == 576
    assert model.kv_elements(7) == 7 * 60 * 576


# Sizes that no two fields share; Transformers 5.23 counts 1,342,992 parameters.
DELTA = {
    **{"model_type": "qwen3_next", "hidden_size": 96, "intermediate_size": 80, "vocab_size": 1000},
    **{"num_hidden_layers": 6, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 32},
    **{"linear_num_key_heads": 3, "linear_num_value_heads": 6, "linear_key_head_dim": 24},
    **{"linear_value_head_dim": 40, "linear_conv_kernel_dim": 3, "num_experts": 8},
    **{"num_experts_per_tok": 3, "moe_intermediate_size": 48, "mlp_only_layers": [1]},
    **{"shared_expert_intermediate_size": 56, "full_attention_interval": 3},
    "max_position_embeddings": 512,
}


def test_linear_attention_keeps_a_state_and_no_cache(tmp_path):
    model = written(tmp_path, DELTA)
    assert model.parameters == 1_342_992
    assert (model.delta.layers, model.visible(100)) == (4, [(2, 100)])
    # fp32 for each head, channel of its key and of its value; bf16 for three tokens of q, k, v.
    assert model.delta.state_bytes == 4 * (4 * 6 * 24 * 40 + 2 * 3 * (2 * 3 * 24 + 6 * 40))
    kinds = ["full_attention", *["linear_attention"] * 4, "full_attention"]
    assert written(tmp_path, DELTA | {"layer_types": kinds}) == model


def test_windows_bound_what_a_layer_keeps():
    alternating = resolve_model("gemma-2-9b")  # 21 of 42 layers look back 4096 tokens
    assert alternating.visible(4096) == [(42, 4096)]
    assert alternating.visible(8192) == [(21, 8192), (21, 4096)]
    five_of_six = resolve_model("gemma-3-27b")
    assert five_of_six.visible(131072) == [(10, 131072), (52, 1024)]
    everywhere = resolve_model("mistral-7b-v0.1")
    assert everywhere.visible(10**6) == [(32, 4096)]
    assert everywhere.kv_elements(10**6) == everywhere.kv_elements(4096)
    assert resolve_model("llama-4-scout").visible(10**5) == [(12, 10**5), (36, 8192)]


def test_distinct_experts_of_a_batch():
    experts = resolve_model("mixtral-8x7b").experts
    assert experts.expected_distinct(1) == 2
    # Two tokens: 2 + 2 less the mean of those chosen by both, 2 * 2 / 8.
    assert experts.expected_distinct(2) == pytest.approx(3.5)
    assert experts.expected_distinct(10_000) == pytest.approx(8)


def test_dense_first_layers_and_shared_experts():
    model = resolve_model("deepseek-v3")
    assert (model.dense_layers, model.experts.layers, model.experts.shared_width) == (3, 58, 2048)
    assert resolve_model("llama-4-maverick").dense_layers == 24


def test_a_config_file_gives_the_same_model_as_the_table(tmp_path):
    assert written(tmp_path, CONFIG) == resolve_model("llama-3.2-3b")
    assert resolve_model(str(tmp_path)) == resolve_model("llama-3.2-3b")  # the folder with it


COMPLETE = {
    "deepseek-v3": {
        **{"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": False, "ep_size": 1},
        **{"attention_dropout": 0.0, "auto_map": {"AutoModel": "m.M"}, "aux_loss_alpha": 0.001},
        **{"bos_token_id": 0, "eos_token_id": 1, "first_k_dense_replace": 3, "hidden_act": "silu"},
        **{"hidden_size": 7168, "initializer_range": 0.02, "intermediate_size": 18432},
        **{"kv_lora_rank": 512, "max_position_embeddings": 163840, "model_type": "deepseek_v3"},
        **{"moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8},
        **{"n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": True},
        **{"num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61},
        **{"num_key_value_heads": 128, "num_nextn_predict_layers": 1, "pretraining_tp": 1},
        **{"q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64},
        **{"quantization_config": {"quant_method": "fp8"}, "rms_norm_eps": 1e-6},
        **{"rope_scaling": {"type": "yarn"}, "rope_theta": 10000, "routed_scaling_factor": 2.5},
        **{"scoring_func": "sigmoid", "seq_aux": True, "tie_word_embeddings": False},
        **{"topk_group": 4, "topk_method": "noaux_tc", "torch_dtype": "bfloat16"},
        **{"use_cache": True, "v_head_dim": 128, "vocab_size": 129280},
    },
    # The language model of one that also sees; most of it is left to the family.
    "gemma-3-4b": {
        **{"architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999},
        **{"image_token_index": 262144, "mm_tokens_per_image": 256, "model_type": "gemma3"},
        "text_config": {
            **{"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text"},
            **{"num_hidden_layers": 34, "sliding_window": 1024},
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        },
        **{"vision_config": {"hidden_size": 1152}, "torch_dtype": "bfloat16"},
    },
    "llama-4-maverick": {
        **{"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4"},
        "text_config": {
            **{"_attn_implementation_autoset": True, "attention_bias": False, "head_dim": 128},
            **{"attention_chunk_size": 8192, "for_llm_compressor": False, "hidden_size": 5120},
            **{"interleave_moe_layer_step": 2, "intermediate_size": 8192, "vocab_size": 202048},
            **{"intermediate_size_mlp": 16384, "max_position_embeddings": 1048576},
            **{"model_type": "llama4_text", "no_rope_layers": [1, 1, 1, 0] * 12},
            **{"num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48},
            **{"num_key_value_heads": 8, "num_local_experts": 128, "output_router_logits": False},
            **{"rms_norm_eps": 1e-5, "rope_theta": 5e5, "router_aux_loss_coef": 0.001},
            **{"router_jitter_noise": 0.0, "use_qk_norm": False, "attn_temperature_tuning": True},
        },
        **{"tie_word_embeddings": False, "vision_config": {"hidden_size": 1408}},
    },
    "gpt2": {
        **{"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"]},
        **{"attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256},
        **{"initializer_range": 0.02, "layer_norm_epsilon": 1e-5, "model_type": "gpt2"},
        **{"n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024},
        **{"resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1},
        **{"summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True},
        **{"task_specific_params": {"text-generation": {}}, "vocab_size": 50257},
    },
}


COMPLETE["qwen2.5-7b"] = {  # the language model of Qwen2.5-VL, in the flat form of its file
    **{"model_type": "qwen2_5_vl", "hidden_size": 3584, "intermediate_size": 18944},
    **{"num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4},
    **{"vocab_size": 152064, "max_position_embeddings": 131072, "use_sliding_window": False},
    **{"max_window_layers": 28, "sliding_window": 32768, "tie_word_embeddings": False},
    **{"vision_config": {"depth": 32}, "vision_start_token_id": 151652, "image_token_id": 151655},
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
}


@pytest.mark.parametrize("name", COMPLETE)
def test_a_complete_config_file_is_understood(tmp_path, name):
    assert written(tmp_path, COMPLETE[name]) == resolve_model(name)


@pytest.mark.parametrize(
    ("mentioned", "window"), [({}, 4096), ({"sliding_window": None}, None)], ids=["not", "null"]
)
def test_a_window_that_is_not_mentioned_is_the_familys(tmp_path, mentioned, window):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | {"model_type": "mistral"} | mentioned))
    assert resolve_model(str(path)).sliding_window == window


def test_layers_may_be_named_one_by_one(tmp_path):
    kinds = (["sliding_attention"] * 3 + ["full_attention"]) * 8
    fields = {"model_type": "olmo3", "layer_types": kinds, "sliding_window": 4096}
    model = written(tmp_path, COMPLETE_OLMO | fields)
    assert model == resolve_model("olmo-3-7b")
    assert model.sliding_layers == 24


COMPLETE_OLMO = {
    **{"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32},
    **{"intermediate_size": 11008, "vocab_size": 100278, "max_position_embeddings": 65536},
}


def test_names_are_taken_in_any_case():
    assert resolve_model("OPT-125M") == resolve_model("opt-125m")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"model_type": None}, "model_type is missing"),
        ({"num_hidden_layers": -3}, "num_hidden_layers must be a positive number, not -3"),
        ({"num_hidden_layers": True}, "num_hidden_layers must be a positive number, not True"),
        ({"vocab_size": "many"}, "vocab_size must be a positive number, not 'many'"),
        ({"vocab_size": [[[[]]]]}, r"vocab_size must be a positive number, not \[\[\[\[\]\]\]\]"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings must be true or false, not 'no'"),
        ({"num_hidden_layers": 10**30}, "num_hidden_layers must be 1..4096, not 1000"),
        ({"num_key_value_heads": 7}, "24 heads cannot share 7 key-value heads"),
        ({"head_dim": 127}, "head_dim must be even for rotary positions, not 127"),
        ({"head_dim": None, "hidden_size": 3071}, "24 heads do not divide hidden_size 3071"),
        ({"intermediate_size": 1 << 40}, "intermediate_size must be 1..16777216, not 10995116"),
        # Fields of other families, or of none that is known.
        ({"num_local_experts": 8}, "field num_local_experts is not understood in a model of type"),
        ({"sliding_window": 4096}, "field sliding_window is not understood"),
        ({"word_embed_proj_dim": "big"}, "field word_embed_proj_dim is not understood"),
        ({"kv_sharing": 2}, "field kv_sharing is not understood"),
        ({"model_type": "mistral", "sliding_window": "far"}, "sliding_window must be a number, 0"),
        ({"model_type": "mistral", "layer_types": "full"}, "layer_types must be a list of words"),
        ({"model_type": "mistral", "layer_types": ["full_attention"]}, "1 entries for 28 layers"),
        (
            {"model_type": "mistral", "layer_types": ["linear_attention"] * 28},
            "layer_types 'linear_attention' is not understood",
        ),
        ({"model_type": "mixtral"}, "num_local_experts is missing"),
        (
            {"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 4},
            "a token cannot use 4 of 2 experts",
        ),
        ({"model_type": "gemma2", "attention_bias": True}, "attention_bias True is not understood"),
        ({"model_type": "opt", "ffn_dim": 1, "word_embed_proj_dim": "big"}, "must be a positive"),
        ({"model_type": "opt", "ffn_dim": 1, "word_embed_proj_dim": 0}, "must be a positive"),
        ({"model_type": ["llama"]}, r"unknown model_type \['llama'\]; known: cohere, cohere2, "),
        ({"model_type": "xyz"}, "unknown model_type 'xyz'; known: cohere, cohere2, deepseek_v2"),
        (
            DELTA | {"layer_types": ["linear_attention"] * 5},
            "must name each layer linear_attention",
        ),
        (DELTA | {"linear_num_key_heads": 0}, "linear_num_key_heads must be a positive number"),
        ({"model_type": "kimi_linear"}, "linear attention of model_type kimi_linear"),
        ({"model_type": "mamba"}, "state-space layers of model_type mamba are not modelled"),
    ],
)
def test_a_malformed_config_is_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=message) as refusal:
        written(tmp_path, CONFIG | change)
    assert str(refusal.value).startswith(str(tmp_path))
    assert "\n" not in str(refusal.value)


WRONG = (None, "x", -1, 0, 1.5, True, [], {"a": {}}, ["x"], [1, "a"], 10**30, float("nan"))


@pytest.mark.parametrize("family", FAMILIES)
def test_any_value_of_any_field_is_understood_or_refused_in_one_line(family):
    """No other error, no traceback, and no loop over as many layers as a typing error asks for."""
    name = next(n for n in model_names() if resolve_model(n).model_type == family)
    config = table()[name]
    fields = {field for entry in table().values() for field in entry}
    for field in sorted(fields | {"layer_types", "mlp_only_layers", "no_rope_layers"}):
        for value in WRONG:
            try:
                assert shape_of("m", config | {field: value}).parameters > 0
            except ValueError as refusal:
                assert str(refusal).startswith("m: ")
                assert "\n" not in str(refusal)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "is not JSON"),
        ('{"model_type":' * 100_000, "is not JSON"),
        ('{"vocab_size": ' + "9" * 5000 + "}", "is not JSON"),
        ("{", "is not JSON"),
        ("[1]", "it holds a list"),
        ("\xff", "is not JSON"),
    ],
)
def test_a_file_that_is_no_config_is_refused(tmp_path, text, message):
    path = tmp_path / "config.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=message):
        resolve_model(str(path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("opt-13", r"^unknown model 'opt-13'; did you mean opt-13b\?"),
        ("mixtral", r"^unknown model 'mixtral'; did you mean mixtral-8x7b or mixtral-8x22b"),
        ("mpt-7b", r"^unknown model 'mpt-7b'; see tilewright list models"),
        ("llava", r"^unknown model 'llava'; see tilewright list models"),
        ("gnr", r"^unknown model 'gnr'; see tilewright list models \(or the path of a config.json"),
        ("", r"^unknown model ''; see tilewright list models"),
    ],
)
def test_an_unknown_model_names_its_neighbours(name, message):
    with pytest.raises(ValueError, match=message):
        resolve_model(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, "^model_type must be one of cohere, .*, not 'bert'$"),
        ({"sliding_layers": 1}, "^sliding_layers must be 0..0, not 1$"),
        ({"sliding_window": 8, "sliding_layers": 3}, "^sliding_layers must be 0..2, not 3$"),
        ({"query_norm": "all"}, "^query_norm must be one of .*, not 'all'$"),
        (
            {"experts": Experts(layers=3, count=4, per_token=1, width=8)},
            "^layers with experts must be 0..2, not 3$",
        ),
    ],
)
def test_a_shape_refuses_what_cannot_be(change, message):
    sizes = dict.fromkeys(("hidden_size", "intermediate_size", "vocab_size", "head_dim"), 8)
    sizes |= dict.fromkeys(("num_hidden_layers", "num_attention_heads", "num_key_value_heads"), 2)
    with pytest.raises(ValueError, match=message):
        LlmShape(**({"model_type": "llama", "max_position_embeddings": 16} | sizes | change))


def test_latent_attention_refuses_an_empty_part():
    with pytest.raises(ValueError, match=r"^rotary_dim must be 1..16777216, not 0$"):
        LatentAttention(kv_rank=1, query_rank=None, plain_dim=1, rotary_dim=0, value_dim=1)


def test_the_model_with_weights_has_the_name_that_runs_it():
    assert resolve_model("smollm2") == resolve_model("smollm2-135m")
