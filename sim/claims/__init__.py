"""What the papers say: TOML files beside this module, one ``[[claim]]`` per figure.

A paper's claims are in ``PAPER.toml`` and in files of that name in folders here. A claim is on the
scoreboard when ``evaluate`` names a function of ``tilewright.sim.evaluations``, or when ``reason``
says why none can answer it. A claim with a ``study`` is compared by that study of
``tilewright.studies``; every other claim is a value that models, tests and the report read.
"""

import tomllib
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.golden.params.block import require
from tilewright.golden.params.names import unknown
from tilewright.sim.claims.classes import ClaimClass

__all__ = [
    *("CLAIMS", "Claim", "ClaimClass", "Compare", "Value"),
    *("claims_of_study", "find_claim", "load_claims", "papers", "reference_claims"),
]

CLAIMS = Path(__file__).parent

Value = bool | int | float | str | list["Value"] | dict[str, "Value"]


class Compare(StrEnum):
    """How a published value and ours are compared."""

    RELATIVE = "relative"  # equal within a share of the published value; a list entry by entry
    ABSOLUTE = "absolute"  # equal within a distance in the claim's unit
    AT_LEAST = "at_least"
    AT_MOST = "at_most"
    LESS_THAN = "less_than"
    INSIDE = "inside"  # both ends of our range within those of the published one
    TRUE = "true"  # the statement holds
    EQUAL = "equal"  # the same numbers, words or lists, without a tolerance

    @property
    def is_equality(self) -> bool:
        """Whether a figure is met or missed; the others are bounds and statements."""
        return self.has_tolerance or self is Compare.EQUAL

    @property
    def has_tolerance(self) -> bool:
        """Whether a figure is met within a tolerance, which the claim states."""
        return self in (Compare.RELATIVE, Compare.ABSOLUTE, Compare.INSIDE)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One figure of a paper, or several under one head.

    In a file ``with`` gives ``arguments`` and ``class`` gives ``stated_class``, which overrides
    the class that follows from how the claim is evaluated (``tilewright.sim.classes``).
    """

    paper: str  # the file's name, not one of its keys
    id: str
    value: Value = field(hash=False)
    where: str  # place in the paper
    unit: str = ""
    note: str = ""
    table: str = ""  # whose residuals are stated together
    compare: Compare = Compare.RELATIVE
    tolerance: float | None = None  # a share where relative or inside, in units where absolute
    evaluate: str = ""  # the function of tilewright.sim.evaluations that answers it
    study: str = ""  # the study that compares it
    arguments: dict[str, Any] = field(hash=False, default_factory=dict)  # of evaluate or study
    reason: str = ""  # of a known deviation, or why nothing answers the claim
    shown_by: str = ""  # the function of tilewright.sim.evaluations.reasons that shows the reason
    stated_class: ClaimClass | None = None
    same_as: str = ""  # id of the claim of which this one is the same figure: they count once
    derived_from: tuple[str, ...] = ()  # ids of the claims whose figures give this one

    def __post_init__(self) -> None:
        require(self.id.startswith(f"{self.paper}."), f"the id must begin with {self.paper}.")
        require(self.where != "", "where must name the place in the paper")
        require(not (self.evaluate and self.study), "evaluate and study exclude each other")
        require(bool(self.shown_by) <= bool(self.reason), "shown_by needs reason")
        require(
            bool(self.stated_class or self.same_as or self.derived_from) <= bool(self.evaluate),
            "class, same_as and derived_from need evaluate",
        )
        require(
            bool(self.arguments) <= bool(self.evaluate or self.study),
            "with needs evaluate or study",
        )
        statement = self.compare is Compare.TRUE
        require(
            not self.on_scoreboard or statement == isinstance(self.value, bool),
            f"compare = 'true' goes with a truth value, not with {self.value!r}",
        )
        toleranced = bool(self.evaluate) and self.compare.has_tolerance
        require(
            (self.tolerance is not None) == toleranced,
            "tolerance goes with evaluate where compare is relative, absolute or inside",
        )

    @property
    def on_scoreboard(self) -> bool:
        """Whether the scoreboard has a verdict on it; "not modelled" is one."""
        return bool(self.evaluate or (self.reason and not self.study))

    @property
    def number(self) -> float:
        """The value of a claim that states one number."""
        require(isinstance(self.value, int | float), f"{self.id} is not one number")
        assert isinstance(self.value, int | float)
        return self.value

    @property
    def numbers(self) -> dict[str, float]:
        """The values of a claim that states several numbers by name."""
        table = self.value if isinstance(self.value, dict) else {}
        found = {name: part for name, part in table.items() if isinstance(part, int | float)}
        require(bool(found) and len(found) == len(table), f"{self.id} is not a table of numbers")
        return found


@cache
def papers() -> tuple[str, ...]:
    """Return the names of the papers, in alphabetical order."""
    return tuple(sorted(path.stem for path in CLAIMS.glob("*.toml")))


def load_claims(paper: str) -> dict[str, Claim]:
    """Return the claims of one paper by id, in the order of its files, ``PAPER.toml`` first."""
    if paper not in papers():
        raise ValueError(unknown("paper", paper, papers()))
    return _read(CLAIMS / f"{paper}.toml", *sorted(CLAIMS.glob(f"*/{paper}.toml")))


def reference_claims(paper: str) -> dict[str, Claim]:
    """Return the claims of one paper that neither the scoreboard nor a study answers."""
    claims = load_claims(paper)
    return {i: c for i, c in claims.items() if not (c.on_scoreboard or c.study)}


def find_claim(name: str) -> Claim:
    """Return the claim whose id is ``name``."""
    known = {claim.id: claim for paper in papers() for claim in load_claims(paper).values()}
    if name not in known:
        raise ValueError(unknown("claim", name, known))
    return known[name]


def claims_of_study(study: str) -> list[Claim]:
    """Return the claims of all papers that one study compares."""
    every = (claim for paper in papers() for claim in load_claims(paper).values())
    return [claim for claim in every if claim.study == study]


@cache
def _read(*paths: Path) -> dict[str, Claim]:
    found: dict[str, Claim] = {}
    for path in paths:
        for entry in tomllib.loads(path.read_text())["claim"]:
            name = str(entry.get("id", "a claim without an id"))
            try:
                require(name not in found, "the id is there twice")
                found[name] = _claim(path.stem, entry)
            except ValueError as error:
                raise ValueError(f"{path.name}: {name}: {error}") from None
    return found


KEYS = {"arguments": "with", "stated_class": "class"}  # fields whose key has another name
TYPES: dict[str, type | tuple[type, ...]] = {
    **{"tolerance": (int, float), "with": dict, "value": object},
    "derived_from": list,
}


def _claim(paper: str, entry: dict[str, Any]) -> Claim:
    """Check the keys of an entry; ``Claim`` itself checks their values."""
    names = {KEYS.get(f.name, f.name): f.name for f in fields(Claim) if f.name != "paper"}
    for key in entry:
        require(key in names, unknown("key", key, sorted(names)))
    for key in ("id", "value", "where"):
        require(key in entry, f"the key {key!r} is missing")
    for key, value in entry.items():
        require(isinstance(value, TYPES.get(key, str)), f"{key} cannot be {value!r}")
    found = {names[key]: value for key, value in entry.items()}
    for key, words in (("compare", Compare), ("class", ClaimClass)):
        if key in entry:
            require(entry[key] in list(words), unknown(key, str(entry[key]), list(words)))
            found[names[key]] = words(entry[key])
    if "derived_from" in entry:
        found["derived_from"] = tuple(entry["derived_from"])
    return Claim(paper=paper, **found)
