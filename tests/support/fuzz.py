"""Damaged inputs for parsers: a valid one with a few edits, and whatever was found on the way.

An input passes where the parser returns or refuses it in one line, with an error whose text the
command line prints. Anything else is a finding: another exception, a warning, text of several
lines. An input whose refusal no other had before becomes a seed of its own, so that later ones go
deeper.
"""

import random
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tilewright.base.errors import CommandError
from tilewright.synth.yosys import SynthesisError

__all__ = ["Finding", "Tally", "Target", "attempt", "damaged", "edited", "fuzz"]

REFUSALS = (ValueError, OSError, CommandError, SynthesisError)
# What breaks numbers, texts and structures.
_TEXTS = (
    *("", "0", "-1", "1", "2", "255", "65536", "4294967296", "9" * 30, "1e999", "-0.0", "nan"),
    *("null", "true", "[]", "{}", '""', "[[", "]]", "{{", '"', "'", "\\", ",", ":", ";", "="),
    *("(", ")", "#", "\n", "\r", "\t", " ", "\0", "/", "..", "%", "é", "\ufeff", "²", "٣"),
)
_BYTES = (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x80", b"\xff" * 8)
WORDS = (*(text.encode() for text in _TEXTS), *_BYTES)
MOST_SEEDS = 400


@dataclass(frozen=True)
class Target:
    """A parser, what it takes, and inputs that it reads."""

    name: str
    parse: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    tail: bytes = b""  # put behind every input: what is too long to be edited


@dataclass(frozen=True)
class Finding:
    """An input and what went wrong with it."""

    content: bytes
    error: str

    def __str__(self) -> str:
        return f"{self.error}: {self.content[:300]!r}"


@dataclass
class Tally:
    """Of one run."""

    inputs: int = 0
    read: int = 0
    refusals: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)


Edit = tuple[int, int, int, int]  # kind, place, length, word: any numbers


def edited(content: bytes, edits: list[Edit], other: bytes = b"") -> bytes:
    """Return ``content`` with each edit made in turn; places are taken modulo its length."""
    for kind, place, length, word in edits:
        size = len(content)
        start = place % (size + 1)
        stop = min(start + length % 24, size)
        piece = WORDS[word % len(WORDS)]
        match kind % 7:
            case 0:  # replaced by a word
                content = content[:start] + piece + content[stop:]
            case 1:  # put in
                content = content[:start] + piece + content[start:]
            case 2:  # left out
                content = content[:start] + content[stop:]
            case 3 if size:  # one bit
                at = place % size
                flipped = bytes([content[at] ^ 1 << word % 8])
                content = content[:at] + flipped + content[at + 1 :]
            case 4:  # twice
                content = content[:stop] + content[start:]
            case 5:  # the end is missing
                content = content[:start]
            case 6:  # a piece of another input
                at = word % (len(other) + 1)
                content = content[:start] + other[at : at + length % 40] + content[stop:]
    return content


def attempt(target: Target, content: bytes) -> str | Finding | None:
    """Parse it: None where it is read, its refusal without numbers, or what went wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            target.parse(content + target.tail)
    except REFUSALS as error:
        text = str(error)
        if not text or "\n" in text:
            return Finding(content, f"{type(error).__name__} is not one line: {text!r}")
        return re.sub(r"\S*/|'[^']*'|\"[^\"]*\"|[^a-zA-Z ]", "", text)[:60]
    except Exception as error:
        return Finding(content, f"{type(error).__name__}: {error}")
    return None


def damaged(target: Target, rng: random.Random, pool: list[bytes]) -> Iterator[bytes]:
    """Draw inputs for ever: seeds and earlier finds with one to four edits."""
    while True:
        edits = [
            (rng.randrange(7), rng.randrange(1 << 20), rng.randrange(64), rng.randrange(1 << 10))
            for _ in range(rng.choice((1, 1, 1, 2, 3, 4)))
        ]
        yield edited(rng.choice(pool), edits, rng.choice(pool))


def fuzz(target: Target, seed: int, goes_on: Callable[[Tally], bool]) -> Tally:
    """Try damaged inputs while ``goes_on`` says so; every kind of finding is kept once."""
    rng, pool, tally = random.Random(f"{target.name} {seed}"), list(target.seeds), Tally()
    kinds: set[str] = set()
    for content in damaged(target, rng, pool):
        if not goes_on(tally):
            return tally
        tally.inputs += 1
        outcome = attempt(target, content)
        if outcome is None:
            tally.read += 1
        elif isinstance(outcome, Finding):
            kind = re.sub(r"\d+|'[^']*'", "", outcome.error)[:60]
            if kind not in kinds:
                kinds.add(kind)
                tally.findings.append(outcome)
        elif outcome not in tally.refusals:
            tally.refusals.add(outcome)
            if len(pool) < MOST_SEEDS:
                pool.append(content)
    raise AssertionError("inputs never end")
