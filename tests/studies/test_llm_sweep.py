"""Sweeps over models on many cores and on a cluster: equal to one after the other, resumable."""

import json

import pytest

from tilewright.base.errors import CommandError
from tilewright.report.llm_plot import best, plot_sweep
from tilewright.sim.cost import Prices
from tilewright.sim.serving import Question
from tilewright.sim.sweep import points_of, sweep
from tilewright.studies import llm_sweep
from tilewright.studies.llm_sweep import run_llm_sweep

QUESTION = Question(model="opt-125m", prices=Prices(hour=1))
AXES = {"context": (64, 128, 256), "batch": tuple(range(1, 5))}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(llm_sweep, "PART", 5)


def test_two_processes_give_the_same_in_the_same_order():
    assert run_llm_sweep(QUESTION, AXES, workers=2) == sweep(QUESTION, AXES)


def test_a_cluster_gives_the_same():
    from distributed import LocalCluster  # slow to import: every test run collects this file

    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        found = run_llm_sweep(QUESTION, AXES, cluster=cluster.scheduler_address)
    assert found == sweep(QUESTION, AXES)


def test_a_sweep_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    whole = sweep(QUESTION, AXES)
    asked, answers_of = [], llm_sweep.answers_of

    def interrupted(question, points):
        if asked:
            raise KeyboardInterrupt
        asked.extend(points)
        return answers_of(question, points)

    monkeypatch.setattr(llm_sweep, "answers_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_llm_sweep(QUESTION, AXES, out=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1  # of three parts
    asked.clear()

    def counted(question, points):
        asked.extend(points)
        return answers_of(question, points)

    monkeypatch.setattr(llm_sweep, "answers_of", counted)
    ticks = []
    found = run_llm_sweep(QUESTION, AXES, out=tmp_path, tick=lambda _, n: ticks.append(n))
    assert found == whole
    assert (len(asked), sum(ticks)) == (7, 12)


def test_what_was_found_belongs_to_the_question(tmp_path):
    run_llm_sweep(QUESTION, AXES, out=tmp_path)
    other = Question(model="opt-125m", scheme="bf8")
    assert run_llm_sweep(other, AXES, out=tmp_path) == sweep(other, AXES)


def test_a_config_of_the_users_own_that_changes_is_asked_again(tmp_path):
    path = tmp_path / "config.json"
    text = {
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 1000,
        "max_position_embeddings": 512,
    }
    found = []
    for layers in (2, 3):
        path.write_text(json.dumps(text | {"num_hidden_layers": layers}))
        question = Question(model=str(path))
        found += run_llm_sweep(question, {"batch": (1,)}, out=tmp_path / "out")
    assert found[0].latency_ms < found[1].latency_ms


def test_answers_about_prompts_come_back_from_files(tmp_path):
    question = Question(model="opt-125m", tokens=2)
    axes = {"prompt": (8, 16)}
    first = run_llm_sweep(question, axes, out=tmp_path)
    assert run_llm_sweep(question, axes, out=tmp_path) == first == sweep(question, axes)


def test_best_is_what_no_other_beats_in_both():
    found = sweep(Question(model="opt-125m"), {"batch": (1, 8, 64), "engine": ("deca", "software")})
    front = best(found)
    assert [answer.batch for answer in front] == [1, 8, 64]
    assert all(
        any(
            b.latency_ms <= a.latency_ms and b.tokens_per_second >= a.tokens_per_second
            for b in front
        )
        for a in found
    )


@pytest.mark.parametrize("axes", [AXES, {"engine": ("deca", "software")}], ids=str)
def test_plots_are_equal_for_equal_sweeps(tmp_path, axes):
    found, points = sweep(QUESTION, axes), points_of(QUESTION, axes)
    drawn = []
    for folder in ("one", "two"):
        path = tmp_path / folder / "plot.svg"
        plot_sweep(found, points, path)
        drawn.append(path.read_text())
    assert drawn[0] == drawn[1]
    for words in ("tokens/s", next(iter(axes)) if "batch" not in axes else "context"):
        assert words in drawn[0]
    with pytest.raises(CommandError, match=r"^a plot is \.svg, \.png, \.pdf, not 'x\.gif'$"):
        plot_sweep(found, points, tmp_path / "x.gif")
