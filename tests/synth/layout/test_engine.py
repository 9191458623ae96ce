"""OpenROAD is found or asked for, its errors are named, and steps that are done stay done."""

import json
import sys
from pathlib import Path

import pytest

from tilewright.base.errors import CommandError
from tilewright.cli import main
from tilewright.synth.layout import engine, layout
from tilewright.synth.layout.engine import VARIABLE, find_engine, reason
from tilewright.synth.layout.library import Library

# In place of OpenROAD: notes each step, and fails at the one that a file names.
DOUBLE = """\
import json, sys
from pathlib import Path
if sys.argv[2] == "--version":
    print("VERSION double")
    sys.exit()
here, job = Path(sys.argv[0]).parent, json.loads(Path(sys.argv[2]).read_text())
with (here / "steps").open("a") as file:
    print(job["step"], bool(job["before"]), file=file)
if (here / "fails").read_text() == job["step"]:
    print("[INFO GPL-0002] DBU: 1000\\n[ERROR GPL-0305] Divergence detected.\\nand more")
    sys.exit(1)
out = Path(job["out"])
(out / "figures.json").write_text(json.dumps({"slack": -100.0, "slack_before": 50.0}))
"""


@pytest.fixture
def double(tmp_path, monkeypatch):
    """A folder whose ``steps`` lists what was run, and whose ``fails`` names what shall fail."""
    program = tmp_path / "double"
    program.write_text(f"#!{sys.executable}\n{DOUBLE}")
    program.chmod(0o755)
    (tmp_path / "fails").write_text("")
    monkeypatch.setenv(VARIABLE, str(program))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library = Library(tmp_path / "library")
    monkeypatch.setattr(layout, "library_of", lambda *given: library)
    find_engine.cache_clear()
    yield tmp_path
    find_engine.cache_clear()


def steps(folder: Path) -> list[str]:
    found = (folder / "steps").read_text().split("\n")[:-1]
    (folder / "steps").unlink()
    return found


def test_a_run_goes_on_where_it_stopped(double):
    (double / "fails").write_text("cts")
    words = r"^OpenROAD, step cts: Divergence detected. \(GPL-0305\)$"
    with pytest.raises(CommandError, match=words):
        layout.lay_out("popcount:odd")
    assert steps(double) == ["placed False", "cts True"]
    (double / "fails").write_text("")
    found = layout.lay_out("popcount:odd")
    assert steps(double) == ["cts True", "global True"]
    assert list(found.steps) == ["placed", "cts", "global"]
    assert found.clock == pytest.approx(0.9 * found.synthesis.delay, abs=0.1)
    assert found.period("global") == found.clock + 100
    assert found.period_before == found.clock - 50
    layout.lay_out("popcount:odd", to="cts")
    assert not (double / "steps").exists()


def test_the_program_itself_runs_a_script_of_ours(tmp_path, monkeypatch):
    """``openroad`` takes a script by options, and no arguments for it."""
    program = tmp_path / "openroad"
    inside = tmp_path / "inside.py"
    inside.write_text("import sys; print('VERSION', __name__, *sys.argv)")
    program.write_text(
        '#!/bin/sh\n[ "$#:$1:$2:$3" = 4:-python:-exit:-no_splash ] || exit 9\n'
        f'exec {sys.executable} "$4"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(engine, "INSIDE", inside)
    monkeypatch.setenv(VARIABLE, str(program))
    find_engine.cache_clear()
    assert find_engine().version == f"__main__ {inside} --version"
    find_engine.cache_clear()


@pytest.mark.parametrize("change", [{"utilisation": 0.4}, {"clock": 5000.0}, {"goal": "fastest"}])
def test_another_question_is_another_layout(double, change):
    layout.lay_out("popcount:odd", to="placed")
    steps(double)
    change = {key: layout.Goal(v) if key == "goal" else v for key, v in change.items()}
    layout.lay_out("popcount:odd", to="placed", **change)
    assert steps(double) == ["placed False"]


def test_rules_of_extraction_matter_to_routed_layouts_alone(double):
    layout.lay_out("popcount:odd", to="routed")
    steps(double)
    rules = double / "rules"
    rules.write_text("Extraction Rules for OpenRCX")
    layout.lay_out("popcount:odd", to="routed", extraction=rules)
    assert steps(double) == ["routed True"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"to": "gds"}, "^no step 'gds'; there are placed, cts, global, routed$"),
        ({"utilisation": 1.2}, "^the utilisation must lie between 0.05 and 0.95, not 1.2$"),
        ({"clock": -1.0}, "^the clock period must be positive, not -1 ps$"),
    ],
)
def test_impossible_questions_are_refused(double, wrong, words):
    with pytest.raises(ValueError, match=words):
        layout.lay_out("popcount:odd", **wrong)
    assert not (double / "steps").exists()


def test_without_openroad_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(engine.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(engine.shutil, "which", lambda name: None)
    find_engine.cache_clear()
    assert main(["layout", "popcount:odd"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "pip install tilewright[layout]" in line and VARIABLE in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file or directory; TILEWRIGHT_OPENROAD must name OpenROAD$"),
        ("#!/bin/sh\necho no module named openroad\nexit 1\n", "cannot import openroad: no module"),
    ],
)
def test_a_wrong_variable_is_named(tmp_path, monkeypatch, text, words):
    program = tmp_path / "python"
    if text is not None:
        program.write_text(text)
        program.chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(program))
    find_engine.cache_clear()
    with pytest.raises(CommandError, match=words):
        find_engine()
    find_engine.cache_clear()


@pytest.mark.parametrize(
    ("log", "code", "words"),
    [
        ("[ERROR DPL-0036] Detailed placement failed.\n[ERROR X-1] later\nSTOPPED: x", 1,
         "Detailed placement failed. (DPL-0036)"),
        ("[CRITICAL RSZ-2007] buffering pin: no options\n", 1,
         "buffering pin: no options (RSZ-2007)"),
        ("[INFO X] fine\nSTOPPED: the memories do not fit", 1, "the memories do not fit"),
        ("half a line", -9, "ended with signal 9: half a line"),
        ("", 3, "ended with exit code 3: nothing printed"),
    ],
)  # fmt: skip
def test_the_first_error_is_named(log, code, words):
    assert reason(log, code) == words


def test_figures_are_read_from_the_step_s_log(tmp_path):
    (tmp_path / "log.txt").write_text(
        "Layer    Wire length  Percentage\n"
        "--------------------------------\n"
        "met1     5057.70um    40%\nmet2     6030.60um    48%\n"
        "Total wire length on LAYER met1 = 3052 um.\n"
        "[INFO DRT-0199]   Number of violations = 24.\n"
        "Total number of vias = 2459.\n"
        "[INFO DRT-0199]   Number of violations = 0.\n"
        "Total wire length on LAYER met1 = 3045 um.\nTotal number of vias = 2463.\n"
    )
    figures = json.loads('{"slack": 1.5}')
    routed = layout.Step("routed", tmp_path, figures)
    assert (routed.wire_by_layer, routed.violations, routed.vias) == ({"met1": 3045.0}, 0, 2463)
    before = layout.Step("global", tmp_path, figures)
    assert before.wire_by_layer == {"met1": 5057.7, "met2": 6030.6}
    assert before.violations is None and before.vias is None
