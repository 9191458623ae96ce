"""English to measure perplexity on: a file, or prose that ships with Python itself.

The prose is that of ``pydoc_data.topics``, the Python reference as plain text, without code,
grammar, tables, headings and repetitions. It differs between versions of Python, so records have
its digest.
"""

import re
from hashlib import sha256
from importlib import import_module
from pathlib import Path

_WORDS = 20  # of the shortest paragraph taken


def default_text() -> str:
    """Paragraphs of prose from Python's reference, in the order of the topics' names."""
    topics: dict[str, str] = import_module("pydoc_data.topics").topics
    paragraphs = [
        " ".join(block.split())
        for name in sorted(topics)
        for block in re.split(r"\n\s*\n", topics[name])
        if _is_prose(block)
    ]
    return "\n\n".join(dict.fromkeys(paragraphs)) + "\n"


def read_text(path: str | Path) -> str:
    """Read a UTF-8 file."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: no UTF-8 text: {error}") from None


def digest(text: str) -> str:
    """The first 16 hexadecimal digits of its SHA-256."""
    return sha256(text.encode()).hexdigest()[:16]


def _is_prose(block: str) -> bool:
    """Flush left, starts with a capital, ends as a sentence does, long enough."""
    lines = block.strip("\n").splitlines()
    return (
        all(not line.startswith(" ") for line in lines)
        and len(block.split()) >= _WORDS
        and block.lstrip()[0].isupper()
        and block.rstrip()[-1] in ".:"
    )
