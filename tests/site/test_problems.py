"""Records that are out of date are named with the command that renews them."""

import pytest

from tilewright import cli
from tilewright.base.records import updated_table
from tilewright.site import problems
from tilewright.studies.measured import load_measured
from tilewright.studies.sweeps.frontiers import FRONTIERS
from tilewright.synth.equivalence import Verdict
from tilewright.synth.layout.record import LAYOUT
from tilewright.synth.record import SYNTHESIS, load_kind, load_records, store_record, table_path


@pytest.fixture
def records(tmp_path):
    """Records of synthesis in a folder of their own, by name and changes."""

    def write(*names, **changes):
        for name in names:
            record = load_records()[name] | changes
            with updated_table(table_path(SYNTHESIS, record["technology"], tmp_path)) as table:
                table[name] = record
        return tmp_path

    return write


def of_synthesis(folder):
    return [line for line in problems.find_problems(folder) if "frontier" not in line]


def test_no_record_is_out_of_date():
    assert problems.find_problems() == problems.find_failures() == []


def test_a_stale_record_is_named(records):
    records("popcount.sky130hd")
    folder = records("popcount.asap7", rtlil_sha256="0" * 64)
    spec = load_records()["popcount.asap7"]["spec"]
    assert of_synthesis(folder) == [
        "popcount.asap7 no longer describes its block; to renew it:"
        f" tilewright synth {spec} --tech asap7 --update-records"
    ]
    records("popcount.sky130hd", rtlil_sha256="0" * 64)
    assert of_synthesis(records("queue.asap7")) == [
        "2 of 3 records no longer describe their blocks;"
        " to renew them: tilewright synth --all --stale --update-records"
    ]


def test_netlists_without_a_good_verdict_are_named(records):
    proof = load_records()["popcount.asap7"]["proof"] | {"verdict": Verdict.DIFFERENT.value}
    folder = records("popcount.asap7", proof=proof)
    assert problems.find_failures(folder) == ["popcount.asap7: different"]
    record = {k: v for k, v in load_records()["popcount.asap7"].items() if k != "proof"}
    with updated_table(table_path(SYNTHESIS, "asap7", folder)) as table:
        table["popcount.asap7"] = record
    assert of_synthesis(folder) == [
        f"1 of 1 netlists have no verdict; to get one: {problems.PROVE}"
    ]


@pytest.mark.parametrize("change", [{"layout_sha256": "0"}, {"rtlil_sha256": "0"}])
def test_an_old_layout_is_named(tmp_path, change):
    name, record = next(iter(load_kind(LAYOUT).items()))
    store_record(LAYOUT, record["technology"], name, record | change, tmp_path)
    (problem,) = of_synthesis(tmp_path)
    assert problem.startswith(f"{name} is old; to renew it: tilewright layout {record['spec']}")


def test_missing_frontiers_are_named(tmp_path):
    lines = problems.find_problems(tmp_path)
    assert len(lines) == sum(len(frontier.technologies) for frontier in FRONTIERS.values())
    assert "tilewright sweep --frontier deca --update-records" in lines[-1] + lines[0] + lines[-2]


def test_measured_cycles_that_are_not_the_models_are_failures(monkeypatch, tmp_path):
    rows = problems.cycle_rows()
    changed = [rows[0] | {"measured": rows[0]["model"] + 1}, rows[1] | {"recorded_formula": 0.5}]
    monkeypatch.setattr(problems, "cycle_rows", lambda: changed)
    (failure,) = problems.find_failures(tmp_path)
    assert "the model says" in failure and rows[0]["block"] in failure
    assert any("another formula" in line for line in problems.find_problems(tmp_path))


def test_cycles_that_were_not_predicted_are_failures(monkeypatch, tmp_path):
    def changed(name):
        record = load_measured(name)
        record["cycles"]["rows"][0]["run"] *= 2
        return record

    monkeypatch.setattr(problems, "load_measured", changed)
    assert all("were predicted" in line for line in problems.find_failures(tmp_path))
    assert len(problems.find_failures(tmp_path)) == len(problems.NAMES)


@pytest.mark.parametrize(
    ("failures", "old", "words", "code"),
    [([], [], [], 0), ([], ["p"], [], 0), ([], ["p"], ["--strict"], 1), (["f"], [], [], 1)],
)
def test_the_command_fails_on_failures_and_strictly_on_problems(
    monkeypatch, tmp_path, capsys, failures, old, words, code
):
    monkeypatch.setattr("tilewright.site.build.build_site", lambda *_, **__: None)
    monkeypatch.setattr(problems, "find_failures", lambda: failures)
    monkeypatch.setattr(problems, "find_problems", lambda: old)
    assert cli.main(["report", "-o", str(tmp_path), *words]) == code
    told = capsys.readouterr().err.splitlines()
    assert told == [f"tilewright: {line}" for line in (*failures, *old)]
