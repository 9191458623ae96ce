"""What the papers say: one TOML file per paper beside this module, one ``[[claim]]`` per figure.

A claim is on the scoreboard when ``evaluate`` names a function of ``tilewright.sim.evaluations``,
or when ``reason`` says why none can answer it. A claim with a ``study`` is compared by that study
of ``tilewright.studies``; every other claim is a value that models, tests and the report read.
"""

import tomllib
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.golden.params.block import require
from tilewright.golden.params.names import unknown

__all__ = [
    *("CLAIMS", "Claim", "Compare", "Value"),
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

    @property
    def is_equality(self) -> bool:
        """Whether a figure is met or missed; the others are bounds and statements."""
        return self in (Compare.RELATIVE, Compare.ABSOLUTE, Compare.INSIDE)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One figure of a paper, or several under one head. In a file ``with`` gives ``arguments``."""

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

    def __post_init__(self) -> None:
        require(self.id.startswith(f"{self.paper}."), f"the id must begin with {self.paper}.")
        require(self.where != "", "where must name the place in the paper")
        require(not (self.evaluate and self.study), "evaluate and study exclude each other")
        require(
            bool(self.arguments) <= bool(self.evaluate or self.study),
            "with needs evaluate or study",
        )
        statement = self.compare is Compare.TRUE
        require(
            not self.on_scoreboard or statement == isinstance(self.value, bool),
            f"compare = 'true' goes with a truth value, not with {self.value!r}",
        )
        toleranced = bool(self.evaluate) and self.compare.is_equality
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
    """Return the claims of one paper by id, in the order of its file."""
    if paper not in papers():
        raise ValueError(unknown("paper", paper, papers()))
    return _read(CLAIMS / f"{paper}.toml")


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
def _read(path: Path) -> dict[str, Claim]:
    found: dict[str, Claim] = {}
    for entry in tomllib.loads(path.read_text())["claim"]:
        name = str(entry.get("id", "a claim without an id"))
        try:
            require(name not in found, "the id is there twice")
            found[name] = _claim(path.stem, entry)
        except ValueError as error:
            raise ValueError(f"{path.name}: {name}: {error}") from None
    return found


def _claim(paper: str, entry: dict[str, Any]) -> Claim:
    """Check the keys of an entry; ``Claim`` itself checks their values."""
    names = {"with" if f.name == "arguments" else f.name for f in fields(Claim)} - {"paper"}
    for key in entry:
        require(key in names, unknown("key", key, sorted(names)))
    for key in ("id", "value", "where"):
        require(key in entry, f"the key {key!r} is missing")
    for key, value in entry.items():
        wanted = {"tolerance": (int, float), "with": dict, "value": object}.get(key, str)
        require(isinstance(value, wanted), f"{key} cannot be {value!r}")  # type: ignore[arg-type]
    rest = {key: value for key, value in entry.items() if key not in ("compare", "with")}
    word = entry.get("compare", Compare.RELATIVE)
    require(word in list(Compare), unknown("compare", str(word), list(Compare)))
    return Claim(paper=paper, compare=Compare(word), arguments=entry.get("with", {}), **rest)
