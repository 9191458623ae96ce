"""The one wording of "there is no such thing", with near matches."""

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(kind: str, name: str, known: Iterable[str], more: str = "") -> str:
    """``unknown KIND 'NAME'; did you mean ...?``, or all known names where none is near."""
    names = list(known)
    near = get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    return f"unknown {kind} {name!r}; {hint}" + (f" ({more})" if more else "")
