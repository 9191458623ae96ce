"""The one wording of "there is no such thing", with near matches."""

from collections.abc import Iterable
from difflib import get_close_matches

CLOSE = 0.6  # of difflib's ratio: below it, names of three or four letters are near to anything
LEAST = 3  # letters of a name's beginning or end that stand for the whole


def unknown(kind: str, name: str, known: Iterable[str], more: str = "", listed: str = "") -> str:
    """``unknown KIND 'NAME'; did you mean ...?``, or all known names where none is near.

    Near are names that begin or end so; where there are none, likely typing errors.
    ``listed`` says where to find the known names if they are too many to print.
    """
    names, text = list(known), name.lower()
    longer = [n for n in names if len(text) >= LEAST and (n.startswith(text) or n.endswith(text))]
    near = longer[:3] or get_close_matches(text, names, n=3, cutoff=CLOSE)
    every = listed or f"known: {', '.join(names)}"
    hint = f"did you mean {' or '.join(near)}?" if near else every
    return f"unknown {kind} {name!r}; {hint}" + (f" ({more})" if more else "")
