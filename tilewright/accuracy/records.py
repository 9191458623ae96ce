"""The committed results: ``tilewright/accuracy/records/*.json``, and how each is made.

A record names its subject (model, weights, text, windows), what computed it and the command that
makes it again. Every perplexity in it is also in the log that the command keeps, if it keeps one.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from golden.llm.cached_attention import CacheFormat
from golden.llm.engine import Evaluation
from golden.llm.formats import HarmoniaFormat
from golden.llm.model import Model
from golden.llm.sites import PLAIN
from tilewright.accuracy import anda, frontier, harmonia, retrieval, sensitivity
from tilewright.accuracy.subject import Subject, shape_of
from tilewright.files import write_atomic

__all__ = ["MAKERS", "RECORDS", "load_record", "save_record"]

RECORDS = Path(__file__).with_name("records")
TOLERANCES = (0.001, 0.01)  # the two of the Anda paper's Table II
ITERATIONS = 32
SITE_ITERATIONS = 96  # twice the sites, twice the way down
WINDOWS = {"initial": (0, 32, 64), "local": (0, 32, 64, 128)}
QUIZZES = 4  # seeds
SEED = 0

Tick = Callable[[str], None]


def load_record(name: str, folder: Path = RECORDS) -> dict[str, Any] | None:
    """The record called ``name``, if it has been made."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def save_record(name: str, record: dict[str, Any], folder: Path = RECORDS) -> Path:
    path = folder / f"{name}.json"
    write_atomic(path, json.dumps(record, indent=1) + "\n")
    return path


def describe(subject: Subject, command: str) -> dict[str, Any]:
    """What every record begins with."""
    engine = "numpy"
    if subject.engine is not Evaluation:
        from tilewright.accuracy.torch_engine import device_name

        engine = device_name()
    return {"subject": subject.identity, "seed": SEED, "engine": engine, "command": command}


def search_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """Algorithm 1 at both tolerances of the paper, brute force around its result."""
    searches = []
    for tolerance in TOLERANCES:
        found = anda.searched(
            subject, tolerance, ITERATIONS, lambda trial: tick(anda.text_of(trial.lengths))
        )
        if found["best"] is not None:
            lengths = tuple(found["best"]["lengths"])
            found["brute_force"] = anda.brute_forced(
                subject,
                tolerance,
                lengths,
                watch=lambda trial: tick(f"brute force {anda.text_of(trial.lengths)}"),
            )
        searches.append(found)
    full = {
        "calibration": subject.measure("file", PLAIN, model=lambda: subject.original),
        "validation": subject.measure(
            "file", PLAIN, validation=True, model=lambda: subject.original
        ),
    }
    # The shape, so that what the lengths mean on a machine can be computed without the model.
    shape = asdict(shape_of(subject.model))
    return {"shape": shape, "weights_of_file": full, "searches": searches}


def sensitivity_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """Length and group size, by module, in all linear modules and at all sites."""
    return {
        "reference": anda.reference(subject),
        "by_module": sensitivity.by_module(subject, tick=tick),
        "by_group": sensitivity.by_group(subject, tick=tick),
        "everywhere": sensitivity.everywhere(subject, tick=tick),
    }


def kv_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """Variants of the cache on the validation text, sizes of the windows, retrieval."""
    learned, smooth = _smooth_model(subject, tick)
    rows = []
    for variant in harmonia.variants():
        tick(variant.name)
        size = harmonia.cache_bytes(subject.model, variant.fmt)
        perplexity = harmonia.measure(subject, variant, smooth)
        rows.append({"name": variant.name, "perplexity": perplexity, "cache_bytes": size})
    return {
        "cache_tokens": harmonia.CACHE_TOKENS,
        "variants": rows,
        "learning": learned,
        "windows": _window_sizes(subject, tick),
        "retrieval": _retrieval(subject, smooth, tick),
    }


def _smooth_model(subject: Subject, tick: Tick) -> tuple[dict[str, Any], Callable[[], Model]]:
    """How learning went, and the model with the factors; learned once for all records."""
    if "factors" not in subject.shared:
        found = harmonia.smoothed(
            subject, seed=SEED, progress=lambda k, n: tick(f"factors {k}/{n}")
        )
        subject.shared["factors"] = found, harmonia.folded(subject, found)
    found, model = subject.shared["factors"]
    summary = {
        "steps": harmonia.LEARNING_STEPS,
        "tokens": harmonia.LEARNING_TOKENS * harmonia.LEARNING_SEQUENCES,
        "error_before": list(found.before),
        "error_after": list(found.after),
    }
    return summary, lambda: model


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
    """The search over all eight sites, as good as Harmonia and within 1%, for three goals."""
    _, smooth = _smooth_model(subject, tick)
    fixed = frontier.fixed_points(
        subject,
        harmonia.variants(),
        lambda variant: harmonia.measure(subject, variant, smooth, validation=False),
    )
    reference = anda.reference(subject)
    paper = next(p for p in fixed if p["name"] == "4 bits, windows, offsets, factors")
    as_good = max(0.0, paper["perplexity"] / reference - 1)
    searches = [
        frontier.extended_search(subject, goal, tolerance, SITE_ITERATIONS, tick)
        for tolerance in (as_good, TOLERANCES[1])
        for goal in ("computed", "moved", "both")
    ]
    prices = frontier.Prices(shape_of(subject.model))
    return {
        "context": frontier.CONTEXT,
        "reference": reference,
        "full": prices.full,
        "fixed": fixed,
        "searches": searches,
    }


MAKERS: dict[str, Callable[[Subject, Tick], dict[str, Any]]] = {
    "search": search_record,
    "sensitivity": sensitivity_record,
    "kv": kv_record,
    "frontier": frontier_record,
}
