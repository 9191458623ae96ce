"""Generic evaluations: what they answer follows our hardware, golden functions, tests and records.

Every kind of evaluation is shown to fail: a changed parameter, formula, outcome or record changes
the verdict of the claims that it answers.
"""

import ast
import json
from pathlib import Path

import pytest

from tilewright.golden.params.deca import DecaParams
from tilewright.sim import coverage, scoreboard, tested
from tilewright.sim.claims import ClaimClass, find_claim, load_claims, papers
from tilewright.sim.evaluations import EVALUATIONS, accuracy, formulas, netlists, parameters
from tilewright.sim.evaluations.expression import value_of
from tilewright.sim.records import NoRecordError

ROOT = Path(__file__).parents[2]
EVERY = [claim for paper in papers() for claim in load_claims(paper).values()]
QUICK = ("parameter", "formula", "golden", "search_neighbours", "macro", "part_count")


def verdict(name):
    return scoreboard._evaluate(find_claim(name)).verdict


# What is listed.


def test_the_list_is_whole():
    """The papers' 906 claims, by paper; each is evaluated or says why it is not."""
    found = {paper: coverage.listed_claims(paper) for paper in papers()}
    counts = {paper: len(claims) for paper, claims in found.items()}
    assert counts == {"anda": 216, "deca": 397, "harmonia": 172, "sparamx": 121}
    for claims in found.values():
        for claim in claims:
            assert claim.evaluate or claim.reason, claim.id


def test_at_least_640_have_an_evaluation():
    listed = [claim for paper in papers() for claim in coverage.listed_claims(paper)]
    assert sum(bool(claim.evaluate) for claim in listed) >= 640


def test_counts_add_up():
    results = {"sparamx": [scoreboard._evaluate(c) for c in load_claims("sparamx").values()]}
    (one, whole) = coverage.coverage(results)
    assert one.claims == one.evaluated + one.set_up + one.cannot == 121
    assert one.evaluated > 60 and one.set_up > 10
    assert (whole.name, whole.claims, whole.can_be) == ("all", one.claims, one.can_be)
    why = coverage.reasons(results["sparamx"])
    assert sum(why.values()) == one.set_up + one.cannot
    assert why[coverage.SET_UP] == one.set_up


def test_reasons_are_few_sentences():
    """What cannot be answered is data: the same reason has the same words."""
    open_ones = [c for c in EVERY if c.reason and not (c.evaluate or c.study)]
    assert len(open_ones) > 150
    assert len({claim.reason for claim in open_ones}) < 25


def test_classes_of_generic_evaluations_are_never_counted():
    """Sizes, formulas, tests and trends are no predictions."""
    for claim in EVERY:
        if claim.evaluate in ("parameter", "formula", "golden", "shown_by", "holds"):
            found = scoreboard.class_of(claim)
            assert found not in (ClaimClass.PREDICTION, ClaimClass.SILICON), claim.id


# Parameters.


def test_a_changed_parameter_changes_the_verdicts(monkeypatch):
    names = ("deca.pe.w", "deca.table3.bitmask_queue.entry", "deca.lut.reads_6bit")
    assert [verdict(name) for name in names] == ["agrees"] * 3
    monkeypatch.setattr(parameters, "resolve", lambda text: DecaParams(lanes=16, luts=8))
    assert [verdict(name) for name in names] == ["off"] * 3


def another(value):
    match value:
        case bool():
            return not value
        case int() | float():
            return 2 * value + 1
        case list():
            return [*value[1:], 0.5]
    return f"{value}x"


def test_another_printed_value_would_be_off():
    """No claim of a size or formula that agrees would agree whatever the paper prints."""
    checked = 0
    for claim in EVERY:
        if claim.evaluate in QUICK:
            ours, tolerance = scoreboard.answer(claim), claim.tolerance or 0.0
            if scoreboard.compare(claim.compare, claim.value, ours, tolerance)[1]:
                other = another(claim.value)
                assert not scoreboard.compare(claim.compare, other, ours, tolerance)[1], claim.id
                checked += 1
    assert checked > 200


def test_what_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match=r"^unknown kind of parameters 'modell'; did you mean mod"):
        parameters.source("modell llama-3-8b")
    with pytest.raises(ValueError, match=r"^'lane \* 2': nothing is called 'lane'$"):
        EVALUATIONS["parameter"](of="deca:paper", size="lane * 2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 +", r"^'1 \+' is no expression: invalid syntax$"),
        ("x", r"^'x': nothing is called 'x'$"),
        ("a.__class__", r"^'a\.__class__': int has no '__class__'$"),
        ("[k for k in a]", r"^'\[k for k in a\]': an expression has no ListComp$"),
        ("a @ a", r"^'a @ a': an expression has no MatMult$"),
    ],
)
def test_expressions_are_arithmetic_and_nothing_else(text, message):
    with pytest.raises(ValueError, match=message):
        value_of(text, {"a": 1})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 ** 3 // 3 - -1 % 5", -2),
        ("min([a, 2]) if a < 2 <= 3 and a != 0 else 7", 1),
        ("total(lambda k: k * a, 1, 4)", 10),
        ("{1: 'x'}[a] + str(round(2.4))", "x2"),
        ("every(lambda k: k > a, (2, 3)) or a in [4]", True),
        ("count(lambda k: k > a, [1, 2, 3]) + mean(lambda k: k, [1, 3])", 4),
        ("binomial_below(2, 2, 0.5) == 1", True),
        ("1 << 3", 8),
    ],
)
def test_expressions(text, value):
    assert value_of(text, {"a": 1}) == value


# Formulas.


def test_a_changed_golden_function_changes_the_verdict(monkeypatch):
    assert verdict("harmonia.ema.dataflow1") == "agrees"
    monkeypatch.setitem(formulas.GOLDEN, "accesses", lambda *sizes: [1, 1])
    assert verdict("harmonia.ema.dataflow1") == "off"


def test_a_formula_has_to_hold_everywhere():
    formula = EVALUATIONS["formula"]
    assert formula(published="2 * x", ours="x + x", over={"x": [1, 2, 3]})
    assert not formula(published="2 * x", ours="x + 1", over={"x": [1, 2, 3]})
    assert not formula(published="1", ours="1", over={"x": []})


# Behaviours.


def test_every_named_test_exists():
    found = {}
    for name in tested.named_tests():
        file, _, function = name.partition("::")
        if file not in found:
            tree = ast.parse((ROOT / file).read_text())
            found[file] = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        assert function in found[file], name
    assert len(found) > 30


def test_the_record_of_tests_has_no_others():
    record = json.loads(tested.RECORD.read_text())
    assert record["command"] == tested.COMMAND
    assert set(record["tests"]) <= set(tested.named_tests())
    assert set(record["tests"].values()) <= {tested.PASSED, tested.FAILED, tested.SKIPPED}


def test_a_failed_test_changes_the_verdict(monkeypatch):
    (name,) = find_claim("anda.bfp.truncate").arguments["tests"]
    for outcome, expected in ((tested.PASSED, "agrees"), (tested.FAILED, "off")):
        monkeypatch.setattr(tested, "_record", lambda outcome=outcome: {name: outcome})
        assert verdict("anda.bfp.truncate") == expected
    monkeypatch.setattr(tested, "_record", dict)
    assert verdict("anda.bfp.truncate") == "not modelled"
    with pytest.raises(NoRecordError, match=r"^no outcome of x in the record of tests$"):
        tested.outcome("x")


def test_a_test_may_show_the_contrary(monkeypatch):
    claim = find_claim("harmonia.ema.claimed_trend")
    passed = dict.fromkeys(claim.arguments["tests"], tested.PASSED)
    monkeypatch.setattr(tested, "_record", lambda: passed)
    assert verdict(claim.id) == "off"


REPORT = """<testsuites><testsuite>
<testcase classname="tests.golden.test_a" name="test_x[1]"/>
<testcase classname="tests.golden.test_a" name="test_x[2]"><failure message="no"/></testcase>
<testcase classname="tests.golden.test_a" name="test_y[1]"><skipped message="no"/></testcase>
<testcase classname="tests.golden.test_a" name="test_y[2]"/>
<testcase classname="tests.golden.test_b" name="test_z"><skipped message="no"/></testcase>
</testsuite></testsuites>"""


def test_outcomes_of_a_report(tmp_path):
    path = tmp_path / "report.xml"
    path.write_text(REPORT)
    assert tested.outcomes_of_report(path) == {
        "tests/golden/test_a.py::test_x": "failed",
        "tests/golden/test_a.py::test_y": "passed",
        "tests/golden/test_b.py::test_z": "skipped",
    }


def test_what_is_no_report_is_refused(tmp_path, capsys):
    path = tmp_path / "report.xml"
    path.write_text("no xml")
    assert tested.main([str(path)]) == 2
    assert "is no report of pytest --junitxml" in capsys.readouterr().err
    assert tested.main([]) == 2


def test_a_report_becomes_a_record(tmp_path, monkeypatch):
    path = tmp_path / "report.xml"
    path.write_text(
        '<testsuite><testcase classname="tests.golden.test_bfp"'
        ' name="test_mantissas_truncate_toward_zero_for_both_signs"/></testsuite>'
    )
    monkeypatch.setattr(tested, "RECORD", tmp_path / "tests.json")
    monkeypatch.setattr(tested, "_record", dict)
    assert tested.main([str(path)]) == 0
    name = "tests/golden/test_bfp.py::test_mantissas_truncate_toward_zero_for_both_signs"
    assert json.loads(tested.RECORD.read_text())["tests"] == {name: "passed"}


# Records.


def test_changed_perplexities_change_the_trends(monkeypatch):
    names = ("anda.sens.qkv_most", "anda.sens.group_tradeoff", "harmonia.sens.below8_sharp")
    assert [verdict(name) for name in names] == ["reproduced"] * 3
    real = accuracy._record("sensitivity")
    flat = {
        key: [row | {"perplexity": 1.0} for row in rows] if isinstance(rows, list) else rows
        for key, rows in real.items()
    }
    monkeypatch.setattr(accuracy, "_record", lambda name: flat)
    assert [verdict(name) for name in names] == ["off"] * 3


def test_what_was_not_measured_is_named():
    for call in (
        lambda: accuracy.length_loss(99, 64),
        lambda: accuracy.module_loss("A_x", 4),
        lambda: accuracy.cache_loss("paper"),
        lambda: accuracy.window_loss(1, 1),
        lambda: accuracy.search_found(50, "saving"),
        lambda: accuracy.mean_loss("Anda 1/1/1/1"),
        lambda: accuracy.task_loss("Anda 1/1/1/1"),
    ):
        with pytest.raises(NoRecordError, match=r"^no accuracy record of "):
            call()


def test_a_mean_is_over_all_open_models():
    losses = accuracy.model_losses("Harmonia, windows, offsets")
    assert sorted(losses) == ["gemma-3-270m", "qwen2.5-coder-1.5b", "smollm2-135m"]
    mean = accuracy.mean_loss("Harmonia, windows, offsets")
    assert mean == pytest.approx(sum(losses.values()) / 3)
    naive = accuracy.model_losses("Harmonia, 4-bit cache")
    least = min(naive[name] - losses[name] for name in losses)
    regained = accuracy.regained("Harmonia, windows, offsets", "Harmonia, 4-bit cache")
    assert regained == pytest.approx(least) and least > 0


def test_another_netlist_changes_the_verdicts(monkeypatch):
    assert verdict("deca.table3.sqq.per_pe") == "agrees"
    cells = {
        "memories": {"sram_32x513_1r1w": {"count": 3}},
        "area_by_part": {"loader0.load_unit": 1.0},
    }
    monkeypatch.setattr(netlists, "read_record", lambda *names: cells)
    assert verdict("deca.table3.sqq.per_pe") == "off"
    assert verdict("deca.table3.ldu.per_pe") == "off"


def test_instructions_are_those_of_the_kernels():
    count = EVALUATIONS["software_instructions"]
    assert count(scheme="bf16", kind="all") == 3
    assert count(scheme="bf8_50%", kind="all") == count(scheme="bf8_50%", kind="vector") + 3
    assert count(scheme="mxfp4", kind="vector") > 100
