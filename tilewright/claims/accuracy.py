"""Losses of formats on open language models, for the papers' figures of theirs.

The records of ``tilewright search`` and ``tilewright kv`` are of SmolLM2-135M; those of
``tilewright.cli.model_records`` are of a model of each of three families. All are smaller than the
models of the papers, so that mostly trends are compared: more bits lose less, which module needs
most, how much the windows of a cache regain. A figure that a paper prints as the mean over its
models is compared with the mean over ours.
"""

from itertools import pairwise, product
from pathlib import Path
from statistics import fmean
from typing import Any

from tilewright.claims import MODEL, answers
from tilewright.sim.records import NoRecordError, read_json, row_of

RECORDS = Path(__file__).parents[1] / "studies" / "accuracy" / "records"
MODULES = ("A_qkv", "A_o", "A_u", "A_d")  # in the order of a combination's lengths
FULL = "full precision"
SECOND = "gemma-3-270m"  # model on which single modules are measured too
GROUPS = (16, 32, 64, 128)
LENGTHS = range(3, 8)


def _record(name: str) -> dict[str, Any]:
    return read_json(RECORDS / f"{name}.json", f"accuracy record of {name}")


def _loss(perplexity: float, reference: float) -> float:
    return 100 * (perplexity / reference - 1)


def _row(record: str, section: str, /, **wanted: object) -> dict[str, Any]:
    return row_of(_record(record), section, "accuracy record", **wanted)


def _sensitivity(section: str, **wanted: object) -> float:
    row = _row("sensitivity", section, **wanted)
    return _loss(row["perplexity"], _record("sensitivity")["reference"])


def length_loss(length: int, group: int, everywhere: bool = False) -> float:
    """Percent of perplexity lost with one mantissa length, in projections or everywhere."""
    return _sensitivity("everywhere" if everywhere else "by_group", length=length, group=group)


def module_loss(module: str, length: int, model: str = "") -> float:
    """Percent of perplexity lost where one module alone has this mantissa length."""
    if not model:
        return _sensitivity("by_module", module=module, length=length)
    section = _record(f"models/{model}").get("modules", {"rows": []})
    row = row_of(section, "rows", "accuracy record", module=module, length=length)
    return float(100 * row["change"])


@answers(MODEL)
def bits_removed(group: int, loss_percent: float) -> float:
    """How many of an fp16 significand's 11 bits can be cut everywhere within a loss."""
    lengths = {row["length"] for row in _record("sensitivity")["by_group"]}
    short = max(n for n in lengths if length_loss(n, group) > loss_percent)
    return float(11 - 1 - short)


@answers(MODEL)
def smaller_groups_lose_less(everywhere: bool) -> bool:
    """With each mantissa length, the smaller the group the smaller the loss."""
    losses = ([length_loss(n, group, everywhere) for group in GROUPS] for n in LENGTHS)
    return all(few < many for row in losses for few, many in pairwise(row))


@answers(MODEL)
def sharp_below_eight_bits() -> bool:
    """At 7 bits everywhere more than 1% is lost, and at 6 over five times as much."""
    seven, six = (length_loss(n, 32, True) for n in (7, 6))
    return seven > 1 and six > 5 * seven


@answers(MODEL)
def qkv_loses_most() -> bool:
    """With any of these lengths in one module alone, the inputs of qkv lose most; two models."""
    cases = product(("", SECOND), (4, 5, 6, 7))
    losses = ([module_loss(module, n, model) for module in MODULES] for model, n in cases)
    return all(qkv > max(others) for qkv, *others in losses)


@answers(MODEL)
def down_projection_loses() -> bool:
    """Four or five bits in the down projection alone lose more than 1%, in two models."""
    return all(module_loss("A_d", n, model) > 1 for n in (4, 5) for model in ("", SECOND))


def cache_loss(variant: str) -> float:
    """Percent of perplexity lost with one way to store keys and values, all layers converted."""
    found, full = (_row("kv", "variants", name=name) for name in (variant, FULL))
    return _loss(found["perplexity"], full["perplexity"])


@answers(MODEL)
def cache_answers_gain(variant: str) -> float:
    """Percent of a retrieval task's answers: more right than with a cache of 4 bits alone."""
    rows = {row["name"]: row["first_choice"] for row in _record("kv")["retrieval"]}
    return float(100 * (rows[variant] - rows["4 bits"]) / rows[FULL])


def window_loss(initial: int, local: int) -> float:
    """Percent of perplexity lost with a cache of 4 bits outside windows of these sizes."""
    found = _row("kv", "windows", initial=initial, local=local)
    return _loss(found["perplexity"], _row("kv", "variants", name=FULL)["perplexity"])


@answers(MODEL)
def windows_help() -> bool:
    """A window of the latest tokens loses less than none, and one of the first ones besides."""
    return window_loss(0, 64) < window_loss(0, 0) and window_loss(32, 32) < window_loss(0, 32)


@answers(MODEL)
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


@answers(MODEL)
def search_saving(loss_percent: float) -> list[float]:
    """Saving of bit operations that a search within this loss finds, as a range of one."""
    saving = float(_search(loss_percent)["best"]["saving"])
    return [saving, saving]


def search_found(loss_percent: float) -> dict[str, int]:
    """Return the length of each module that a search within this loss finds."""
    return dict(zip(MODULES, _search(loss_percent)["best"]["lengths"], strict=True))


@answers(MODEL)
def qkv_longest(losses: tuple[float, ...]) -> bool:
    """No module has longer mantissas than the inputs of qkv."""
    return all(found["A_qkv"] == max(found.values()) for found in map(search_found, losses))


@answers(MODEL)
def down_projection_shortest(losses: tuple[float, ...]) -> bool:
    """The down projection has no longer mantissas than qkv and the output projection."""
    found = [search_found(loss) for loss in losses]
    return all(lengths["A_d"] <= min(lengths["A_qkv"], lengths["A_o"]) for lengths in found)


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


@answers(MODEL)
def mean_loss(fmt: str) -> float:
    """Percent of perplexity lost with a format, mean over the open models."""
    return fmean(model_losses(fmt).values())


@answers(MODEL)
def regained(fmt: str, over: str) -> float:
    """Points of perplexity by which a format loses less than another, on the nearest open model."""
    ours, theirs = model_losses(fmt), model_losses(over)
    return min(theirs[name] - loss for name, loss in ours.items())


@answers(MODEL)
def task_loss(fmt: str) -> float:
    """Percentage points of accuracy lost with a format, mean over zero-shot tasks; SmolLM2."""
    rows = _record("models/smollm2-135m")["zero_shot"]["rows"]
    changes = [row["change"] for row in rows if row["format"] == fmt]
    if not changes:
        raise NoRecordError(f"no accuracy record of tasks with {fmt}")
    return -100 * fmean(changes)
