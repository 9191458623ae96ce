"""The token that begins a sequence: what files say of it, and windows that begin with it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.golden.llm.test_files import llama_folder, write_gguf
from tests.golden.llm.test_tokenizer import TOKENS, bpe_fields, spm_fields
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.model import ModelError
from tilewright.golden.llm.start import Start, begun, start_of_folder, start_of_gguf
from tilewright.golden.llm.tiny import tiny_model

TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [7], "tokens": ["<s>"]}},
}


def test_every_window_begins_with_the_token():
    ids = np.arange(10, 21)
    assert begun(ids, 1, 4).reshape(-1, 4).tolist() == [
        [1, 10, 11, 12],
        [1, 13, 14, 15],
        [1, 16, 17, 18],
    ]
    assert begun(ids, None, 4) is ids
    with pytest.raises(ValueError, match=r"^the text has 11 tokens, fewer than a window of 13$"):
        begun(ids, 1, 13)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"model": "llama", "bos_token_id": 2, "add_bos_token": True}, Start(2, True)),
        ({"model": "llama", "bos_token_id": 2}, Start(2, True)),
        ({"model": "llama", "bos_token_id": 2, "add_bos_token": False}, Start(2, False)),
        ({"model": "llama"}, Start()),
        ({"model": "gpt2", "pre": "smollm", "bos_token_id": 1}, Start(1, False)),
        ({"model": "gpt2", "pre": "llama-bpe", "bos_token_id": 1}, Start(1, True)),
        ({"model": "gpt2", "add_bos_token": True}, Start()),
    ],
)
def test_what_a_file_says(fields, wanted):
    assert start_of_gguf({f"tokenizer.ggml.{k}": v for k, v in fields.items()}) == wanted


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, Start()),
        ({"config": {"bos_token_id": 3}}, Start(3)),
        ({"generation_config": {"bos_token_id": 4}}, Start(4)),
        ({"config": {"bos_token_id": None}, "generation_config": {"bos_token_id": 4}}, Start(4)),
        (
            {"tokenizer": {"post_processor": TEMPLATE}, "config": {"bos_token_id": 3}},
            Start(7, True),
        ),
        (
            {"tokenizer": {"post_processor": {"type": "Sequence", "processors": [{}, TEMPLATE]}}},
            Start(7, True),
        ),
        (
            {
                "tokenizer": {"post_processor": TEMPLATE},
                "tokenizer_config": {"add_bos_token": False},
            },
            Start(7),
        ),
        (
            {
                "tokenizer": {"added_tokens": [{"content": "<b>", "id": 5}]},
                "tokenizer_config": {"add_bos_token": True, "bos_token": {"content": "<b>"}},
            },
            Start(5, True),
        ),
        (
            {
                "tokenizer": {"model": {"vocab": {"<b>": 6}}},
                "tokenizer_config": {"add_bos_token": None, "bos_token": "<b>"},
            },
            Start(6),
        ),
        ({"tokenizer_config": {"add_bos_token": True}}, Start()),
    ],
)
def test_what_a_folder_says(tmp_path, files, wanted):
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    assert start_of_folder(tmp_path) == wanted


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(ModelError, match=r"tokenizer_config\.json is no JSON"):
        start_of_folder(tmp_path)


def test_models_know_what_begins_their_texts(tmp_path):
    def with_start(writer):
        spm_fields(writer)
        writer.add_bos_token_id(9)

    file = write_gguf(tmp_path / "m.gguf", tiny_model(), tokenizer=with_start)
    assert load_model(file).start == 9
    folder = llama_folder(tmp_path / "m")
    assert load_model(folder).start is None
    (folder / "tokenizer_config.json").write_text('{"add_bos_token": true, "bos_token": "the"}')
    vocabulary = {token: k for k, token in enumerate(TOKENS)}
    content = {"model": {"vocab": vocabulary, "merges": []}}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert load_model(folder).start == TOKENS.index("the")


def file_with(path, *, added):
    """A file whose tokenizer adds its first token, or does not."""

    def fields(writer):
        bpe_fields()(writer)
        writer.add_bos_token_id(3)
        writer.add_add_bos_token(added)

    shape = replace(tiny_model().config, vocab_size=len(TOKENS))
    return write_gguf(path, tiny_model(config=shape), tokenizer=fields)
