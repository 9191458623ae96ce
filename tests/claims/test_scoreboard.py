"""The scoreboard: no figure or verdict of the headline drifts unseen, and classes count apart."""

from pathlib import Path

import pytest

from tilewright.claims import Cause, Compare, find_claim, papers
from tilewright.claims import deca as answers_of_deca
from tilewright.claims.registry import COUNTED, EVALUATIONS, PREDICTION, Evaluation, answers
from tilewright.claims.scoreboard import (
    VERDICTS,
    Summary,
    class_counts,
    compare,
    evaluate,
    headline,
    misses,
    moving_inputs,
    scoreboard_claims,
    summary,
)
from tilewright.sim.calibration import changed
from tilewright.sim.pe_units import UNITS, pe_ratio
from tilewright.sim.records import area_um2

FILE = Path(__file__).with_name("verdicts.txt")
RENEW = "where that is meant: python -m tests.claims.test_scoreboard"


@pytest.fixture(scope="module")
def results():
    return evaluate()


def every(results):
    return [r for rows in results.values() for r in rows]


def lines(results):
    """Name, verdict and value, to four digits, of the predictions and measurements."""
    for r in every(results):
        if r.counted:
            ours = r.ours if isinstance(r.ours, list) else [r.ours]
            yield " ".join([r.id, r.verdict, *(f"{value:.4g}" for value in ours)])


def test_verdicts_of_the_headline(results):
    assert list(lines(results)) == FILE.read_text().splitlines(), RENEW


def test_verdicts_of_the_other_classes(results):
    """They agree, but for these."""
    off = {r.id for r in every(results) if not (r.good or r.counted)}
    assert off == {
        *("anda.pe.area_vs_fp", "anda.pe.area_vs_fp_int", "anda.pe.power_vs_fp_int"),
        *("deca.fig3.ddr_divergence", "deca.fig14.wider_avx_far_below", "deca.bord.commit_slots"),
        *("deca.table2.bf8_5.rl", "deca.table2.bf16_5.real"),
        *("deca.table5.order", "deca.fig16.tepl_gain_5pct.rtl"),
        *(f"deca.table5.{name}.rtl" for name in ("none", "deca1", "deca15")),
        *(f"deca.table6.opt_66b.n64.{weights}.deca" for weights in ("q4", "q8_30")),
        "harmonia.pe.m8m8_area_eff_vs_figna_c",
    }


def test_counts(results):
    """A change is meant, and told in docs/model-accuracy.md with before and after."""
    total = Summary.of(every(results))
    assert (total.within, total.evaluated, total.reproduced) == (95, 152, 61)
    assert (total.trends_within, total.trends) == (16, 18)
    assert "; 61 of them are reproduced, the other 34 are predictions that" in headline(total)
    assert {c.name.value: (c.within, c.evaluated) for c in class_counts(every(results))} == {
        "prediction": (45, 58),
        "measured on our RTL": (7, 7),
        "measured on silicon": (3, 8),
        "from a netlist": (22, 56),
        "measured on open models": (18, 23),
        "fitted": (27, 29),
        "derived from fitted": (22, 22),
        "identity": (1, 1),
        "consistency of the paper": (55, 55),
        "bound": (33, 40),
    }
    assert {paper: count.claims for paper, count in summary(results).items()} == {
        paper: len(rows) for paper, rows in results.items()
    }


def test_a_verdict_has_what_belongs_to_it(results):
    for r in every(results):
        assert r.verdict in VERDICTS
        assert r.good or r.reason, r.id
        assert r.cause is None or isinstance(r.cause, Cause)
        assert r.verdict != "reproduced" or r.claim_class in COUNTED


def test_duplicates_and_derived_figures_name_claims_of_the_board(results):
    known = {r.id: r for r in every(results)}
    for paper in papers():
        for claim in scoreboard_claims(paper):
            for other in {claim.same_as, *claim.derived_from} - {""}:
                assert not known[other].same_as, claim.id


def test_at_most_a_third_was_fitted(results):
    rows = every(results)
    for table in ("table1", "table2", "table4", "table6"):
        members = [r for r in rows if r.id.startswith(f"deca.{table}.")]
        assert 3 * sum(r.fitted for r in members) <= len(members), table


def test_what_is_off_says_from_where_on_it_would_be_within(results):
    """A hair on the published side of the nearest figure is allowed, a hair beyond is not."""
    found = [r for r in misses(every(results)) if r.nearest is not None]
    assert len(found) > 40
    for r in found:
        hair = 1e-6 * (r.published - r.ours)
        allowed = [
            compare(r.compare, r.published, ours, r.tolerance or 0.0)[1]
            for ours in (r.nearest + hair, r.nearest - hair)
        ]
        assert allowed == [True, False], r.id


def test_an_unknown_paper_names_its_neighbours():
    with pytest.raises(ValueError, match=r"^unknown paper 'decca'; did you mean deca\?$"):
        evaluate(["decca"])


@pytest.mark.parametrize(
    ("how", "published", "ours", "tolerance", "good"),
    [
        ("relative", 100, 104.9, 0.05, True),
        ("relative", 100, 105.1, 0.05, False),
        ("relative", [1.0, 2.0], [1.0, 2.2], 0.05, False),
        ("absolute", 50, 48, 2, True),
        ("absolute", 50, 47.9, 2, False),
        ("at_least", 9, 9, 0, True),
        ("at_least", 9, 8, 0, False),
        ("at_most", 1.03, 1.02, 0, True),
        ("at_most", 1.03, 1.04, 0, False),
        ("inside", [40, 80], [41, 79], 0, True),
        ("inside", [40, 80], [39, 79], 0, False),
        ("less_than", 0.6, 0.59, 0, True),
        ("less_than", 0.6, 0.6, 0, False),
        ("true", True, False, 0, False),
    ],
)
def test_how_figures_are_compared(how, published, ours, tolerance, good):
    assert compare(Compare(how), published, ours, tolerance)[1] is good


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match=r"^2\.0 cannot be compared with \[1\.0\] by relative$"):
        compare(Compare.RELATIVE, [1.0], 2.0, 0.0)


def test_every_claim_has_one_evaluation(monkeypatch):
    with pytest.raises(ValueError, match=r"^deca\.fig13\.cores_equal has two evaluations$"):
        answers(PREDICTION, {"deca.fig13.cores_equal": ()})(answers_of_deca.cores_needed)
    monkeypatch.setitem(EVALUATIONS, "deca.x", Evaluation(lambda: 1.0, PREDICTION))
    scoreboard_claims.cache_clear()
    with pytest.raises(ValueError, match=r"evaluations without a claim: deca\.x$"):
        scoreboard_claims("deca")
    scoreboard_claims.cache_clear()


def test_a_changed_constant_shows_in_the_figures():
    def figures():
        return answers_of_deca.prefetch_rate("none", 0), answers_of_deca.roofline("bf8")

    rate, roof = figures()
    with changed("memory_latency", 1.5):
        assert figures()[0] < rate
        assert figures()[1] == roof
    assert figures() == (rate, roof)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        (
            "anda.pe.area_vs_figna",
            {
                "anda_apu__registered_true.area",
                "pe_figna__registered_true__stages_3__bounded_true.area",
            },
        ),
        ("anda.tradeoff.llama13b.speedup.0p1", {"anda.cycles"}),
        ("deca.table2.bf8_20.rl", set()),
    ],
)
def test_measurements_of_ours_move_claims(name, inputs):
    assert set(moving_inputs(find_claim(name))) == inputs


def test_the_other_boundary_has_a_column(results):
    found = {r.id: r for r in every(results)}
    assert found["anda.pe.area_vs_figna"].registers_outside < found["anda.pe.area_vs_figna"].ours
    assert found["deca.area.total_56"].registers_outside is None
    assert found["deca.table6.llama2_70b.n1.q4.deca"].registers_outside is None


def test_one_fp16_baseline_serves_all_papers():
    fp_int, fp_fp = (UNITS[name][0] for name in ("fp-int", "fp-fp"))
    assert pe_ratio("area", "fp-int", "fp-fp") == area_um2(fp_int) / area_um2(fp_fp)


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in lines(evaluate())))
