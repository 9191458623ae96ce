"""A model that needs a token before a text gets it, whatever Transformers says of it."""

import json
from dataclasses import replace
from importlib.util import find_spec

import pytest
import torch
import transformers
from tokenizers.processors import TemplateProcessing
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from tests.golden.llm.test_start import file_with
from tests.golden.llm.test_tokenizer import TOKENS
from tests.torch.test_folder import write_model
from tilewright.cli import main
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.start import Start
from tilewright.golden.llm.text import default_text
from tilewright.studies.accuracy.checkpoints import encoding_of
from tilewright.studies.accuracy.harmonia import learned
from tilewright.studies.accuracy.subject import open_subject

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
START = 1
needs_gguf = pytest.mark.skipif(
    find_spec("gguf") is None or find_spec("accelerate") is None,
    reason="pip install gguf accelerate, by which Transformers reads GGUF files",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A token is a letter; the tokenizer puts character 1 before every text."""
    path = write_model(tmp_path_factory.mktemp("model"), 64)
    tokenizer = AutoTokenizer.from_pretrained(path).backend_tokenizer
    name = chr(START)
    tokenizer.post_processor = TemplateProcessing(
        single=f"{name} $A", special_tokens=[(name, START)]
    )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=name).save_pretrained(path)
    return path


def test_what_a_folder_says_is_what_its_tokenizer_does(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.encode("ab") == [START, ord("a"), ord("b")]
    found = encoding_of(folder, AutoTokenizer)
    assert found.start == Start(START, True) and found.encode("ab") == [ord("a"), ord("b")]


def test_searches_begin_every_window_with_it(folder, capsys):
    subject = open_subject(str(folder), tokens=64, window=32, weights="file")
    assert subject.identity.start == START
    text = encoding_of(folder, AutoTokenizer).encode(default_text()[:400])
    wanted = [[START, *text[:31]], [START, *text[31:62]]]
    assert subject.calibration.tolist() == wanted
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        logs = model(torch.tensor(wanted)).logits[:, :-1].log_softmax(-1)
    losses = -logs.gather(-1, torch.tensor(wanted)[:, 1:, None])
    plain = subject.measure("plain", None)
    assert plain == pytest.approx(float(losses.mean().exp()), rel=1e-5)
    assert learned(subject, steps=1)  # on the same windows
    options = ["--device", "cpu", "--tokens", "64", "--window", "32", "--weights", "file"]
    options += ["--iterations", "1", "--tolerance", "1", "--json"]
    assert main(["search", str(folder), *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["subject"]["start"] == START
    assert found["search"]["reference"] == plain


class Wrong:
    """A tokenizer that splits otherwise and knows no start, as versions of Transformers did."""

    bos_token_id = None
    add_bos_token = None

    @classmethod
    def from_pretrained(cls, *_, **__):
        return cls()

    def encode(self, text, **_):
        return [0] * (2 * len(text))


@needs_gguf
@pytest.mark.parametrize("added", [False, True])
def test_a_file_is_read_without_the_tokenizer_of_transformers(tmp_path, monkeypatch, added):
    path = file_with(tmp_path / "m.gguf", added=added)
    monkeypatch.setattr(transformers, "AutoTokenizer", Wrong)
    ours = load_model(path)
    options = {"tokens": 64, "window": 32, "weights": "file"}
    found = open_subject(str(path), **options, begin=True)
    assert found.identity.start == 3  # with which every window of a table begins
    assert found.encode("the  9") == ours.tokenizer.encode("the  9").tolist()
    subject = open_subject(str(path), **options)
    begins = (subject.calibration[:, 0] == 3).all()
    assert bool(begins) == added
    assert subject.identity.start == (3 if added else None)
    words = subject.calibration[0, 1 if added else 0 :].tolist()
    assert words == found.encode(default_text()[:400])[: len(words)]


@needs_gguf
def test_a_splitting_that_is_not_known_here(tmp_path):
    """Transformers then has the words, and the file what begins a sequence."""
    from tests.golden.llm.test_files import write_gguf
    from tests.golden.llm.test_tokenizer import bpe_fields
    from tilewright.golden.llm.tiny import tiny_model

    def fields(writer):
        bpe_fields(pre="falcon")(writer)
        writer.add_bos_token_id(5)
        writer.add_add_bos_token(True)

    shape = replace(tiny_model().config, vocab_size=len(TOKENS))
    path = write_gguf(tmp_path / "m.gguf", tiny_model(config=shape), tokenizer=fields)
    found = encoding_of(path, Wrong)
    assert (found.encode("ab"), found.start) == ([0] * 4, Start(5, True))
