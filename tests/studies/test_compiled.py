"""A compiled model: its folder, its faults, and runs of it."""

import hashlib
import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.support.smollm2 import smollm2_or_skip
from tilewright.base.errors import CheckError, CommandError
from tilewright.cli import main
from tilewright.golden.harmonia_machine.cycles import program_cycles
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_model.image import enter_tokens
from tilewright.golden.harmonia_model.quantised import quantised_model
from tilewright.golden.harmonia_model.reference import Reference
from tilewright.golden.llm.load import load_model
from tilewright.golden.llm.text import default_text
from tilewright.golden.llm.tokenizer import BytePairs, Pieces
from tilewright.golden.llm.tokenizer_file import tokenizer_data, tokenizer_of
from tilewright.golden.params.harmonia_machine import Counter
from tilewright.golden.params.resolve import resolve
from tilewright.studies.compiled import Runner, Session, compile_model, generate, open_folder
from tilewright.studies.compiled.compiling import Options

SMALL = Options(target="harmonia:small", context=16)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    path = tmp_path_factory.mktemp("compiled") / "tiny"
    compile_model("tiny-llama", path, SMALL)
    return path


@pytest.fixture
def copied(compiled, tmp_path):
    return shutil.copytree(compiled, tmp_path / "copy")


def test_commands(tmp_path, capsys):
    """Compile, then run: the text as it grows, then its cost."""
    folder = str(tmp_path / "tiny")
    words = ["--target", "harmonia:small", "--context", "16", "-o", folder]
    assert main(["compile", "tiny-llama", *words]) == 0
    assert "programs" in capsys.readouterr().out
    assert main(["run", folder, "--prompt", "Hello", "--tokens", "3"]) == 0
    shown = capsys.readouterr().out
    assert main(["run", folder, "--prompt", "Hello", "--tokens", "3", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert shown.startswith(f"Hello{result['text']}\n")
    assert f"{result['prefill']['cycles']:,}" in shown
    kinds = [(p["kind"], p["first"], p["tokens"]) for p in result["programs"]]
    assert kinds == [
        *(("prefill", 0, 4), ("decode", 4, 1), ("head", 4, 1)),
        *(("decode", 5, 1), ("head", 5, 1)),
        *(("decode", 6, 1), ("head", 6, 1)),
    ]
    assert result["decode"]["tokens"] == 2
    assert set(result["decode"]["millijoules"]) == {"compute", "buffers", "memory"}


def test_a_step_is_that_of_the_plain_executor(compiled):
    """State and counters of a program on the golden machine that knows nothing of models."""
    folder = open_folder(compiled)
    params, memory, runner = folder.plan.params, np.array(folder.memory()), Runner(folder)
    runner.feed([1, 2])
    enter_tokens(folder.plan, folder.lines, memory, folder.steps[0, 2][0], 1, 2)
    machine = Machine(params, memory)
    counters = []
    for line in (folder.steps[0, 2][0], folder.heads[0][0]):
        outcome = machine.run_stream(line)
        counts = outcome.counts | program_cycles(params, outcome, runner.latency)
        counters.append({counter.name.lower(): n for counter, n in counts.items()})
    assert counters == [run.counters for run in runner.runs]
    assert np.array_equal(memory, runner.memory)


def test_choices_are_the_engines(compiled):
    """Greedy tokens of a prompt that fills more than a step, against the engine's."""
    folder = open_folder(compiled)
    quantised, _ = quantised_model(load_model("tiny-llama"), folder.plan, group=64)
    prompt = list(b"Hello, w")
    reference = Reference(folder.plan, quantised, len(prompt))
    want, tokens = [], prompt
    for _ in range(3):
        tokens = [int(reference.feed(tokens)[-1].argmax())]
        want += tokens
    assert generate(Runner(folder), prompt, 3).tokens == want


def test_logits_are_those_of_vectors_that_a_host_looks_up(compiled):
    """Bit for bit what they were when a host still put the tokens' vectors into memory."""
    runner, tokens, digest = Runner(open_folder(compiled)), list(b"Hello, w"), hashlib.sha256()
    for _ in range(4):
        logits = runner.feed(tokens)
        digest.update(logits.astype("<f2").tobytes())
        tokens = [int(logits.argmax())]
    assert digest.hexdigest().startswith("ebd2f25a9ed93c6c58ebae0250f2f534")


def test_tokens_beyond_the_vocabulary(compiled):
    """Refused before the first of them enters."""
    runner = Runner(open_folder(compiled))
    for feed in (runner.feed, runner.score):
        for token in (128, -1):
            with pytest.raises(
                CommandError, match=rf"^token {token} is not in the model's vocabulary of 128$"
            ):
                feed([1, token])
    assert not runner.runs and runner.position == 0


def test_the_machine_chooses(compiled):
    """The likeliest token is in memory beside the logits, and is what a run goes on with."""
    folder = open_folder(compiled)
    runner = Runner(folder)
    assert folder.manifest["choice"] == "machine"
    for tokens in ([1, 2, 3], [9], [4]):
        logits = runner.feed(tokens)
        assert runner.choice == logits.argmax()
    runner.memory[folder.lines.choice * folder.plan.params.line_bytes :][:64] = 0xFF  # NaN
    with pytest.raises(CommandError, match=r"^token 5: a logit is NaN or infinite"):
        runner._chosen(0)


def test_layers_and_a_timeline(compiled, tmp_path, capsys):
    """Layers of the last step, and what every unit did in all programs, in microseconds."""
    file = tmp_path / "trace.json"
    words = ["run", str(compiled), "--prompt", "Hi", "--tokens", "2", "--layers"]
    assert main([*words, "--trace", str(file), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    step = result["programs"][-2]
    assert step["kind"] == "decode"
    assert [t["layer"] for t in result["layers"]] == [0, 1]
    for time in result["layers"]:
        assert list(time["by_part"]) == ["projections", "attention", "feed-forward"]
        assert sum(time["by_part"].values()) == time["cycles"]
    total = sum(time["cycles"] for time in result["layers"])
    assert 0.9 * step["counters"]["cycles"] < total < step["counters"]["cycles"]
    events = json.loads(file.read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
    assert set(names.values()) == {"load", "store", "matrix", "vector", "convert"}
    cycles = sum(program["counters"]["cycles"] for program in result["programs"])
    spans = [(e["tid"], e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X"]
    assert max(end for _, _, end in spans) <= cycles / 300
    for tid in names:  # a unit does one thing after the other
        own = sorted((start, end) for unit, start, end in spans if unit == tid)
        assert all(end <= start + 1e-3 for (_, end), (start, _) in pairwise(own))
    assert main(words) == 0
    assert "PROJECTIONS" in capsys.readouterr().out


def test_all_logits_are_those_of_the_last(compiled):
    folder, tokens = open_folder(compiled), [5, 6, 7, 8, 9]
    scores = Runner(folder).score(tokens)
    assert scores.shape == (5, 128)
    assert np.array_equal(scores[-1], Runner(folder).feed(tokens))


def test_sampling_follows_its_seed(compiled):
    folder = open_folder(compiled)
    one, same, other = (
        generate(Runner(folder), [1], 3, temperature=2.0, seed=seed).tokens for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_manifest(compiled):
    folder = open_folder(compiled)
    assert folder.manifest["block"] == resolve("harmonia:small").slug
    names = [tensor["name"] for tensor in folder.manifest["tensors"]]
    assert names[:7] == [
        *("layers.0.attention_norm", "layers.0.feed_norm", "layers.0.qkv", "layers.0.output"),
        *("layers.0.gate", "layers.0.up", "layers.0.down"),
    ]
    assert names[-2:] == ["programs", "state"]
    listing = (compiled / "listing.txt").read_text()
    assert "; a decode step, token 15" in listing
    assert "loop count=2" in listing


# Faults.


def broken(path, message, **options):
    with pytest.raises(CommandError, match=message):
        open_folder(path, **options)


def test_a_corrupted_image(copied):
    image = copied / "image.bin"
    folder = open_folder(copied)
    line = next(t for t in folder.manifest["tensors"] if t["name"] == "layers.1.up")["line"]
    data = bytearray(image.read_bytes())
    data[line * 64 + 5] ^= 1
    image.write_bytes(data)
    broken(copied, r"image\.bin: layers\.1\.up differs from its hash in manifest\.json")


def test_a_corrupted_embedding(copied):
    folder = open_folder(copied)
    line, bank = folder.lines.embedding(127)
    data = bytearray((copied / "image.bin").read_bytes())
    data[line * 64 + 8 * bank] ^= 1
    (copied / "image.bin").write_bytes(data)
    broken(copied, r"image\.bin: embedding differs from its hash in manifest\.json")


def test_an_image_without_embeddings(copied):
    file = copied / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["tensors"] = [t for t in manifest["tensors"] if t["name"] != "embedding"]
    file.write_text(json.dumps(manifest))
    broken(copied, r"image\.bin has no table of embeddings; compile the model again")


def test_a_truncated_image(copied):
    image = copied / "image.bin"
    size = image.stat().st_size
    image.write_bytes(image.read_bytes()[:-64])
    broken(copied, rf"image\.bin has {size - 64} bytes, not {size}: it is cut off")
    image.unlink()
    broken(copied, r"has no image\.bin; compile the model again$")


def test_programs_for_another_size(copied):
    broken(copied, "has programs for harmonia__rows_2.*, not for harmonia;", target="harmonia")


def test_programs_of_another_instruction_set(copied):
    file = copied / "manifest.json"
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps(manifest | {"instruction_set": "older"}))
    broken(copied, "has programs of another instruction set; compile the model again")


def test_no_manifest(tmp_path, copied):
    broken(tmp_path / "none", r"has no manifest\.json")
    (copied / "manifest.json").write_text("{}")
    broken(copied, r"manifest\.json is no manifest")
    for older in (0, 3):
        (copied / "manifest.json").write_text(f'{{"format": {older}, "block": ""}}')
        broken(copied, rf"manifest\.json has format {older}, not 4; compile the model again$")


def test_a_memory_error_and_a_restart(compiled, tmp_path, capsys):
    """An error in the middle of a token: nothing of that token; a restart goes on behind.

    The guide shows this run.
    """
    words = ["run", str(compiled), "--prompt", "Hello", "--tokens", "4"]
    assert main([*words, "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    state = ["--state", str(tmp_path / "state.npz")]
    assert main([*words, *state, "--memory-error", "2"]) == 2
    answer = capsys.readouterr()
    assert answer.out == f"Hello {whole['tokens'][0]} {whole['tokens'][1]}\n"
    assert "token 6: the decode program stopped at instruction" in answer.err
    assert "with error bus; 6 tokens are complete" in answer.err
    guide = (Path(__file__).parents[2] / "docs" / "models-on-harmonia.md").read_text()
    assert answer.err in guide and f"\nHello{whole['text']}\n" in guide
    assert main([*words, *state, "--json"]) == 0
    rest = json.loads(capsys.readouterr().out)
    assert rest["tokens"] == whole["tokens"]
    assert rest["prefill"] is None
    assert rest["programs"] == whole["programs"][-4:]


def test_states_of_others(compiled, tmp_path):
    folder, file = open_folder(compiled), tmp_path / "state.npz"
    Session(folder, "Hi", state=file).generate(1)
    with pytest.raises(CommandError, match="is the state of another prompt"):
        Session(folder, "Ho", state=file)
    other = tmp_path / "other"
    compile_model("tiny-llama", other, Options(target="harmonia:small", context=8))
    with pytest.raises(CommandError, match="is the state of another compiled model"):
        Session(open_folder(other), "Hi", state=file)
    file.write_bytes(b"nothing")
    with pytest.raises(CommandError, match="is no state of a run"):
        Session(folder, "Hi", state=file)


def test_a_prompt_and_three_tokens_on_rtl(compiled):
    """Every program on the Verilog: memory, counters and cycles are golden's, or it is refused."""
    golden = Session(open_folder(compiled), "Hello").generate(3)
    assert Session(open_folder(compiled), "Hello", rtl=True).generate(3) == golden
    kinds = [run.kind for run in golden.programs]
    assert kinds == ["prefill", "decode", "head", "decode", "head", "decode", "head"]
    assert open_folder(compiled).plan.config.num_hidden_layers == 2


def test_what_differs_on_rtl_is_named(compiled, monkeypatch):
    def wrong(block, program, memory, latency, simulation, line):
        counters = dict.fromkeys((c.name.lower() for c in Counter), 0)
        return memory, {
            "status": {"error": "none", "instruction": 0},
            "saturated": False,
            "counters": counters,
            "cycles": 0,
            "seconds": 0.0,
        }

    monkeypatch.setattr("tilewright.studies.compiled.on_rtl.simulate_program", wrong)
    with pytest.raises(CheckError, match=r"^token 0, decode: memory differs.*; cycles is 0, gold"):
        Session(open_folder(compiled), "A", rtl=True).generate(1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--prompt", ""], "--prompt is empty"),
        (["--prompt", "é"], "its prompt has bytes below 128"),
        (["--prompt", "a", "--tokens", "0"], "tokens must be at least 1, not 0"),
        (["--prompt", "a", "--tokens", "17"], "17 tokens exceed the context of 16"),
        (["--prompt", "a", "--weights", "4"], "--weights goes with a model to be compiled"),
        (["--prompt", "a", "--latency", "0"], "latency must be at least 1, not 0"),
    ],
)
def test_refused_runs(compiled, words, message, capsys):
    assert main(["run", str(compiled), *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.gguf"], "none.gguf: no such file or folder"),
        (["tiny-opt", "--target", "harmonia:small"], "a model of type opt is not supported"),
        (["tiny-llama", "--target", "deca"], "compile runs on a block harmonia or anda, not deca"),
        (["tiny-llama", "--target", "harmonia:small", "--group", "12"], "--group must be a multip"),
    ],
)
def test_refused_models(words, message, tmp_path, capsys):
    assert main(["compile", *words, "-o", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_tokenizers_as_data():
    pairs = BytePairs(["a", "b", "ab"], [("a", "b")], "gpt-2")
    pieces = Pieces(["\u2581", "a", "\u2581a"], {"\u2581a": 1.0}, space_first=True)
    for tokenizer, text in ((pairs, "abba"), (pieces, "a a")):
        again = tokenizer_of(json.loads(json.dumps(tokenizer_data(tokenizer))))
        assert again is not None
        assert again.encode(text).tolist() == tokenizer.encode(text).tolist()
    assert tokenizer_of(tokenizer_data(None)) is None


# Long: a real model.


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    smollm2_or_skip()
    path = tmp_path_factory.mktemp("compiled") / "smollm2"
    compile_model("smollm2", path, Options(context=528))
    return open_folder(path)


@pytest.mark.full
def test_smollm2_generates_what_the_engine_does(smollm2):
    """Greedy tokens equal until the first near-tie; then both go on from the engine's."""
    model = load_model("smollm2")
    quantised, _ = quantised_model(model, smollm2.plan, group=64)
    tokens = [int(k) for k in model.tokenizer.encode("The capital of France is")]
    runner, reference = Runner(smollm2), Reference(smollm2.plan, quantised, len(tokens))
    for _ in range(64):
        got, want = runner.feed(tokens), reference.feed(tokens)[-1]
        tokens = [int(want.argmax())]
        if got.argmax() != want.argmax():
            second = np.partition(want, -2)[-2]
            assert want.max() - second < NEAR_TIE, (tokens, int(got.argmax()))


NEAR_TIE = 0.25  # of logits whose standard deviation is some 4


@pytest.mark.full
def test_perplexity_of_smollm2(smollm2):
    """512 tokens of text: the machine's perplexity within half a percent of the engine's."""
    model = load_model("smollm2")
    quantised, _ = quantised_model(model, smollm2.plan, group=64)
    tokens = [int(k) for k in model.tokenizer.encode(default_text()[:8000])[:512]]
    got = Runner(smollm2).score(tokens)
    want = Reference(smollm2.plan, quantised, len(tokens)).feed(tokens)
    assert perplexity(got, tokens) == pytest.approx(perplexity(want, tokens), rel=0.005)


def perplexity(logits, tokens):
    scores = logits[:-1].astype(np.float64)
    scores -= scores.max(axis=1, keepdims=True)
    chosen = scores[np.arange(len(scores)), tokens[1:]]
    return float(np.exp(np.mean(np.log(np.exp(scores).sum(axis=1)) - chosen)))
