"""Figures of the pages about models on the hardware are those of the committed records."""

import re
from html import unescape
from pathlib import Path

from tilewright.cli import main
from tilewright.compiler.compile import Options, compile_model
from tilewright.site.gallery import COMMAND
from tilewright.site.real_model import KINDS
from tilewright.studies.measured import load_measured
from tilewright.studies.model_record import CONTEXTS, NAMES, QUESTION

RAW = (Path(__file__).parents[2] / "docs" / "models-on-harmonia.md").read_text()
PAGE = " ".join(RAW.split())
RECORDS = {on: load_measured(name) for on, name in NAMES.items()}
RECORD = RECORDS["harmonia"]


def test_one_run_is_shown_everywhere():
    """The same command, with the defaults of all options, and its figures."""
    made, docs = RECORD["generation"], Path(__file__).parents[2] / "docs"
    terminal = unescape((docs / "gallery" / "terminal.svg").read_text()).replace("\xa0", " ")
    for shown in (RAW, terminal):
        for phase in ("prefill", "decode"):
            assert f"{made[phase]['cycles']:,}" in shown
            assert f"{made[phase]['tokens_per_second']:.1f}" in shown
    assert f"\n{made['text']}\n" in RAW and made["text"].endswith(".")
    assert made["text_of_prompt"] == QUESTION and QUESTION in COMMAND
    for page in ("models-on-harmonia.md", "results/real-model.md", "../README.md"):
        (command,) = re.findall(r"tilewright run smollm2 .*?\"(?=[`\n])", (docs / page).read_text())
        assert command == COMMAND


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
    assert most == 0, "the page says that both report the same cycles"


def test_a_run_that_is_continued(tmp_path, capsys):
    """The page shows a memory error in the middle of a token, and the run after it."""
    options = Options(target="harmonia:small", context=16)
    compile_model("tiny-llama", tmp_path / "tiny", options)
    words = ["run", str(tmp_path / "tiny"), "--prompt", "Hello", "--tokens", "4"]
    words += ["--state", str(tmp_path / "run.npz")]
    assert main([*words, "--memory-error", "2"]) == 2
    stopped = capsys.readouterr()
    assert main(words) == 0
    text = capsys.readouterr().out.splitlines()[0]
    assert f"{stopped.out}{stopped.err}$ tilewright run tiny" in RAW and f"\n{text}\n" in RAW


def test_the_same_on_anda():
    """Agreement with the engine as it is, and cycles that are those predicted."""
    record = RECORDS["anda"]
    page = " ".join((Path(__file__).parents[2] / "docs" / "anda-models.md").read_text().split())
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
    assert f"with the head, take {record['generation']['prefill']['cycles']:,} cycles" in page
    rounding = record["rounding"]
    assert f"Logits of the first {rounding['compared']} tokens of the project's text" in page
    assert rounding["equal"] == rounding["compared"]
    said = f"perplexity of the first {rounding['scored']} is {rounding['perplexity']:.3f} by these"
    assert said in page
    low, high = min(rounding["nudged"]), max(rounding["nudged"])
    assert len(rounding["nudged"]) == 8 and f"perplexities of {low:.3f} to {high:.3f}" in page


def test_cycles_on_anda():
    """The table is the record's, of which predicted and run are the same."""
    page = (Path(__file__).parents[2] / "docs" / "anda-models.md").read_text()
    rows = {(row["phase"], row["context"]): row for row in RECORDS["anda"]["cycles"]["rows"]}
    assert rows.keys() == {(p, n) for p in ("decode", "prefill") for n in CONTEXTS}
    for context in CONTEXTS:
        token, prompt = rows["decode", context], rows["prefill", context]
        cells = (context, token["run"], prompt["run"], round(prompt["run"] / context))
        line = " | ".join(f"{cell:,}" for cell in cells)
        assert f"| {line} | {KINDS[prompt['kind']]} |" in page
        assert token["kind"] == "run"
    assert all(row["predicted"] == row["run"] for row in rows.values())
