"""``tilewright search`` and ``tilewright kv`` on a Hugging Face folder, by Transformers."""

import gzip
import json
from importlib.util import find_spec

import pytest

if find_spec("torch") is None or find_spec("transformers") is None:
    pytest.skip("PyTorch or Transformers, optional extras, missing", allow_module_level=True)

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2Config

from tilewright.cli import main
from tilewright.golden.llm.cached_attention import CacheFormat
from tilewright.golden.llm.formats import AndaFormat, BlockSites, HarmoniaFormat
from tilewright.golden.llm.sites import PLAIN, Site
from tilewright.studies.accuracy.folder_subject import config_of
from tilewright.studies.accuracy.models import (
    Choice,
    ModelText,
    interval,
    measure_model,
    measure_tasks,
    read_choices,
)
from tilewright.torch import AndaConfig, Recipe, loglikelihoods, perplexity, quantize_

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A family that the engines of this project do not know: biases at queries, keys, values."""
    path = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    config = Qwen2Config(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=128,
        max_position_embeddings=256,
    )
    model = AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, 0, 0.1)
    model.save_pretrained(path)
    letters = Tokenizer(models.WordLevel({chr(k): k for k in range(128)}, unk_token=chr(127)))
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=letters).save_pretrained(path)
    return path


OPTIONS = ["--device", "cpu", "--tokens", "256", "--window", "128"]


def test_search_gives_a_recipe(folder, tmp_path, capsys):
    recipe, log = tmp_path / "recipe.toml", tmp_path / "log.json"
    command = ["search", str(folder), *OPTIONS, "--weights", "nearest", "--tolerance", "0.05"]
    command += ["--iterations", "4", "--recipe", str(recipe), "--log", str(log), "--json"]
    code = main(command)
    result = json.loads(capsys.readouterr().out)
    assert result["subject"]["weights"].startswith("int4")
    assert code == 0 and 1 <= len(result["search"]["trials"]) <= 4
    found = Recipe.load(recipe)
    lengths = result["search"]["best"]["lengths"]
    assert found.config == AndaConfig(*lengths, pad=True)
    quantize_(AutoModelForCausalLM.from_pretrained(folder), found)
    # Again, with nothing left to measure: the log has it all.
    before = log.read_text()
    assert main(command) == code
    assert log.read_text() == before
    assert json.loads(capsys.readouterr().out) == result


def test_kv_on_a_folder(folder, capsys):
    command = ["kv", str(folder), *OPTIONS, "--weights", "file", "--lengths", "2", "--json"]
    assert main(command) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["variants"]}
    assert not any("factors" in name for name in rows)
    assert rows["4 bits"]["cache_bytes"] < rows["8 bits"]["cache_bytes"]
    assert rows["8 bits"]["perplexity"] == pytest.approx(
        rows["full precision"]["perplexity"], rel=0.02
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--weights", "search"], "give --weights nearest or --weights file"),
        (["--weights", "file", "--engine", "numpy"], "--device goes with neither --engine nor"),
        (["--weights", "file", "--device", "tpu"], "--device must be cpu or cuda, not 'tpu'"),
    ],
)
def test_refusals(folder, options, text, capsys):
    assert main(["search", str(folder), *OPTIONS, *options]) == 2
    assert text in capsys.readouterr().err


def test_a_recipe_needs_a_device(capsys):
    assert main(["search", "tiny-llama", "--recipe", "x.toml"]) == 2
    assert "--recipe needs --device" in capsys.readouterr().err


def test_formats_of_the_engine_have_a_configuration():
    assert config_of(PLAIN) is None
    anda = config_of(AndaFormat((7, 6, 5, 4)))
    assert (anda.qkv, anda.o, anda.u, anda.d, anda.weight_bits) == (7, 6, 5, 4, None)
    cache = CacheFormat(initial=64, key_bits=(8, 3))
    assert config_of(HarmoniaFormat(cache=cache)).cache == cache
    with pytest.raises(ValueError, match="no form of BlockSites"):
        config_of(BlockSites({Site.Q: 8}, 32))


def test_likelihoods_are_those_of_the_logits(folder):
    model = AutoModelForCausalLM.from_pretrained(folder).eval()

    def encode(text):
        return [ord(c) for c in text]

    context, continuation = "Where is it?", " Here"
    (found,) = loglikelihoods(model, encode, [(context, continuation)])
    ids = torch.tensor([encode(context + continuation)])
    with torch.no_grad():
        logs = model(ids).logits[0].log_softmax(-1)
    first = len(context) - 1
    wanted = sum(logs[first + k, ids[0, first + 1 + k]] for k in range(len(continuation)))
    assert found.logprob == pytest.approx(float(wanted), rel=1e-5)
    assert found.tokens == len(continuation)
    mean = perplexity(model, ids[0], ids.shape[1])
    each = logs[:-1].gather(1, ids[0, 1:, None])
    assert mean == pytest.approx(float((-each.mean()).exp()), rel=1e-5)
    with pytest.raises(ValueError, match="request 0: the continuation '' has no token"):
        loglikelihoods(model, encode, [("a", "")])


@pytest.fixture
def toy_tasks(tmp_path):
    path = tmp_path / "toy" / "rc_0shot" / "requests.jsonl.gz"
    path.parent.mkdir(parents=True)
    with gzip.open(path, "wt") as file:
        for doc in range(3):
            for choice in ("a", "b"):
                request = {"context": f"Q{doc}", "continuation": f" {choice}"}
                file.write(json.dumps({"doc_id": doc, "label": 1, "request": request}) + "\n")
    return tmp_path


def test_choices_and_intervals(toy_tasks):
    found = read_choices(toy_tasks, "toy", 2)
    assert found[1] == Choice(("Q1", "Q1"), (" a", " b"), 1) and len(found) == 2
    low, high = interval(10, 20)  # Wilson's formula, by hand
    assert (round(low, 4), round(high, 4)) == (0.2993, 0.7007)


def test_a_model_in_every_format(folder, toy_tasks):
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    subject = ModelText(model, lambda text: [ord(c) for c in text], 1, "", 0, 0)
    formats = ["plain", "Anda 6/6/6/6", "Harmonia, windows, offsets"]
    found = measure_model(subject, "Some text. " * 20, tokens=128, window=64, formats=formats)
    rows = {row["format"]: row for row in found["perplexities"]}
    assert list(rows) == formats and found["tokens"] == 128
    assert rows["plain"]["change"] == 0 != rows["Anda 6/6/6/6"]["change"]
    floor = {row["format"]: row["change"] for row in found["noise_floor"]}
    assert floor["plain"] < 1e-4 and floor["Anda 6/6/6/6"] < 0.05
    answers = measure_tasks(subject, toy_tasks, count=3, tasks=["toy"], formats=formats[:2])
    assert [(row["task"], row["format"]) for row in answers] == [("toy", f) for f in formats[:2]]
    assert all(row["low"] <= row["accuracy"] <= row["high"] for row in answers)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
