"""``tilewright search`` and ``tilewright kv`` on a Hugging Face folder, by Transformers."""

import gzip
import json
import re
from dataclasses import replace
from importlib.util import find_spec
from shutil import copy, copytree, ignore_patterns

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

from tests.support.naive_llm import perplexity as golden_perplexity
from tests.support.transformers_models import SHAPE, random_model
from tilewright.cli import main
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.tiny import tiny_model
from tilewright.studies.accuracy import subject as subjects
from tilewright.studies.accuracy import tasks
from tilewright.studies.accuracy.anda import in_linears
from tilewright.studies.accuracy.harmonia import WHOLE, learned
from tilewright.studies.accuracy.subject import open_subject
from tilewright.studies.accuracy.tasks import (
    FORMATS,
    Question,
    measure_model,
    measure_tasks,
    read_task,
)
from tilewright.torch import (
    AndaConfig,
    DecaConfig,
    HarmoniaConfig,
    ModuleError,
    Recipe,
    loglikelihoods,
    perplexity,
    quantize_,
)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Biases at queries, keys and values; a token is a letter."""
    return write_model(tmp_path_factory.mktemp("model"), 64)


def write_model(path, width):
    more = {"hidden_size": width, "vocab_size": 128, "bos_token_id": None, "pad_token_id": None}
    random_model(Qwen2Config(**SHAPE | more)).save_pretrained(path)
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


@pytest.mark.parametrize("weights", ["file", "nearest"])
def test_kv_on_a_folder(folder, weights, tmp_path, capsys):
    recipe, log = tmp_path / "recipe.toml", tmp_path / "log.json"
    command = ["kv", str(folder), *OPTIONS, "--weights", weights, "--lengths", "2", "--json"]
    command += ["--steps", "2", "--recipe", str(recipe), "--tolerance", "0.5", "--log", str(log)]
    assert main(command) == 0
    out, remarks = capsys.readouterr()
    rows = {row["name"]: row for row in json.loads(out)["variants"]}
    assert rows["4 bits"]["cache_bytes"] < rows["8 bits"]["cache_bytes"]
    plain = rows["full precision"]["perplexity"]
    assert rows["8 bits"]["perplexity"] == pytest.approx(plain, rel=0.02)
    # The recipe has the smallest one within the tolerance, and is of the folder's own weights.
    whole = [row for name, row in rows.items() if "windows, offsets" in name]  # as in hardware
    kept = [row for row in whole if row["perplexity"] <= 1.5 * plain]
    best = min(kept, key=lambda row: (row["cache_bytes"], row["perplexity"]))
    assert f"recipe.toml has {best['name']}" in remarks
    found = Recipe.load(recipe)
    assert found.config.weight_bits == (4 if weights == "nearest" else None)
    assert bool(found.smoothing) == ("factors" in best["name"])
    quantize_(AutoModelForCausalLM.from_pretrained(folder), found)
    before = log.read_text()
    assert main(command) == 0  # again, with nothing left to measure
    assert log.read_text() == before and capsys.readouterr().out == out


def test_factors_of_a_folder_are_those_of_its_model(folder, tmp_path, capsys):
    """A row with factors is what the recipe gives on the same text."""
    recipe = tmp_path / "recipe.json"
    command = ["kv", str(folder), *OPTIONS, "--weights", "file", "--lengths", "--json"]
    assert main([*command, "--steps", "3", "--recipe", str(recipe), "--tolerance", "9"]) == 2
    capsys.readouterr()
    subject = open_subject(str(folder), tokens=256, window=128, weights="file")
    factors = {name: layer.factors for name, layer in learned(subject, steps=3).items()}
    subject.recipe(WHOLE, factors).save(recipe)
    wanted = subject.measure("x", WHOLE, validation=True, factors=lambda: factors)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    quantize_(model, Recipe.load(recipe))
    assert perplexity(model, subject.validation.reshape(-1), 128) == wanted
    assert wanted != subject.measure("y", WHOLE, validation=True)


def test_from_the_study_of_a_cache_to_programs(tmp_path, capsys):
    """The recipe that ``kv`` writes is what ``compile`` takes, with no word between them."""
    folder, recipe = write_model(tmp_path / "m", 256), tmp_path / "cache.toml"
    command = ["kv", str(folder), *OPTIONS, "--weights", "nearest", "--lengths", "--steps", "2"]
    assert main([*command, "--recipe", str(recipe), "--tolerance", "1"]) == 0
    config = Recipe.load(recipe).config
    source = copytree(folder, tmp_path / "bare", ignore=ignore_patterns("token*"))
    words = ["compile", str(source), "--context", "64", "--recipe", str(recipe), "--json"]
    capsys.readouterr()
    assert main([*words, "-o", str(tmp_path / "out")]) == 0
    made = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert json.loads(capsys.readouterr().out)["weight_bits"] == config.weight_bits == 4
    assert (made["scale_group"], config.weight_group) == (128, 128)
    assert f"local={config.local}" in made["target"] or config.local == HarmoniaConfig().local


@pytest.mark.skipif(find_spec("gguf") is None, reason="pip install gguf")
def test_a_gguf_file(tmp_path, capsys):
    """The perplexity of the numpy engine; a recipe of the file's own modules."""
    from tests.golden.llm.test_files import write_gguf
    from tests.golden.llm.test_tokenizer import TOKENS, bpe_fields

    shape = replace(tiny_model().config, vocab_size=len(TOKENS))
    model = tiny_model(config=shape)
    file = write_gguf(tmp_path / "m.gguf", model, tokenizer=bpe_fields())
    command = ["search", str(file), "--tokens", "64", "--window", "64", "--weights", "file"]
    command += ["--iterations", "1", "--tolerance", "1", "--json"]
    recipe = tmp_path / "recipe.toml"
    assert main([*command, "--recipe", str(recipe)]) == 0
    found = json.loads(capsys.readouterr().out)
    subject = open_subject(str(file), tokens=64, window=64, weights="file")
    ours = golden_perplexity(load_model(file), subject.calibration.reshape(-1), window=64)
    assert found["search"]["reference"] == pytest.approx(ours, rel=1e-4)
    assert found["subject"]["model"] == "m"
    assert len(Recipe.load(recipe).modules) == 7 * shape.num_hidden_layers

    strange = write_gguf(tmp_path / "s.gguf", tiny_model(), tokenizer=bpe_fields())
    assert main(["search", str(strange), *OPTIONS, "--weights", "file"]) == 2
    refusal = capsys.readouterr().err.splitlines()[-1]
    assert refusal.startswith(f"tilewright: {strange}: ")
    # Transformers 5.23 refuses the sizes itself, before this project sees them; 5.17 did not.
    assert re.search(r"cannot read it: .*mismatched_sizes|do not belong together$", refusal)


@pytest.mark.skipif(find_spec("accelerate") is None, reason="pip install accelerate")
@pytest.mark.parametrize("weights", ["file", "nearest"])
def test_a_model_that_comes_layer_by_layer(folder, weights, monkeypatch):
    """Weights that ``accelerate`` brings for each call: the same numbers, formats and factors."""
    from accelerate import cpu_offload

    options = {"tokens": 128, "window": 64, "weights": weights}
    here = open_subject(str(folder), **options)
    read = subjects.read_model

    def spread(*arguments):
        model = read(*arguments)
        cpu_offload(model, torch.device("cpu"))
        assert all(parameter.is_meta for parameter in model.parameters())
        return model

    monkeypatch.setattr(subjects, "read_model", spread)
    there = open_subject(str(folder), **options)
    assert there.identity == here.identity
    for name, fmt in (("plain", None), ("a", in_linears((4, 4, 4, 4))), ("h", WHOLE)):
        wanted = here.measure(name, fmt)
        assert there.measure(name, fmt) == wanted, name
        assert (wanted != here.measure("plain", None)) == (name != "plain")
    learnt, again = (learned(subject, steps=2) for subject in (here, there))
    assert learnt == again
    factors = {name: layer.factors for name, layer in learnt.items()}
    smooth = [subject.measure("s", WHOLE, factors=lambda: factors) for subject in (here, there)]
    assert smooth[0] == smooth[1] != here.measure("h", WHOLE)
    assert there.measure("again", None) == here.measure("plain", None)  # nothing stays
    with pytest.raises(ModuleError, match="accelerate keeps the weights elsewhere: bake=False"):
        quantize_(there.model, AndaConfig(7, 6, 7, 7, pad=True), bake=True)
    scheme = DecaConfig("mxfp4")
    results = []
    for subject in (here, there):
        quantize_(subject.model, scheme)
        results.append(perplexity(subject.model, list(range(64)), 64))
    assert results[0] == results[1]


def test_gemma_has_no_factors(tmp_path, folder, capsys):
    torch.manual_seed(0)
    config = Gemma3TextConfig(
        **{"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 32},
        **{"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 128},
        **{"max_position_embeddings": 256, "sliding_window": 64},
    )
    Gemma3ForCausalLM(config).save_pretrained(tmp_path)
    for file in folder.glob("token*"):
        copy(file, tmp_path)
    command = [str(tmp_path), *OPTIONS, "--weights", "file", "--json"]
    assert main(["kv", *command, "--lengths"]) == 0
    out, remarks = capsys.readouterr()
    assert "no factors pass the norms of queries and keys" in remarks
    rows = json.loads(out)["variants"]
    assert rows[0]["cache_bytes"] == 2 * (2 * 32) * 2 * 64  # both layers keep a window of 64 tokens
    names = [row["name"] for row in rows]
    assert "4 bits, windows, offsets" in names and not any("factors" in name for name in names)
    assert main(["search", *command, "--iterations", "2", "--tolerance", "0.5"]) == 0


def test_what_is_neither_a_folder_nor_a_file(tmp_path, capsys):
    assert main(["search", str(tmp_path / "none"), *OPTIONS, "--weights", "file"]) == 2
    assert "or the path of a GGUF file or of a Hugging Face folder" in capsys.readouterr().err
    (tmp_path / "x.gguf").write_bytes(b"no GGUF")
    assert main(["search", str(tmp_path / "x.gguf"), *OPTIONS, "--weights", "file"]) == 2
    assert "x.gguf: Transformers cannot read it" in capsys.readouterr().err


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


@pytest.mark.parametrize("name", ["plain", "Anda 6/6/6/6", "Harmonia, windows, offsets"])
def test_requests_of_several_lengths_go_through_a_model_together(folder, name):
    """Padding of the shorter ones changes nothing: likelihoods are those of each one alone."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    if FORMATS[name] is not None:
        quantize_(model, FORMATS[name])
    words = "It was a dark night. " * 8
    pairs = [(words[:size], " ab"[: 2 + size % 2]) for size in (150, 3, 40, 9, 41)]
    sizes = []

    def encode(text):
        return [ord(c) for c in text]

    alone = loglikelihoods(model, encode, pairs, first=1)
    together = loglikelihoods(model, encode, pairs, first=1, together=100, progress=sizes.append)
    assert sizes == [2, 4, 5]
    assert [each.tokens for each in together] == [each.tokens for each in alone]
    for one, other in zip(alone, together, strict=True):
        assert one.logprob == pytest.approx(other.logprob, rel=1e-3)


@pytest.fixture
def toy_tasks(tmp_path, monkeypatch):
    """A task with choices, beyond which requests without the question follow, and one without."""

    def write(name, metric, requests, beyond=None):
        place = tmp_path / name / "rc_0shot"
        place.mkdir(parents=True)
        settings = {"primary_metric": metric, "metric_kwargs": {"uncond_docid_offset": beyond}}
        (place / "config.json").write_text(json.dumps({"task_config": settings}))
        with gzip.open(place / "requests.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(request) + "\n" for request in requests)

    def request(doc, choice, **more):
        return {"doc_id": doc, "request": {"context": f"Q{doc}", "continuation": choice}, **more}

    choices = [request(doc, c, label=1) for doc in (0, 1, 2, 100, 101) for c in (" a", " bcd")]
    write("toy", "acc_per_char", choices, beyond=100)
    write("last", "logits_per_byte", [request(doc, " e", label=None) for doc in range(4)])
    monkeypatch.setattr(tasks, "TASKS", {"toy": "rc_0shot", "last": "rc_0shot"})
    return tmp_path


def test_questions_of_a_task(toy_tasks):
    found = read_task(toy_tasks, "toy", 9)
    assert found.questions[1] == Question(("Q1", "Q1"), (" a", " bcd"), 1)
    assert (found.score, found.available, len(found.questions)) == ("per character", 3, 3)
    some = read_task(toy_tasks, "toy", 2).questions
    assert len(some) == 2 and set(some) < set(found.questions)
    assert read_task(toy_tasks, "toy", 2).questions == some
    last = read_task(toy_tasks, "last", 9)
    assert (last.score, last.questions[3]) == ("greedy", Question(("Q3",), (" e",), 0))


def test_a_model_in_every_format(folder, toy_tasks, tmp_path):
    subject = open_subject(str(folder), tokens=128, window=64, weights="file", begin=True)
    subject.remember(tmp_path / "log.json")
    before = {name: value.clone() for name, value in subject.model.state_dict().items()}
    formats = ["plain", "Anda 6/6/6/6", "Harmonia, windows, offsets"]
    found = measure_model(subject, formats=formats)
    rows = {row["format"]: row for row in found["perplexities"]}
    assert list(rows) == formats and found["tokens"] == 128
    assert rows["plain"]["change"] == 0 != rows["Anda 6/6/6/6"]["change"]
    floor = {row["format"]: row["change"] for row in found["noise_floor"]}
    assert floor["plain"] < 1e-4 and floor["Anda 6/6/6/6"] < 0.05
    options = {"count": 3, "tasks": ["toy", "last"], "formats": formats[:2], "together": 64}
    answers = measure_tasks(subject, toy_tasks, **options)
    rows = [(row["format"], row["task"]) for row in answers["rows"]]
    assert rows == [(name, task) for task in ("toy", "last") for name in formats[:2]]
    for row in answers["rows"]:
        assert row["low"] <= row["accuracy"] <= row["high"]
        assert row["change_low"] < row["change"] < row["change_high"]
    assert {row["format"] for row in answers["noise"]} == set(formats[:2])
    assert all(torch.equal(x, before[name]) for name, x in subject.model.state_dict().items())
    again = replace(subject, model=None)  # the log has all that is asked for
    again.remember(tmp_path / "log.json")
    again.model = torch.nn.Module()
    again.model.get_input_embeddings = subject.model.get_input_embeddings
    assert measure_model(again, formats=formats) == found
    assert measure_tasks(again, toy_tasks, **options) == answers
