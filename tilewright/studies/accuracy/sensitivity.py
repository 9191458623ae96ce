"""How perplexity depends on mantissa length and group size, module by module and together."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from tilewright.golden.llm.formats import ANDA_GROUP
from tilewright.golden.llm.sites import LINEAR_SITES, Site
from tilewright.studies.accuracy.anda import in_linears
from tilewright.studies.accuracy.frontier import one_length
from tilewright.studies.accuracy.subject import Subject
from tilewright.torch.config import KIND_OF_NAME, KINDS

__all__ = ["by_group", "by_module"]

LENGTHS = range(3, 11)
GROUPS = (16, 32, 64, 128)
Tick = Callable[[str], None]


def by_module(
    subject: Subject, lengths: Iterable[int] = LENGTHS, tick: Tick = lambda _: None
) -> list[dict[str, Any]]:
    """Perplexities with one of Anda's modules at a length, the others in full precision."""
    return [
        {
            "module": site.value,
            "length": length,
            "perplexity": _measured(subject, [site], length, ANDA_GROUP, tick),
        }
        for site in LINEAR_SITES
        for length in lengths
    ]


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
        {
            "group": group,
            "length": length,
            "perplexity": _measured(subject, sites, length, group, tick),
        }
        for group in groups
        for length in lengths
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
