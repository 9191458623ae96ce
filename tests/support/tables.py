"""Parameters of tests written as lines of text."""

import shlex


def table_rows(text: str) -> list[tuple[list[str], str]]:
    """Lines ``words | text``, as (words, text); words are quoted as in a shell."""
    pairs = (line.split(" | ", 1) for line in text.strip().splitlines())
    return [(shlex.split(words), rest) for words, rest in pairs]
