"""How perplexity depends on mantissa length and group size, module by module and together."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from golden.llm.formats import ANDA_GROUP, AndaFormat, BlockSites
from golden.llm.sites import LINEAR_SITES, Format, Site
from tilewright.accuracy.subject import Subject

__all__ = ["by_group", "by_module", "everywhere"]

LENGTHS = range(3, 11)
GROUPS = (16, 32, 64, 128)
Tick = Callable[[str], None]


def by_module(
    subject: Subject, lengths: Iterable[int] = LENGTHS, tick: Tick = lambda _: None
) -> list[dict[str, Any]]:
    """One of Anda's modules at a time, the others in full precision."""
    rows = []
    for site in LINEAR_SITES:
        for length in lengths:
            fmt = BlockSites({site: length}, ANDA_GROUP)
            name = f"{site.value} alone {length} bits, group {ANDA_GROUP}"
            row = {"module": site.value, "length": length}
            rows.append(row | {"perplexity": _measured(subject, name, fmt, tick)})
    return rows


def by_group(
    subject: Subject,
    lengths: Iterable[int] = LENGTHS,
    groups: Sequence[int] = GROUPS,
    tick: Tick = lambda _: None,
) -> list[dict[str, Any]]:
    """All four of Anda's modules at one length, by group size."""
    rows = []
    for group in groups:
        for length in lengths:
            name = f"anda {'/'.join([str(length)] * 4)}"
            if group != ANDA_GROUP:
                name += f", group {group}"
            perplexity = _measured(subject, name, AndaFormat((length,) * 4, group), tick)
            rows.append({"group": group, "length": length, "perplexity": perplexity})
    return rows


def everywhere(
    subject: Subject,
    lengths: Iterable[int] = LENGTHS,
    groups: Sequence[int] = GROUPS,
    tick: Tick = lambda _: None,
) -> list[dict[str, Any]]:
    """All eight sites at one length, cached keys and values too: Harmonia without its cache."""
    rows = []
    for group in groups:
        for length in lengths:
            name = f"all sites {length} bits, group {group}"
            fmt = BlockSites(dict.fromkeys(Site, length), group)
            perplexity = _measured(subject, name, fmt, tick)
            rows.append({"group": group, "length": length, "perplexity": perplexity})
    return rows


def _measured(subject: Subject, name: str, fmt: Format, tick: Tick) -> float:
    tick(name)
    return subject.measure(name, fmt)
