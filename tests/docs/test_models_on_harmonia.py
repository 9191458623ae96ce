"""Figures of the pages about models on the hardware are those of the committed records."""

from pathlib import Path

from tilewright.report.pages.model import KINDS
from tilewright.studies.compiled.record import CONTEXTS, NAMES
from tilewright.studies.measured import load_measured

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "models-on-harmonia.md").read_text().split())
RECORDS = {on: load_measured(name) for on, name in NAMES.items()}
RECORD = RECORDS["harmonia"]


def test_perplexities():
    found = RECORD["agreement"]["perplexity"]
    assert f"is {found['engine, 4 bits, a scale for 32']:.1f} with a scale for 32 weights" in PAGE
    assert f"{found['engine, 8 bits']:.1f} at 8 bits" in PAGE
    assert f"where full precision has {found['full precision']:.1f}" in PAGE
    said = f"is {found['machine, 8 bits']:.3f} on the machine and {found['engine, 8 bits']:.3f} by"
    assert said in PAGE


def test_agreement():
    found = RECORD["agreement"]
    error = found["logit_error"]
    assert f"SmolLM2, greedy, {found['tokens']} tokens" in PAGE
    assert f"{found['equal']} of them are the engine's" in PAGE
    assert f"{100 * error['least']:.0f} to {100 * error['most']:.0f}% of their standard" in PAGE


def test_cycles():
    rows = {(row["phase"], row["context"]): row for row in RECORD["cycles"]["rows"]}
    most = max(abs(row["run"] / row["predicted"] - 1) for row in rows.values())
    assert most == 0, "the page says that both are the same"
    assert "every row is the same number of cycles" in PAGE
    assert f"{rows['decode', 16]['run'] / 1e3:.0f} thousand for a token" in PAGE


def test_the_same_on_anda():
    """Agreement with the engine as it is, and cycles that are those predicted."""
    record = RECORDS["anda"]
    page = " ".join((Path(__file__).parents[2] / "docs" / "anda-system.md").read_text().split())
    found = record["agreement"]
    (tie,) = found["near_ties"]
    assert f"of {found['tokens']} greedy tokens" in page and f"{found['equal']} are the" in page
    assert found["equal"] + 1 == found["tokens"]
    _, mine, other = tie["engine"]
    assert f"({mine:.3f} and {other:.3f} by the engine" in page
    values = found["perplexity"]
    machine, engine = values["machine, 8 bits"], values["engine, 8 bits"]
    assert f"is {machine:.3f} on the machine and {engine:.3f} by the engine" in page
    assert f"{values['full precision']:.3f} in full precision" in page
    assert f"That is {100 * abs(machine / engine - 1):.1f}% apart" in page
    assert f"take {record['generation']['prefill']['cycles']:,} cycles, where one by one" in page
    rounding = record["rounding"]
    assert rounding["perplexity"] == machine and rounding["scored"] == found["scored"]
    assert f"of the first {rounding['compared']} tokens are so in every bit" in page
    assert rounding["equal"] == rounding["compared"]
    assert f"the perplexity, {machine:.3f}, is the machine's to the last digit" in page
    low, high = min(rounding["nudged"]), max(rounding["nudged"])
    assert len(rounding["nudged"]) == 8 and f"perplexities of {low:.3f} to {high:.3f}" in page


def test_cycles_on_anda():
    """The table is the record's, of which predicted and run are the same."""
    page = (Path(__file__).parents[2] / "docs" / "anda-system.md").read_text()
    rows = {(row["phase"], row["context"]): row for row in RECORDS["anda"]["cycles"]["rows"]}
    assert rows.keys() == {(p, n) for p in ("decode", "prefill") for n in CONTEXTS}
    for context in CONTEXTS:
        token, prompt = rows["decode", context], rows["prefill", context]
        cells = (context, token["run"], prompt["run"], round(prompt["run"] / context))
        line = " | ".join(f"{cell:,}" for cell in cells)
        assert f"| {line} | {KINDS[prompt['kind']]} |" in page
        assert token["kind"] == "run"
    assert all(row["predicted"] == row["run"] for row in rows.values())
