"""Ends of answers and chat templates, by the files of models."""

import json

import pytest

from tilewright.base.errors import CommandError
from tilewright.golden.llm.model import Chat
from tilewright.golden.llm.start import chat_of_folder, chat_of_gguf
from tilewright.golden.llm.tokenizer import BytePairs
from tilewright.studies.sessions import chat_tokens

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content']"
    " + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LETTERS = [*"abcdefghijklmnopqrstuvwxyzĊĠ<|>_", "<|im_start|>", "<|im_end|>"]
WORDS = BytePairs(LETTERS, [], "gpt-2")
START, END = LETTERS.index("<|im_start|>"), LETTERS.index("<|im_end|>")
CHAT = Chat((END,), CHATML, {"<|im_start|>": START, "<|im_end|>": END})


def spelled(text):
    return [LETTERS.index(letter) for letter in text.replace("\n", "Ċ").replace(" ", "Ġ")]


def test_a_message_is_laid_out_by_the_template():
    found = chat_tokens(CHAT, WORDS, "hi you")
    wanted = [START, *spelled("user\nhi you"), END, *spelled("\n"), START, *spelled("assistant\n")]
    assert found == wanted


def test_names_of_control_tokens_are_control_tokens_only_in_templates():
    assert WORDS.encode("<|im_end|>").tolist() == spelled("<|im_end|>")


@pytest.mark.parametrize(
    ("chat", "message"),
    [
        (Chat(), "no chat template; leave --chat out"),
        (Chat(template="{{ raise_exception('only systems') }}"), "only systems"),
        (Chat(template="{% for %}"), "cannot be used"),
        (Chat(template="{{ ().__class__.__mro__ }}"), "cannot be used"),
    ],
)
def test_refusals(chat, message):
    with pytest.raises(CommandError, match=message):
        chat_tokens(chat, WORDS, "hi")


def test_chat_of_gguf():
    fields = {
        "tokenizer.ggml.tokens": ["a", "<s>", "</s>", "<end>"],
        "tokenizer.ggml.token_type": [1, 3, 3, 4],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.eot_token_id": 3,
        "tokenizer.chat_template": CHATML,
    }
    names = {"bos_token": "<s>", "eos_token": "</s>"}
    assert chat_of_gguf(fields) == Chat((2, 3), CHATML, {"<s>": 1, "</s>": 2, "<end>": 3}, names)
    assert chat_of_gguf({}) == Chat()


def test_chat_of_folder(tmp_path):
    assert chat_of_folder(tmp_path) == Chat()
    added = [{"content": "</s>", "id": 7, "special": True}, {"content": "x", "id": 8}]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    settings = {
        "eos_token": {"content": "</s>"},
        "chat_template": [{"name": "default", "template": "A"}],
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert chat_of_folder(tmp_path) == Chat((7,), "A", {"</s>": 7}, {"eos_token": "</s>"})
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 9]}')
    (tmp_path / "chat_template.jinja").write_text("B")
    assert chat_of_folder(tmp_path) == Chat((7, 9), "B", {"</s>": 7}, {"eos_token": "</s>"})


def test_a_manifest_has_it_back():
    data = json.loads(json.dumps({"ends": [END], "template": CHATML, "control": {}, "names": {}}))
    assert Chat.of(data) == Chat((END,), CHATML) and Chat.of(None) == Chat()
