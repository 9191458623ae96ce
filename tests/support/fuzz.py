"""Damaged inputs for parsers: valid ones with a few edits, drawn by a seed.

An input passes where the parser returns, or refuses it in one line with an error whose text the
command line prints. An input whose refusal no other had before is edited in turn, so that later
ones go deeper.
"""

import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.base.errors import CommandError
from tilewright.synth.yosys import SynthesisError

REFUSALS = (ValueError, OSError, CommandError, SynthesisError)
# Values that break numbers, texts and structures.
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
    """A parser and inputs that it reads."""

    name: str
    parse: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    tail: bytes = b""  # appended to every input: what is too long to be edited


def edited(content: bytes, rng: random.Random, other: bytes) -> bytes:
    """Return ``content`` with one random edit, perhaps a piece of ``other``."""
    start = rng.randint(0, len(content))
    stop = min(start + rng.randrange(24), len(content))
    before, piece, after = content[:start], content[start:stop], content[stop:]
    match rng.randrange(7):
        case 0:  # a word in its place
            return before + rng.choice(WORDS) + after
        case 1:  # a word before it
            return before + rng.choice(WORDS) + piece + after
        case 2:  # left out
            return before + after
        case 3 if after:  # one bit
            return before + piece + bytes([after[0] ^ 1 << rng.randrange(8)]) + after[1:]
        case 4:  # twice
            return before + piece + piece + after
        case 5:  # the end is missing
            return before
        case 6:
            at = rng.randint(0, len(other))
            return before + other[at : at + rng.randrange(40)] + after
    return content


def attempt(target: Target, content: bytes) -> str | None:
    """Parse it: None where it is read, else the refusal's words; anything else is an error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            target.parse(content + target.tail)
    except REFUSALS as error:
        text = str(error)
        assert text and "\n" not in text, f"{error!r} is not one line: {content[:300]!r}"
        return re.sub(r"\S*/|'[^']*'|\"[^\"]*\"|[^a-zA-Z ]", "", text)[:60]
    except Exception as error:
        raise AssertionError(f"{error!r}: {content[:300]!r}") from error
    return None


def fuzz(target: Target, inputs: int, seed: int = 1) -> set[str | None]:
    """Try damaged inputs; the refusals, and None where one was read."""
    rng, pool = random.Random(f"{target.name} {seed}"), list(target.seeds)
    found: set[str | None] = set()
    for _ in range(inputs):
        content = rng.choice(pool)
        for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
            content = edited(content, rng, rng.choice(pool))
        outcome = attempt(target, content)
        if outcome not in found and len(pool) < MOST_SEEDS:
            pool.append(content)
        found.add(outcome)
    return found
