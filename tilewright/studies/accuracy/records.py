"""The committed results: ``tilewright/studies/accuracy/records/*.json``, and how each is made.

A record names its subject (model, weights, text, windows), what computed it and the command that
makes it again. Every perplexity in it is also in the log that the command writes, if it writes one.
"""

import json
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tilewright.base.records import write_record
from tilewright.golden.harmonia.cached_attention import CacheFormat
from tilewright.golden.harmonia.llm_format import HarmoniaFormat
from tilewright.golden.llm.engine import Evaluation
from tilewright.golden.llm.model import Model
from tilewright.golden.llm.search import STARTS
from tilewright.golden.llm.sites import LINEAR_SITES, PLAIN, Site
from tilewright.studies.accuracy import anda, frontier, harmonia, retrieval, sensitivity
from tilewright.studies.accuracy.subject import Subject, open_subject

__all__ = [
    *("COMMAND", "FILE_MAKERS", "MAKERS", "RECORDS", "load_record", "make_all_records"),
    *("save_record", "update_records"),
]

RECORDS = Path(__file__).with_name("records")
TOLERANCES = (0.001, 0.01)  # the two of the Anda paper's Table II
ITERATIONS = 32
SITE_ITERATIONS = 96  # twice the sites, twice the way down
WINDOWS = {"initial": (0, 32, 64), "local": (0, 32, 64, 128)}
ROUNDING = 1e-9  # of a tolerance that a perplexity gives, so that this one keeps it
QUIZZES = 4  # seeds
SEED = 0
LEARNED = "learned factors"  # what subjects of one model and text may share

COMMAND = "python -m tilewright.cli.accuracy_records"  # makes all records
COMMAND_RECORDS = {"search": ("search", "sensitivity"), "kv": ("kv", "frontier")}

Tick = Callable[[str], None]


def load_record(name: str, folder: Path = RECORDS) -> dict[str, Any] | None:
    """The record called ``name``, if it has been made."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def save_record(name: str, record: dict[str, Any], folder: Path = RECORDS) -> Path:
    """Write the record called ``name`` and return its path."""
    path = folder / f"{name}.json"
    write_record(path, record)
    return path


def describe(subject: Subject, command: str) -> dict[str, Any]:
    """The beginning of every record: subject, seed, engine and the command that makes it."""
    engine = "numpy"
    if subject.engine is not Evaluation:
        from tilewright.studies.accuracy.torch_engine import device_name

        engine = device_name()
    return {"subject": asdict(subject.identity), "seed": SEED, "engine": engine, "command": command}


def search_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """Algorithm 1 at both tolerances of the paper, brute force around its result."""
    searches = []
    for tolerance in TOLERANCES:
        found = anda.searched(
            subject, tolerance, ITERATIONS, lambda trial: tick(anda.text_of(trial.lengths))
        )
        entry = found.as_record()
        if found.best is not None:
            nearby = anda.brute_forced(
                subject,
                tolerance,
                found.best.lengths,
                watch=lambda trial: tick(f"brute force {anda.text_of(trial.lengths)}"),
            )
            entry["brute_force"] = nearby.as_record()
        searches.append(entry)
    full = {
        "calibration": subject.measure("file", PLAIN, model=lambda: subject.original),
        "validation": subject.measure(
            "file", PLAIN, validation=True, model=lambda: subject.original
        ),
    }
    # The shape, so that what the lengths mean on a machine can be computed without the model.
    shape = asdict(subject.model.config)
    return {"shape": shape, "weights_of_file": full, "searches": searches}


def sensitivity_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """Length and group size, by module, in all linear modules and at all sites."""
    modules = sensitivity.by_module(subject, tick=tick)
    groups = sensitivity.by_group(subject, LINEAR_SITES, tick=tick)
    # Cached keys and values too: Harmonia without what its cache adds.
    everywhere = sensitivity.by_group(subject, list(Site), tick=tick)
    return {
        "reference": anda.reference(subject),
        "by_module": [asdict(row) for row in modules],
        "by_group": [asdict(row) for row in groups],
        "everywhere": [asdict(row) for row in everywhere],
    }


def kv_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """Variants of the cache on the validation text, sizes of the windows, retrieval."""
    learned, smooth = _smooth_model(subject, tick)
    return {
        "cache_tokens": harmonia.CACHE_TOKENS,
        "variants": _cache_rows(subject, smooth, tick),
        "learning": learned,
        "windows": _window_sizes(subject, tick),
        "retrieval": _retrieval(subject, smooth, tick),
    }


def _smooth_model(subject: Subject, tick: Tick) -> tuple[dict[str, Any], Callable[[], Model]]:
    """How learning went, and the model with the factors; each made once for all records."""
    shared = subject.shared
    if LEARNED not in shared:
        shared[LEARNED] = harmonia.smoothed(
            subject, seed=SEED, progress=lambda k, n: tick(f"factors {k}/{n}")
        )
    found = shared[LEARNED]
    if "smooth" not in shared:
        shared["smooth"] = harmonia.folded(subject, found)
    summary = {
        "steps": harmonia.LEARNING_STEPS,
        "tokens": harmonia.LEARNING_TOKENS * harmonia.LEARNING_SEQUENCES,
        "error_before": list(found.before),
        "error_after": list(found.after),
    }
    return summary, lambda: shared["smooth"]


def _window_sizes(subject: Subject, tick: Tick) -> list[dict[str, Any]]:
    rows = []
    for initial in WINDOWS["initial"]:
        for local in WINDOWS["local"]:
            cache = CacheFormat(initial=initial, local=local, offset_channels=0)
            name = f"windows {initial} and {local}"
            tick(name)
            perplexity = subject.measure(name, HarmoniaFormat(cache=cache), validation=True)
            rows.append({"initial": initial, "local": local, "perplexity": perplexity})
    return rows


def _retrieval(subject: Subject, smooth: Callable[[], Model], tick: Tick) -> list[dict[str, Any]]:
    if subject.model.tokenizer is None:
        return []
    quizzes = [
        retrieval.make_quiz(
            subject.model, subject.tokens[::-1][: retrieval.TOKENS][::-1], seed=seed
        )
        for seed in range(QUIZZES)
    ]
    rows = []
    for variant in harmonia.variants():
        tick(f"retrieval: {variant.name}")
        model = smooth() if variant.smooth else subject.model
        fmt = PLAIN if variant.fmt is None else variant.fmt
        scores = [quiz.score(subject.engine, model, fmt) for quiz in quizzes]
        rows.append(
            {
                "name": variant.name,
                "likelihood": sum(s["likelihood"] for s in scores) / len(scores),
                "first_choice": sum(s["first_choice"] for s in scores) / len(scores),
            }
        )
    return rows


def frontier_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """The search over all eight sites, as good as Harmonia and within 1%, for three goals.

    Once with one length whatever a token's age, once within Harmonia's windows; there also down
    from Harmonia's own lengths, for what can be had without giving anything up.
    """
    _, smooth = _smooth_model(subject, tick)
    fixed = frontier.fixed_points(
        subject,
        harmonia.variants(),
        lambda variant, judged: harmonia.measure(subject, variant, smooth, validation=judged),
    )
    reference = anda.reference(subject)
    paper = next(p for p in fixed if p["name"] == "4 bits, windows, offsets, factors")
    as_good = max(0.0, paper["perplexity"] / reference - 1) + ROUNDING
    one_length = frontier.Space("one length", frontier.one_length)
    windows = frontier.Space("windows", frontier.within_windows, smooth)
    searches = [
        frontier.extended_search(subject, space, starts, goal, tolerance, SITE_ITERATIONS, tick)
        for space, starts, tolerance in (
            (one_length, STARTS, as_good),
            (one_length, STARTS, TOLERANCES[1]),
            (windows, STARTS, as_good),
            (windows, STARTS, TOLERANCES[1]),
            (windows, [frontier.HARMONIA], as_good),
        )
        for goal in ("computed", "moved", "both")
    ]
    prices = frontier.Prices(subject.model.config)
    return {
        "context": frontier.CONTEXT,
        "reference": reference,
        "validation_reference": anda.reference(subject, validation=True),
        "full": prices.full,
        "fixed": fixed,
        "searches": searches,
    }


def search_file_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """Algorithm 1 beside the file's own weights: what do INT4 weights change about it?"""
    found = anda.searched(
        subject, TOLERANCES[1], ITERATIONS, lambda trial: tick(anda.text_of(trial.lengths))
    )
    return found.as_record()


def kv_file_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """Variants of the cache beside the file's own weights."""
    _, smooth = _smooth_model(subject, tick)
    rows = _cache_rows(subject, smooth, tick)
    return {"cache_tokens": harmonia.CACHE_TOKENS, "variants": rows}


def _cache_rows(subject: Subject, smooth: Callable[[], Model], tick: Tick) -> list[dict[str, Any]]:
    return [asdict(row) for row in harmonia.table(subject, harmonia.variants(), smooth, tick)]


MAKERS: dict[str, Callable[[Subject, Tick], dict[str, Any]]] = {
    "search": search_record,
    "sensitivity": sensitivity_record,
    "kv": kv_record,
    "frontier": frontier_record,
}

FILE_MAKERS: dict[str, Callable[[Subject, Tick], dict[str, Any]]] = {  # weights as in the file
    "search-file": search_file_record,
    "kv-file": kv_file_record,
}


def update_records(subject: Subject, name: str, command: str, tick: Tick) -> None:
    """Make again the committed records of the command ``name``, which is ``search`` or ``kv``.

    For a subject with the file's own weights that is one record, called NAME-file. ``command`` is
    the command line that the records will name.
    """
    names = (f"{name}-file",) if subject.weights == "file" else COMMAND_RECORDS[name]
    for record in names:
        made = (MAKERS | FILE_MAKERS)[record](subject, tick)
        tick(f"wrote {save_record(record, describe(subject, command) | made)}")


def _prefixed(tick: Tick, name: str) -> Tick:
    return lambda doing: tick(f"{name}: {doing}")


def make_all_records(
    model: str,
    *,
    text: Path | None,
    tokens: int,
    window: int,
    engine: str,
    names: Collection[str],
    folder: Path,
    log: Path | None,
    tick: Tick,
) -> None:
    """Make the records ``names`` in ``folder``, with INT4 weights and then with the file's.

    Factors are learned once for all of them. ``log`` is the name of the files that remember
    perplexities, one for each kind of weights.
    """
    learned: dict[str, Any] = {}
    for weights, makers in (("search", MAKERS), ("file", FILE_MAKERS)):
        wanted = [name for name in makers if name in names]
        if not wanted:
            continue
        subject = open_subject(
            model, text=text, tokens=tokens, window=window, weights=weights, engine=engine
        )
        subject.remember(log and log.with_stem(f"{log.stem}-{weights}"))
        subject.shared.update(learned)
        tick(f"model read, weights {subject.identity.weights}")
        command = f"{COMMAND} smollm2 --tokens {tokens} --window {window}"
        for name in wanted:
            made = makers[name](subject, _prefixed(tick, name))
            tick(f"wrote {save_record(name, describe(subject, command) | made, folder)}")
        learned = {key: found for key, found in subject.shared.items() if key == LEARNED}
