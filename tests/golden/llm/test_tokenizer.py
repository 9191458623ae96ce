"""Tokenizers on vocabularies small enough to check by hand; llama.cpp's answers are a record."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.golden.llm.test_files import llama_folder, write_gguf
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.model import ModelError
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.llm.tokenizer import (
    PATTERNS,
    BytePairs,
    Pieces,
    split,
    tokenizer_data,
    tokenizer_of,
)

BYTES = [chr(k) for k in [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]]
BYTES += [chr(0x100 + k) for k in range(68)]  # bytes that do not print; a space is \u0120
MERGES = [("t", "h"), ("th", "e"), ("\u0120", "the"), ("e", "r"), ("\u0120", "\u0120")]
TOKENS = [*BYTES, *(a + b for a, b in MERGES)]
THE, SPACE_THE, SPACES = (TOKENS.index(t) for t in ("the", "\u0120the", "\u0120\u0120"))


def byte_pairs(splitting="gpt-2"):
    return BytePairs(TOKENS, MERGES, splitting)


@pytest.mark.parametrize(
    ("splitting", "words"),
    [
        ("gpt-2", "We|'re| 12| cats|,| | aren|'t|\n\n| we|?| é|3|x"),
        ("gpt-2", "a| | 12| b"),
        ("smollm", "a|  |1|2| b"),
        ("llama-bpe", "I|'LL| say|:| |123|4|\n\n|now|!"),
        ("qwen2", "I|'LL| say|:| |1|2|3|4|\n\n|now|!"),
    ],
)
def test_words(splitting, words):
    assert list(split(splitting, words.replace("|", ""))) == words.split("|")


@settings(max_examples=30)  # patterns with all letters of Unicode take their time
@given(st.text(), st.sampled_from(sorted(PATTERNS)))
def test_words_are_the_text(text, splitting):
    assert "".join(split(splitting, text)) == text


@given(st.text())
def test_byte_pairs_decode_to_the_text(text):
    tokenizer = byte_pairs()
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_byte_pairs_merge_in_the_order_of_the_merges():
    ids = byte_pairs().encode("the other")
    spelled = [TOKENS[k] for k in ids]
    # "other": th comes first and takes its e; so there is no er, whose merge comes later.
    assert spelled == ["the", "\u0120", "o", "the", "r"]
    assert byte_pairs().encode("a the").tolist() == [TOKENS.index("a"), SPACE_THE]
    assert byte_pairs().encode("").tolist() == []


def test_a_byte_without_a_token_is_named():
    """Byte pairs without the token of a space, pieces without those of bytes."""
    with pytest.raises(ValueError, match=r"^the tokenizer has no token for '\u0120' of this text$"):
        BytePairs(["a", "b"], [], "gpt-2").encode("a b")
    with pytest.raises(ValueError, match=r"^the tokenizer has no token for '<0xC3>' of this text$"):
        Pieces(["a"], {}, space_first=False).encode("a\u00e9")


def test_half_a_character_is_replaced():
    euro = byte_pairs().encode("\u20ac")
    assert len(euro) == 3
    assert byte_pairs().decode(euro[:2]) == "\ufffd"


def test_words_of_llama3_that_are_tokens_need_no_merges():
    tokens, merges = [*TOKENS, "zebra"], MERGES
    assert BytePairs(tokens, merges, "llama-bpe").encode("zebra").tolist() == [len(TOKENS)]
    assert len(BytePairs(tokens, merges, "gpt-2").encode("zebra")) == 5


PIECES = ["<unk>", *(f"<0x{k:02X}>" for k in range(256)), "\u2581", "a", "b", "c"]
SCORES = {"ab": -2.0, "bc": -1.0, "\u2581a": -3.0, "abc": -4.0, "aa": -5.0}
PIECES += list(SCORES)


def pieces(space_first=False):
    return Pieces(PIECES, SCORES, space_first=space_first)


def spelled(tokenizer, text):
    return [PIECES[k] for k in tokenizer.encode(text)]


def test_pieces_merge_the_best_pair_first():
    assert spelled(pieces(), "abc") == ["abc"]  # bc first, then a + bc
    assert spelled(pieces(), "aab") == ["a", "ab"]
    assert spelled(pieces(), "aaa") == ["aa", "a"]  # the leftmost of equal ones
    assert spelled(pieces(), "a ab") == ["a", "\u2581", "ab"]
    assert spelled(pieces(space_first=True), "a") == ["\u2581a"]
    assert pieces(space_first=True).encode("").tolist() == []


def test_characters_without_a_piece_become_bytes():
    assert spelled(pieces(), "b\u20ac") == ["b", "<0xE2>", "<0x82>", "<0xAC>"]


def test_tokens_that_no_merge_makes():
    """The longest at each place, before any merge; what is between them is merged apart."""
    tokens = [*PIECES, "  ", "   ", "\n\n", "bcb"]
    whole = range(len(PIECES), len(tokens))
    tokenizer = Pieces(tokens, SCORES, space_first=False, whole=whole)
    found = {text: [tokens[k] for k in tokenizer.encode(text)] for text in ("a   ab  c", "abcb")}
    assert found == {"a   ab  c": ["a", "   ", "ab", "  ", "c"], "abcb": ["a", "bcb"]}
    assert tokenizer.decode(tokenizer.encode("a    b\n\n\n")) == "a    b\n\n\n"
    assert len(tokenizer.encode("a    b")) == 4  # three spaces, and one that is left
    again = tokenizer_of(json.loads(json.dumps(tokenizer_data(tokenizer))))
    assert again.encode("a   ab  c").tolist() == tokenizer.encode("a   ab  c").tolist()


def test_a_file_says_which_tokens_no_merge_makes(tmp_path):
    def fields(writer):
        spm_fields(writer)
        writer.add_token_types([4 if piece == "aa" else 1 for piece in PIECES])

    path = write_gguf(tmp_path / "m.gguf", tiny_model(), tokenizer=fields)
    assert spelled(load_model(path).tokenizer, "aab") == ["\u2581", "aa", "b"]


@given(st.text(alphabet=st.sampled_from("abc xyz\u20ac\n")))
def test_pieces_decode_to_the_text(text):
    assert pieces().decode(pieces().encode(text)) == text


def bpe_fields(model="gpt2", pre="smollm"):
    def add(writer):
        writer.add_tokenizer_model(model)
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(TOKENS)
        writer.add_token_merges([" ".join(pair) for pair in MERGES])

    return add


def spm_fields(writer):
    writer.add_tokenizer_model("llama")
    writer.add_token_list(PIECES)
    writer.add_token_scores([SCORES.get(p, -100.0) for p in PIECES])
    writer.add_add_space_prefix(True)


def test_tokenizers_of_gguf_files(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", tiny_model(), tokenizer=bpe_fields())
    assert load_model(path).tokenizer.encode("the  9").tolist() == [THE, SPACES, TOKENS.index("9")]
    path = write_gguf(tmp_path / "m.gguf", tiny_model(), tokenizer=spm_fields)
    assert load_model(path).tokenizer.encode("ab").tolist() == [
        PIECES.index("\u2581"),
        PIECES.index("ab"),
    ]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (bpe_fields(model="t5"), r"tokenizer 't5' is not supported; gpt2 and llama are$"),
        (
            bpe_fields(pre="falcon"),
            r"splitting 'falcon' of words is not supported; gpt-2, smollm, llama-bpe, qwen2 are$",
        ),
        (
            lambda writer: writer.add_tokenizer_model("gpt2"),
            r"field tokenizer\.ggml\.tokens is missing$",
        ),
    ],
)
def test_tokenizers_that_are_refused(tmp_path, fields, complaint):
    path = write_gguf(tmp_path / "m.gguf", tiny_model(), tokenizer=fields)
    with pytest.raises(ModelError, match=rf"m\.gguf: {complaint}"):
        load_model(path)


def tokenizer_json(steps, **model):
    vocabulary = {token: k for k, token in enumerate(TOKENS)}
    return {
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [list(m) for m in MERGES], **model},
        "pre_tokenizer": steps,
        "added_tokens": [{"content": "<end>", "id": len(TOKENS) + 1}],
    }


@pytest.mark.parametrize(
    ("steps", "splitting"),
    [
        ({"type": "ByteLevel"}, "gpt-2"),
        ({"pretokenizers": [{"type": "Digits"}, {"type": "ByteLevel"}]}, "smollm"),
        ({"pattern": {"Regex": r"(?i:'s)|\p{N}{1,3}"}}, "llama-bpe"),
    ],
)
def test_tokenizers_of_folders(tmp_path, steps, splitting):
    path = llama_folder(tmp_path / "m")
    (path / "tokenizer.json").write_text(json.dumps(tokenizer_json(steps)))
    tokenizer = load_model(path).tokenizer
    assert tokenizer.tokens[-2:] == ("", "<end>")
    for text in ("the  12 cats", "THE'S other\n\n 1234"):
        assert np.array_equal(tokenizer.encode(text), byte_pairs(splitting).encode(text))


def test_tokenizers_of_folders_in_other_forms(tmp_path):
    path = llama_folder(tmp_path / "m")
    (path / "vocab.json").write_text(json.dumps({token: k for k, token in enumerate(TOKENS)}))
    merges = "\n".join(["#version: 0.2", *(" ".join(pair) for pair in MERGES)])
    (path / "merges.txt").write_text(merges, encoding="utf-8")
    assert load_model(path).tokenizer.encode("a the").tolist() == [TOKENS.index("a"), SPACE_THE]

    content = tokenizer_json(None, byte_fallback=True)
    content["added_tokens"] = []
    content["model"]["vocab"] = {piece: k for k, piece in enumerate(PIECES)}
    ordered = sorted(SCORES, key=SCORES.get, reverse=True)
    pairs = {"ab": "a b", "bc": "b c", "\u2581a": "\u2581 a", "abc": "a bc", "aa": "a a"}
    content["model"]["merges"] = [pairs[piece] for piece in ordered]
    content["normalizer"] = {"normalizers": [{"type": "Prepend", "prepend": "\u2581"}]}
    (path / "tokenizer.json").write_text(json.dumps(content))
    assert np.array_equal(
        load_model(path).tokenizer.encode("abc aa"), pieces(True).encode("abc aa")
    )

    content["model"]["type"] = "Unigram"
    (path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match=r"m: tokenizer 'Unigram' is not supported; BPE is$"):
        load_model(path)
