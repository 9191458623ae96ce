"""Studies of formats, as far as they need no model: logs, prices, sizes, quizzes."""

import numpy as np
import pytest

from tilewright.base.errors import CommandError
from tilewright.golden.harmonia.precision import cache_size
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.params.harmonia import CacheParams
from tilewright.studies.accuracy import anda, frontier, harmonia, records
from tilewright.studies.accuracy.subject import Evaluations
from tilewright.torch.config import HarmoniaConfig


def test_the_log_resumes_and_belongs_to_one_subject(tmp_path):
    path = tmp_path / "log.json"
    log = Evaluations(path, {"model": "a", "window": 64})
    assert log("x", lambda: 3.5) == 3.5
    again = Evaluations(path, {"model": "a", "window": 64})
    assert again("x", lambda: pytest.fail("measured twice")) == 3.5
    with pytest.raises(
        CommandError, match=r"belongs to another subject: its model is 'a', not 'b'"
    ):
        Evaluations(path, {"model": "b", "window": 64})
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


def test_machines_are_compared_on_the_same_work():
    shape = tiny_model().config
    short, long = (anda.compare_machines(shape, (m,) * 4) for m in (4, 12))
    assert [row["machine"] for row in short] == ["fp-fp", "figna", "anda"]
    assert short[2]["cycles"] < long[2]["cycles"]
    assert short[0]["cycles"] == long[0]["cycles"]
    read = [row["memory_bytes"] for row in (short[2], long[2], long[0])]
    assert read == sorted(set(read))
    assert short[0]["speedup"] == short[0]["energy_gain"] == 1
    assert short[2]["memory_gain"] == short[0]["memory_bytes"] / short[2]["memory_bytes"]


def test_shape_of_a_model_has_its_parameters():
    for family in ("llama", "opt"):
        model = tiny_model(family)
        shape = model.config
        weights = sum(part.weight.size for layer in model.layers for part in layer.linears.values())
        assert shape.linear_weights == weights


def test_variants_of_the_cache():
    found = {v.name: v for v in harmonia.variants()}
    whole = found["4 bits, windows, offsets"]
    assert whole.fmt.cache == CacheParams()
    shape = tiny_model().config
    expected = cache_size(CacheParams(), 4096, shape.head_dim).bits
    heads = shape.num_hidden_layers * shape.num_key_value_heads
    assert harmonia.cache_bytes(shape, whole.fmt) == heads * expected / 8
    plain = harmonia.cache_bytes(shape, None)
    assert plain == 2 * heads * 4096 * shape.head_dim * 2
    lengths = [v.fmt.key_bits[1] for v in found.values() if "old tokens" in v.name]
    assert lengths == [8, 7, 6, 5, 3, 2, 1]


def test_prices_of_harmonia_are_those_of_equal_lengths():
    """Without windows both ways to state a price agree."""
    prices = frontier.Prices(tiny_model().config)
    fmt = HarmoniaConfig(initial=0, local=0, offset_channels=0)
    assert prices.of(fmt) == prices.of(frontier.one_length((8, 8, 8, 8, 8, 4, 4, 8)))
    full = prices.full
    assert all(prices.of(fmt)[name] < full[name] for name in full)


def test_harmonias_own_lengths_are_in_the_space_within_its_windows():
    own = frontier.within_windows(frontier.HARMONIA)
    assert own.bits == harmonia.WHOLE.bits and own.cache == harmonia.WHOLE.cache
    long = frontier.within_windows((8, 8, 8, 8, 8, 13, 4, 8)).cache
    assert (long.key_bits, long.value_bits) == ((13, 13), (8, 4))


def test_points_of_the_frontier():
    points = [
        {"perplexity": p, "moved": m} for p, m in ((10, 5), (9, 6), (11, 4), (10.5, 5), (9, 7))
    ]
    kept = frontier.pareto(points, "moved")
    assert [(p["perplexity"], p["moved"]) for p in kept] == [(11, 4), (10, 5), (9, 6)]
    assert frontier.cheapest(points, "moved", 10)["moved"] == 5
    assert frontier.cheapest(points, "moved", 8) is None


def test_a_quiz_marks_the_late_answers_alone():
    def encode(text):
        return [ord(letter) % 128 for letter in text]

    quiz = records.make_quiz(encode, None, np.full(3000, ord("x")), tokens=1500)
    assert len(quiz.tokens) == 1500
    text = "".join(map(chr, quiz.tokens))
    marked = "".join(c for c, a in zip(text[1:], quiz.answers, strict=True) if a)
    early, late = text.split("xxxxx", 1)
    for number in marked.split():
        assert len(number) == 4
        assert early.count(number) == late.count(number) == 1
    assert len(marked.split()) == records.FACTS == 12
    with pytest.raises(ValueError, match=r"^10 tokens of prose are too few for a quiz of 1500$"):
        records.make_quiz(encode, None, np.zeros(10, np.int64), tokens=1500)
