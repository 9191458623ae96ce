"""How much of what the papers state is evaluated here, and why the rest is not.

The list of a paper's claims is its file in ``sim/claims/coverage`` and those of the files beside
that folder which ``listed.toml`` names; figures that only follow from printed ones, and are on the
scoreboard for a test of the model, are not part of it.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from tilewright.sim.claims import CLAIMS, Claim, load_claims, papers
from tilewright.sim.scoreboard import Result

__all__ = ["FOLDER", "SET_UP", "Coverage", "coverage", "listed_claims", "reasons"]

FOLDER = CLAIMS / "coverage"
# Reason of the claims that no hardware or model could answer.
SET_UP = "describes how the paper measured or drew: nothing of ours to compare with"


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """The listed claims of one paper, or of all: ``claims`` is the sum of the other three."""

    name: str
    claims: int
    evaluated: int
    set_up: int  # how the paper measured or drew
    cannot: int  # others that are not evaluated, each with its reason

    @property
    def can_be(self) -> int:
        """Claims that say something of hardware, formats, algorithms or results."""
        return self.claims - self.set_up

    @property
    def evaluated_percent(self) -> float:
        """Share of the evaluated ones among those that say something."""
        return 100 * self.evaluated / self.can_be if self.can_be else 0.0

    def as_dict(self) -> dict[str, object]:
        """Return plain data, as JSON has it for programs."""
        return asdict(self) | {"can_be": self.can_be, "evaluated_percent": self.evaluated_percent}


def listed_claims(paper: str) -> list[Claim]:
    """Return the claims of a paper's list, in the order of its files."""
    own = {entry["id"] for entry in tomllib.loads((FOLDER / f"{paper}.toml").read_text())["claim"]}
    beside = set(tomllib.loads((FOLDER / "listed.toml").read_text())[paper])
    return [claim for name, claim in load_claims(paper).items() if name in own | beside]


def coverage(results: dict[str, list[Result]]) -> list[Coverage]:
    """Count the listed claims of each paper in these results, and then all of them."""
    found = []
    for paper, rows in results.items():
        names = {claim.id for claim in listed_claims(paper)}
        mine = [r for r in rows if r.id in names]
        evaluated = sum(r.ours is not None for r in mine)
        set_up = sum(r.ours is None and r.reason == SET_UP for r in mine)
        cannot = len(names) - evaluated - set_up
        found.append(
            Coverage(
                name=paper, claims=len(names), evaluated=evaluated, set_up=set_up, cannot=cannot
            )
        )
    sums = {
        field: sum(getattr(part, field) for part in found)
        for field in ("claims", "evaluated", "set_up", "cannot")
    }
    return [*found, Coverage(name="all", **sums)]


def reasons(results: Iterable[Result]) -> dict[str, int]:
    """Return why listed claims are not evaluated, the most frequent reason first."""
    names = {claim.id for paper in papers() for claim in listed_claims(paper)}
    counted = Counter(r.reason for r in results if r.id in names and r.ours is None)
    return dict(counted.most_common())
