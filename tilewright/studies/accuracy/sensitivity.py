"""How perplexity depends on mantissa length and group size, module by module and together."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from tilewright.golden.llm.formats import ANDA_GROUP, BlockSites
from tilewright.golden.llm.sites import LINEAR_SITES, Site
from tilewright.studies.accuracy.subject import Subject

__all__ = ["ByGroup", "ByModule", "by_group", "by_module"]

LENGTHS = range(3, 11)
GROUPS = (16, 32, 64, 128)
Tick = Callable[[str], None]


@dataclass(frozen=True)
class ByModule:
    """Perplexity with one module at a mantissa length, all others in full precision."""

    module: str
    length: int
    perplexity: float


@dataclass(frozen=True)
class ByGroup:
    """Perplexity with several sites at one mantissa length and group size."""

    group: int
    length: int
    perplexity: float


def by_module(
    subject: Subject, lengths: Iterable[int] = LENGTHS, tick: Tick = lambda _: None
) -> list[ByModule]:
    """Measure one of Anda's modules at a time, the others in full precision."""
    return [
        ByModule(site.value, length, _measured(subject, [site], length, ANDA_GROUP, tick))
        for site in LINEAR_SITES
        for length in lengths
    ]


def by_group(
    subject: Subject,
    sites: Collection[Site],
    lengths: Iterable[int] = LENGTHS,
    groups: Sequence[int] = GROUPS,
    tick: Tick = lambda _: None,
) -> list[ByGroup]:
    """Measure all of ``sites`` at one length, the others in full precision, by group size."""
    return [
        ByGroup(group, length, _measured(subject, sites, length, group, tick))
        for group in groups
        for length in lengths
    ]


def _measured(
    subject: Subject, sites: Collection[Site], length: int, group: int, tick: Tick
) -> float:
    names = "all sites" if set(sites) == set(Site) else " ".join(site.value for site in sites)
    name = f"{names} at {length} bits, group {group}"
    tick(name)
    return subject.measure(name, BlockSites(dict.fromkeys(sites, length), group))
