"""The committed results: ``tilewright/studies/accuracy/records/*.json``, and how each is made.

A record names its subject (model, weights, text, windows), its engine and the command that
makes it again. Every perplexity in it is also in the log that the command writes, if it writes one.
"""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.records import write_record
from tilewright.golden.llm.formats import ANDA_GROUP
from tilewright.golden.llm.load import TINY
from tilewright.golden.llm.sites import LINEAR_SITES, Site
from tilewright.sim.length_search import STARTS
from tilewright.studies.accuracy import anda, frontier, harmonia
from tilewright.studies.accuracy.anda import in_linears
from tilewright.studies.accuracy.frontier import one_length
from tilewright.studies.accuracy.subject import Smoothing, Subject, in_format
from tilewright.torch.config import KIND_OF_NAME, KINDS, Config

Tick = Callable[[str], None]

NAMES = (
    *("Alice", "Robert", "Maria", "David", "Emma", "Peter", "Sarah", "Thomas"),
    *("Laura", "Daniel", "Anna", "Michael", "Julia", "George", "Helen", "Frank"),
)
TOKENS = 2048
FACTS = 12


@dataclass(frozen=True)
class Quiz:
    """Facts placed early and asked for late, in one sequence: does a shortened cache find them?

    It begins with sentences that give names a number each, goes on with prose, and ends with the
    same sentences in another order. A model that looks back finds each number's digits; their
    likelihood, and how often they are its first choice, shows what the cache still holds.
    """

    tokens: NDArray[np.int64]
    answers: NDArray[np.bool_]  # of each token but the first: is it part of an answer?

    def score(
        self, subject: Subject, config: Config | None, factors: Smoothing | None = None
    ) -> dict[str, float]:
        """Mean likelihood of an answer's token, and the share of tokens that were first choice."""
        from tilewright.torch.likelihood import token_losses

        with in_format(subject.model, config, factors):
            losses, hits = (found.numpy() for found in token_losses(subject.model, self.tokens))
        return {
            "likelihood": float(np.exp(-losses[self.answers].mean())),  # geometric mean
            "first_choice": float(hits[self.answers].mean()),
        }


def make_quiz(
    encode_text: Callable[[str], list[int]],
    start: int | None,
    filler: NDArray[np.int64],
    *,
    seed: int = 0,
    tokens: int = TOKENS,
) -> Quiz:
    """``filler`` is prose, of which as much is taken as makes a sequence of ``tokens``."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(NAMES)[:FACTS]
    numbers = rng.permutation(np.arange(1000, 10000))[:FACTS]

    def encode(text: str) -> NDArray[np.int64]:
        return np.array(encode_text(text), np.int64)

    def facts(order: NDArray) -> list[tuple[NDArray, bool]]:
        pieces = []
        for k in order:
            pieces.append((encode(f" The number of {names[k]} is"), False))
            pieces.append((encode(f" {numbers[k]}"), True))
            pieces.append((encode("."), False))
        return pieces

    early, late = facts(np.arange(FACTS)), facts(rng.permutation(FACTS))
    head = encode("Every guest was given a number.")
    tail = encode("\n\nHere are the numbers again.")
    if start is not None:  # once, before all, and not where prose had it before a window
        head, filler = np.insert(head, 0, start), filler[filler != start]
    used = sum(len(piece) for piece, _ in (*early, *late)) + len(head) + len(tail)
    between = filler[: tokens - used]
    if used + len(between) < tokens:
        raise ValueError(f"{len(filler)} tokens of prose are too few for a quiz of {tokens}")
    parts = [
        (head, False),
        *((piece, False) for piece, _ in early),  # an early number answers nothing
        (between, False),
        (tail, False),
        *late,
    ]
    sequence = np.concatenate([piece for piece, _ in parts])
    answers = np.concatenate([np.full(len(piece), is_answer) for piece, is_answer in parts])
    return Quiz(sequence, answers[1:])


LENGTHS = range(3, 11)
GROUPS = (16, 32, 64, 128)


def by_module(
    subject: Subject, lengths: Iterable[int] = LENGTHS, tick: Tick = lambda _: None
) -> list[dict[str, Any]]:
    """Perplexities with one of Anda's modules at a length, the others in full precision."""
    rows: list[dict[str, Any]] = []
    for site, length in product(LINEAR_SITES, lengths):
        found = _measured(subject, [site], length, ANDA_GROUP, tick)
        rows.append({"module": site.value, "length": length, "perplexity": found})
    return rows


def by_group(
    subject: Subject,
    lengths: Iterable[int] = LENGTHS,
    groups: Sequence[int] = GROUPS,
    tick: Tick = lambda _: None,
    *,
    everywhere: bool = False,
) -> list[dict[str, Any]]:
    """Perplexities with the linear modules at one length, or all sites, by group size."""
    sites = tuple(Site) if everywhere else LINEAR_SITES
    return [
        {"group": group, "length": m, "perplexity": _measured(subject, sites, m, group, tick)}
        for group in groups
        for m in lengths
    ]


def _measured(
    subject: Subject, sites: Collection[Site], length: int, group: int, tick: Tick
) -> float:
    everywhere = set(sites) == set(Site)
    names = "all sites" if everywhere else " ".join(site.value for site in sites)
    name = f"{names} at {length} bits, group {group}"
    tick(name)
    if everywhere:
        return subject.measure(name, one_length((length,) * len(Site), group))
    kinds = [kind for kind, site in zip(KINDS, LINEAR_SITES, strict=True) if site in sites]
    others = [leaf for leaf, kind in KIND_OF_NAME.items() if kind not in kinds]
    return subject.measure(name, in_linears((length,) * 4, group), skip=others)


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
    import torch

    gpu = subject.model.device.type == "cuda"
    where = torch.cuda.get_device_name() if gpu else "processor"
    engine = f"PyTorch {torch.__version__.partition('+')[0]}, {where}"
    return {"subject": asdict(subject.identity), "seed": SEED, "engine": engine, "command": command}


def search_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """Algorithm 1 at both tolerances of the paper, brute force around its result."""
    searches = []
    for tolerance in TOLERANCES:
        entry = anda.searched(
            subject, tolerance, ITERATIONS, lambda trial: tick(anda.text_of(trial.lengths))
        )
        if entry["best"] is not None:
            nearby = anda.brute_forced(
                subject,
                tolerance,
                entry["best"]["lengths"],
                watch=lambda trial: tick(f"brute force {anda.text_of(trial.lengths)}"),
            )
            entry["brute_force"] = anda.search_record(nearby)
        searches.append(entry)
    file = subject.reopened("file")
    return {
        # So that what the lengths mean on a machine can be computed without the model.
        "shape": asdict(subject.shape),
        "weights_of_file": {
            "calibration": anda.reference(file),
            "validation": anda.reference(file, validation=True),
        },
        "searches": searches,
    }


def sensitivity_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """Length and group size, by module, in all linear modules and at all sites."""
    return {
        "reference": anda.reference(subject),
        "by_module": by_module(subject, tick=tick),
        "by_group": by_group(subject, tick=tick),
        # Cached keys and values too: Harmonia without what its cache adds.
        "everywhere": by_group(subject, tick=tick, everywhere=True),
    }


def kv_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """Variants of the cache on the validation text, sizes of the windows, retrieval."""
    summary, factors = _factors(subject, tick)
    return {
        "cache_tokens": harmonia.CACHE_TOKENS,
        "variants": harmonia.compare_caches(subject, harmonia.variants(), factors, tick=tick),
        "learning": summary,
        "windows": _window_sizes(subject, tick),
        "retrieval": _retrieval(subject, factors, tick),
    }


def _factors(subject: Subject, tick: Tick) -> tuple[dict[str, Any], Callable[[], Smoothing]]:
    if LEARNED not in subject.shared:
        subject.shared[LEARNED] = harmonia.learned(
            subject, seed=SEED, progress=lambda k, n: tick(f"factors {k}/{n}")
        )
    found = subject.shared[LEARNED]
    summary = {
        "steps": harmonia.LEARNING_STEPS,
        "tokens": harmonia.LEARNING_TOKENS * harmonia.LEARNING_SEQUENCES,
        "error_before": [layer.before for layer in found.values()],
        "error_after": [layer.after for layer in found.values()],
    }
    return summary, lambda: {name: layer.factors for name, layer in found.items()}


def _window_sizes(subject: Subject, tick: Tick) -> list[dict[str, Any]]:
    rows = []
    for initial, local in product(WINDOWS["initial"], WINDOWS["local"]):
        fmt = replace(harmonia.WHOLE, initial=initial, local=local, offset_channels=0)
        name = f"windows {initial} and {local}"
        tick(name)
        perplexity = subject.measure(name, fmt, validation=True)
        rows.append({"initial": initial, "local": local, "perplexity": perplexity})
    return rows


def _retrieval(
    subject: Subject, factors: Callable[[], Smoothing], tick: Tick
) -> list[dict[str, Any]]:
    if subject.shape.name.rpartition("-")[0] in TINY:  # whose tokens are letters
        return []
    filler = subject.tokens[-TOKENS:]
    quizzes = [
        make_quiz(subject.encode, subject.identity.start, filler, seed=seed)
        for seed in range(QUIZZES)
    ]
    rows = []
    for variant in harmonia.variants():
        tick(f"retrieval: {variant.name}")
        given = factors() if variant.smooth else None
        scores = [quiz.score(subject, variant.fmt, given) for quiz in quizzes]
        rows.append(
            {"name": variant.name} | {k: sum(s[k] for s in scores) / len(scores) for k in scores[0]}
        )
    return rows


def frontier_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """The search over all eight sites, as good as Harmonia and within 1%, for three goals.

    With one length whatever a token's age, and within Harmonia's windows, there also down from its
    lengths.
    """
    _, factors = _factors(subject, tick)
    fixed = frontier.fixed_points(
        subject,
        harmonia.variants(),
        lambda variant, judged: harmonia.measure(subject, variant, factors, validation=judged),
    )
    reference = anda.reference(subject)
    paper = next(p for p in fixed if p["name"] == "4 bits, windows, offsets, factors")
    as_good = max(0.0, paper["perplexity"] / reference - 1) + ROUNDING
    one_length = frontier.Space("one length", frontier.one_length)
    windows = frontier.Space("windows", frontier.within_windows, factors)
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
    prices = frontier.Prices(subject.shape)
    return {
        "context": frontier.CONTEXT,
        "reference": reference,
        "validation_reference": anda.reference(subject, validation=True),
        "full": prices.full,
        "fixed": fixed,
        "searches": searches,
    }


def search_file_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """Algorithm 1 with the file's own weights, to compare with INT4 weights."""
    return anda.searched(
        subject, TOLERANCES[1], ITERATIONS, lambda trial: tick(anda.text_of(trial.lengths))
    )


def kv_file_record(subject: Subject, tick: Tick) -> dict[str, Any]:
    """Variants of the cache with the file's own weights."""
    _, factors = _factors(subject, tick)
    rows = harmonia.compare_caches(subject, harmonia.variants(), factors, tick=tick)
    return {"cache_tokens": harmonia.CACHE_TOKENS, "variants": rows}


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
