"""Answers that come with the package: those of today's models, and none of yesterday's."""

import json
import subprocess
import sys

import pytest

from tilewright.base.cache import with_imports
from tilewright.sim import model_answers

# Streams of DECA of each way to fetch tiles, and programs of an accelerator.
CLAIMS = ("deca.table5.none", "deca.table5.l2", "deca.table5.deca15", "harmonia.lin.speedup.max")
RENEW = "renew them with `python -m tilewright.site.model_answers`"

# In a process that has answered nothing before.
ASK = """
import json, sys
from tilewright.claims import load_claims
from tilewright.sim.model_answers import recorded
from tilewright.claims.scoreboard import answer

with recorded() as answers:
    for name in sys.argv[1:]:
        answer(load_claims(name.partition(".")[0])[name])
print(json.dumps(answers))
"""


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A file of answers in place of ours, and a cache that has nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(model_answers, "ANSWERS", tmp_path / "model_answers.json")
    model_answers.shipped.cache_clear()

    def ship(answers):
        (tmp_path / "model_answers.json").write_text(model_answers.text_of(answers))

    yield ship
    model_answers.shipped.cache_clear()


def never():
    raise AssertionError("the answer was known")


def test_shipped_answers_are_those_of_todays_models():
    command = [sys.executable, "-c", ASK, *CLAIMS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout)
    assert len(answers) >= len(CLAIMS)
    ours = json.loads(model_answers.ANSWERS.read_text())
    assert {key: ours.get(key) for key in answers} == answers, RENEW


def test_an_answer_is_looked_up_by_all_of_its_ingredients(shipped):
    with model_answers.recorded() as answers:
        assert model_answers.get_or_compute(("a stream", "model 1"), lambda: {"cycles": 19.5}) == {
            "cycles": 19.5
        }
    shipped(answers)
    assert model_answers.get_or_compute(("a stream", "model 1"), never) == {"cycles": 19.5}
    assert model_answers.get_or_compute(("a stream", "model 2"), lambda: {"cycles": 20.0}) == {
        "cycles": 20.0
    }
    assert model_answers.get_or_compute(("a stream", "model 2"), never) == {"cycles": 20.0}


def test_a_record_looks_nothing_up(shipped):
    with model_answers.recorded() as old:
        model_answers.get_or_compute(("a stream", "model"), lambda: 1)
    shipped(old)
    with model_answers.recorded() as new:
        assert model_answers.get_or_compute(("a stream", "model"), lambda: 2) == 2
        assert model_answers.get_or_compute(("a stream", "model"), never) == 2
    assert list(new.values()) == [2]


def test_a_renewal_computes_what_is_not_known(shipped):
    with model_answers.recorded() as old:
        model_answers.get_or_compute(("a stream", "model 1"), lambda: 1)
    with model_answers.recorded(old) as new:
        assert model_answers.get_or_compute(("a stream", "model 1"), never) == 1
        assert model_answers.get_or_compute(("a stream", "model 2"), lambda: 2) == 2
    assert list(new.values()) == [1, 2]
    with model_answers.recorded(old) as asked:
        pass
    assert not asked  # answers that nobody asks for go


def test_streams_follow_from_what_their_model_imports():
    found = with_imports("tilewright.golden.deca.stream")
    assert {"tilewright.golden.deca.memory", "tilewright.golden.params.block"} <= {*found}
    assert not any("anda" in name for name in found)
