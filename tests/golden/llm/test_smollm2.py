"""The real model, where it is installed, against a record of llama.cpp (tests/support)."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.naive_llm import perplexity
from tests.support.smollm2 import smollm2_or_skip
from tilewright.golden.llm.engine import Session
from tilewright.golden.llm.formats import truncate
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.sites import Format

pytestmark = pytest.mark.full
RECORD = json.loads(Path(__file__).with_name("llama_cpp.json").read_text())


@pytest.fixture(scope="module")
def model():
    path = smollm2_or_skip()
    assert sha256(path.read_bytes()).hexdigest() == RECORD["sha256"]
    return load_model(path)


def test_tokens_are_llama_cpps(model):
    text = model.tokenizer.decode(RECORD["tokens"])
    assert model.tokenizer.encode(text).tolist() == RECORD["tokens"]
    for sample in RECORD["samples"]:
        assert model.tokenizer.encode(sample["text"]).tolist() == sample["tokens"]


def test_perplexity_is_llama_cpps(model):
    got = perplexity(model, RECORD["tokens"], window=RECORD["window"])
    # llama.cpp rounds activations to 8 bits beside quantised weights, and not beside float32.
    assert got == pytest.approx(RECORD["as_it_is"]["perplexity"], rel=5e-3)
    assert got == pytest.approx(RECORD["as_float32"]["perplexity"], rel=1e-4)


class EightBits(Format):
    """Block floating point of 8 mantissa bits everywhere."""

    def activation(self, site, layer, values):
        return truncate(values, 32, 8)


def test_formats_cost_what_is_expected_of_them(model):
    tokens = RECORD["tokens"][:512]
    plain = perplexity(model, tokens, window=512)
    short = perplexity(model, tokens, EightBits(), window=512)
    assert short != plain
    assert short == pytest.approx(plain, rel=0.05)


def test_the_model_answers(model):
    session, ids = Session(model), model.tokenizer.encode("The capital of France is")
    answer = []
    for _ in range(2):
        answer.append(int(session.feed(ids)[-1].argmax()))
        ids = answer[-1:]
    assert model.tokenizer.decode(answer) == " Paris."
