"""Models of the table against published counts; config.json as others write it."""

import json

import pytest

from tilewright.sim.models import model_names, published_parameters, resolve_model

NAMES = (
    *("opt-125m", "opt-350m", "opt-1.3b", "opt-2.7b", "opt-6.7b", "opt-13b", "opt-30b", "opt-66b"),
    *("llama-7b", "llama-13b", "llama-30b", "llama-2-7b", "llama-2-13b", "llama-2-70b"),
    *("llama-3-8b", "llama-3.1-8b", "llama-3.2-1b", "llama-3.2-3b", "mistral-7b"),
)

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


def test_the_table_has_every_model():
    assert model_names() == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_the_published_ones(name):
    ours, published = resolve_model(name).parameters, published_parameters(name)
    if name == "opt-66b":  # published to three digits
        assert round(ours, -8) == published
    else:
        assert ours == published


def test_grouped_queries_share_keys():
    model = resolve_model("llama-2-70b")
    assert (model.query_width, model.kv_width) == (8192, 1024)
    # 80 layers, keys and values, 1024 wide: 163840 elements a token.
    assert model.kv_elements(3) == 3 * 163840


def test_a_config_file_gives_the_same_model_as_the_table(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    assert resolve_model(str(path)).parameters == published_parameters("llama-3.2-3b")


def test_names_are_taken_in_any_case():
    assert resolve_model("OPT-125M") == resolve_model("opt-125m")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"num_hidden_layers": -3}, "num_hidden_layers must be a positive number, not -3"),
        ({"vocab_size": "many"}, "vocab_size must be a positive number, not 'many'"),
        ({"model_type": "xyz"}, "unknown model_type 'xyz'; known: opt, llama, mistral"),
        ({"num_key_value_heads": 7}, "24 heads cannot share 7 key-value heads"),
        ({"head_dim": 127}, "head_dim must be even for rotary positions, not 127"),
        (
            {"word_embed_proj_dim": "big"},
            "word_embed_proj_dim must be a positive number",
        ),
        ({"head_dim": None, "hidden_size": 3071}, "24 heads do not divide hidden_size 3071"),
        (
            {"intermediate_size": 1 << 40},
            "intermediate_size must be 1..16777216, not 10995116",
        ),
    ],
)
def test_a_malformed_config_is_refused(tmp_path, change, message):
    path = tmp_path / "config.json"
    merged = {key: value for key, value in (CONFIG | change).items() if value is not None}
    path.write_text(json.dumps(merged))
    with pytest.raises(ValueError, match=message):
        resolve_model(str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "is not JSON"),
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


def test_an_unknown_model_names_its_neighbours():
    with pytest.raises(ValueError, match=r"^unknown model 'opt-13'; did you mean opt-13b or"):
        resolve_model("opt-13")
