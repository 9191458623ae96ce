"""What formats cost a language model that everybody can have, beside what the papers say of theirs.

The records of ``tilewright search`` and ``tilewright kv`` are of SmolLM2-135M; those of
``tilewright.cli.model_records`` are of a model of each of three families. All are smaller than the
models of the papers, so that mostly trends are compared: more bits lose less, which module needs
most, what the windows of a cache bring back. A figure that a paper prints as the mean over its
models is compared with the mean over ours.
"""

import json
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from tilewright.sim.claims.classes import ClaimClass
from tilewright.sim.evaluations.registry import evaluation
from tilewright.sim.records import NoRecordError

__all__ = ["cache_loss", "length_loss", "model_losses", "module_loss", "search_found"]

RECORDS = Path(__file__).parents[2] / "studies" / "accuracy" / "records"
MODULES = ("A_qkv", "A_o", "A_u", "A_d")  # in the order of a combination's lengths
FULL = "full precision"


@cache
def _record(name: str) -> dict[str, Any]:
    path = RECORDS / f"{name}.json"
    if not path.exists():
        raise NoRecordError(f"no accuracy record of {name}")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _loss(perplexity: float, reference: float) -> float:
    return 100 * (perplexity / reference - 1)


@evaluation(ClaimClass.MODEL)
def length_loss(length: int, group: int, everywhere: bool = False) -> float:
    """Percent of perplexity lost with one mantissa length, in projections or everywhere."""
    record = _record("sensitivity")
    for row in record["everywhere" if everywhere else "by_group"]:
        if (row["length"], row["group"]) == (length, group):
            return _loss(row["perplexity"], record["reference"])
    raise NoRecordError(f"no accuracy record of length {length} in groups of {group}")


@evaluation(ClaimClass.MODEL)
def module_loss(module: str, length: int) -> float:
    """Percent of perplexity lost where one module alone has this mantissa length."""
    record = _record("sensitivity")
    for row in record["by_module"]:
        if (row["module"], row["length"]) == (module, length):
            return _loss(row["perplexity"], record["reference"])
    raise NoRecordError(f"no accuracy record of length {length} in {module}")


@evaluation(ClaimClass.MODEL)
def bits_removed(group: int, loss_percent: float, whole: int = 11) -> float:
    """How many of an fp16 significand's bits can be cut everywhere within a loss."""
    lengths = {row["length"] for row in _record("sensitivity")["by_group"]}
    short = max(n for n in lengths if length_loss(n, group) > loss_percent)
    return float(whole - 1 - short)


@evaluation(ClaimClass.MODEL)
def cache_loss(variant: str) -> float:
    """Percent of perplexity lost with one way to store keys and values, all layers converted."""
    rows = {row["name"]: row["perplexity"] for row in _record("kv")["variants"]}
    if variant not in rows:
        raise NoRecordError(f"no accuracy record of a cache with {variant}")
    return _loss(rows[variant], rows[FULL])


@evaluation(ClaimClass.MODEL)
def cache_quiz(variant: str) -> float:
    """Percent of the answers of a retrieval task in full precision that come out right."""
    rows = {row["name"]: row["first_choice"] for row in _record("kv")["retrieval"]}
    return 100 * rows[variant] / rows[FULL]


@evaluation(ClaimClass.MODEL)
def window_loss(initial: int, local: int) -> float:
    """Percent of perplexity lost with a cache of 4 bits outside windows of these sizes."""
    record = _record("kv")
    reference = next(row["perplexity"] for row in record["variants"] if row["name"] == FULL)
    for row in record["windows"]:
        if (row["initial"], row["local"]) == (initial, local):
            return _loss(row["perplexity"], reference)
    raise NoRecordError(f"no accuracy record of windows of {initial} and {local} tokens")


@evaluation(ClaimClass.MODEL)
def cache_knee(loss_percent: float) -> float:
    """Shortest mantissa of old tokens that loses no more than this, windows and offsets on."""
    name = "{} bits for old tokens, windows, offsets"
    known = {row["name"] for row in _record("kv")["variants"]}
    lengths = [n for n in range(1, 9) if name.format(n) in known]
    return float(min(n for n in lengths if cache_loss(name.format(n)) <= loss_percent))


def _search(loss_percent: float) -> dict[str, Any]:
    for found in _record("search")["searches"]:
        if abs(100 * found["tolerance"] - loss_percent) < 1e-9:
            return dict(found)
    raise NoRecordError(f"no accuracy record of a search within {loss_percent:g}%")


@evaluation(ClaimClass.MODEL)
def search_found(loss_percent: float, figure: str) -> float:
    """Return a figure of a search: ``found_after``, ``saving``, ``validation_loss``, a length."""
    found = _search(loss_percent)
    if figure == "found_after":
        return float(found["found_after"])
    if figure == "validation_loss":
        return _loss(found["validation"]["perplexity"], found["validation"]["reference"])
    if figure in MODULES:
        return float(found["best"]["lengths"][MODULES.index(figure)])
    return float(found["best"][figure])


@evaluation(ClaimClass.MODEL)
def search_optimum(loss_percent: float) -> float:
    """Saving of the best combination of all, which only an exhaustive search is sure to find."""
    return float(_search(loss_percent)["brute_force"]["best"]["saving"])


@evaluation(ClaimClass.MODEL)
def smoothing_learns() -> bool:
    """Whether learning the factors lowered the error of every layer's attention."""
    learning = _record("kv")["learning"]
    pairs = zip(learning["error_before"], learning["error_after"], strict=True)
    return all(after < before for before, after in pairs)


def model_losses(fmt: str) -> dict[str, float]:
    """Percent of perplexity that each open model loses with a format."""
    found = {}
    for path in sorted((RECORDS / "models").glob("*.json")):
        rows = _record(f"models/{path.stem}")["perplexity"]["perplexities"]
        for row in rows:
            if row["format"] == fmt:
                found[path.stem] = 100 * row["change"]
    if not found:
        raise NoRecordError(f"no accuracy record of models with {fmt}")
    return found


@evaluation(ClaimClass.MODEL)
def mean_loss(fmt: str) -> float:
    """Percent of perplexity lost with a format, mean over the open models."""
    return fmean(model_losses(fmt).values())


@evaluation(ClaimClass.MODEL)
def regained(fmt: str, over: str) -> float:
    """Points of perplexity that a format loses less than another one, least of the models."""
    ours, theirs = model_losses(fmt), model_losses(over)
    return min(theirs[name] - loss for name, loss in ours.items())


@evaluation(ClaimClass.MODEL)
def task_loss(fmt: str) -> float:
    """Percentage points of accuracy lost with a format, mean over zero-shot tasks; SmolLM2."""
    rows = _record("models/smollm2-135m")["zero_shot"]["rows"]
    changes = [row["change"] for row in rows if row["format"] == fmt]
    if not changes:
        raise NoRecordError(f"no accuracy record of tasks with {fmt}")
    return -100 * fmean(changes)
