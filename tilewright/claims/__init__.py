"""The papers' figures: a TOML file per paper here, one ``[[claim]]`` per figure.

``[headlines]`` has the claims of the abstract and the conclusion, with the figures of each.

``ours`` of a claim names the function of the paper's module that computes our figure, and its
arguments; ``tilewright.claims.scoreboard`` compares the two. A claim with a ``study`` is compared
by that study of ``tilewright.studies``. A fact is a claim that is not compared: a value that tests
and the report read.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tilewright.golden.params.block import require
from tilewright.golden.params.names import unknown

__all__ = [
    *("CLAIMS", "FUNCTIONS", "MEASURED", "Answer", "Cause", "Claim", "ClaimClass", "Compare"),
    *("Value", "answers", "claims_of_study", "facts", "find_claim", "load_claims"),
    *("load_headlines", "papers"),
    *("PREDICTION", "RTL", "SILICON", "NETLIST", "MODEL", "IDENTITY", "BOUND", "FITTED"),
]

CLAIMS = Path(__file__).parent

Answer = bool | float | list[float]
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
    EQUAL = "equal"  # the same numbers, without a tolerance

    @property
    def has_tolerance(self) -> bool:
        """Whether a figure is met within a tolerance, which the claim states."""
        return self in (Compare.RELATIVE, Compare.ABSOLUTE, Compare.INSIDE)


class Cause(StrEnum):
    """Kinds of difference between a printed figure and ours; in doubt it is ``OURS``."""

    PROCESS = "another process"  # cells, memories and their power are not those of the paper
    UNSEEN = "not in the paper"  # a unit or boundary of its comparison that no text or file shows
    SIMULATOR = "the paper's simulator"  # of which no file is public
    PAPER = "the paper's own figures"  # which do not agree with its others
    MODELS = "other language models"  # the paper's are larger, or their weights not given out
    MACHINE = "another machine"  # or other kernels on it
    OURS = "our design or model"  # a design that is another one, or a model that is simpler

    @property
    def settled_by(self) -> str:
        """Evidence that would show whether it is the cause."""
        return {
            Cause.PROCESS: "the same RTL in the paper's cells and memory macros",
            Cause.UNSEEN: "the authors' netlist, or the boundary of its area and power",
            Cause.SIMULATOR: "the simulator's source, or its cycles for one layer",
            Cause.PAPER: "the raw figures from which the authors drew the plot",
            Cause.MODELS: "the same run on OPT-1.3B to 13B, whose weights are public",
            Cause.MACHINE: "the benchmark on the paper's Xeon with its count of threads",
            Cause.OURS: "another design of ours, or a model with what this one leaves out",
        }[self]


class ClaimClass(StrEnum):
    """The class of an evaluated claim.

    A prediction or a measurement shows something: its value was not used to get ours. In the other
    classes agreement shows nothing.
    """

    PREDICTION = "prediction"  # out of sample: no constant was fitted to it
    RTL = "measured on our RTL"
    SILICON = "measured on silicon"
    NETLIST = "from a netlist"
    MODEL = "measured on open models"  # perplexities and tasks of open models
    FITTED = "fitted"  # a constant of the model was fitted to it
    DERIVED = "derived from fitted"  # arithmetic on figures that constants were fitted to
    IDENTITY = "identity"  # a definition, or a formula against itself
    BOUND = "bound"  # at least, at most, or a trend of predictions


PREDICTION, RTL, SILICON, NETLIST, MODEL = list(ClaimClass)[:5]
FITTED, DERIVED, IDENTITY, BOUND = list(ClaimClass)[5:]
MEASURED = (RTL, SILICON, NETLIST, MODEL)
F = TypeVar("F", bound=Callable[..., Answer])
# By name; the class is that of figures: bounds and fitted figures among them differ.
FUNCTIONS: dict[str, tuple[Callable[..., Answer], ClaimClass]] = {}


def answers(claim_class: ClaimClass) -> Callable[[F], F]:
    """Let claims name a function in ``ours``.

    One of a measured class reads committed records, of synthesis, of runs of the RTL or of the
    kernels, and raises :class:`tilewright.sim.records.NoRecordError` where one is missing.
    """

    def enter(function: F) -> F:
        FUNCTIONS[function.__name__] = (function, claim_class)
        return function

    return enter


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One figure of a paper, or several under one head.

    In a file ``with`` gives ``arguments``, and ``class`` gives ``claim_class``.
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
    ours: tuple[Any, ...] = field(hash=False, default=())  # a function's name and its arguments
    claim_class: ClaimClass | None = None  # where it is not that of the function
    study: str = ""  # the study that compares it
    arguments: dict[str, Any] = field(hash=False, default_factory=dict)  # of the study
    reason: str = ""  # of a known deviation
    cause: Cause | None = None  # of a known deviation
    not_evidence: str = ""  # why agreement shows nothing, where its class does not say so
    same_as: str = ""  # id of a claim with the same cause: they count once, and fail if one fails
    derived_from: tuple[str, ...] = ()  # ids of the claims whose figures give this one

    def __post_init__(self) -> None:
        require(self.id.startswith(f"{self.paper}."), f"the id must begin with {self.paper}.")
        require(self.where != "", "where must name the place in the paper")
        require(
            self.tolerance is None or (self.compare.has_tolerance and not self.study),
            "tolerance goes with relative, absolute or inside, and with no study",
        )
        require(
            bool(self.reason or self.not_evidence or self.same_as or self.derived_from)
            <= self.is_compared,
            "reason, not_evidence, same_as and derived_from need a comparison",
        )
        require((self.cause is not None) <= bool(self.reason), "cause needs reason")
        require(bool(self.arguments) <= bool(self.study), "with needs study")
        require(
            (self.compare is Compare.TRUE) == isinstance(self.value, bool),
            f"compare = 'true' goes with a truth value, not with {self.value!r}",
        )
        require(bool(self.ours) == self.is_compared, "ours goes with a comparison, and only there")

    @property
    def is_compared(self) -> bool:
        """Whether the scoreboard compares it: a figure within its tolerance, or without one."""
        return not self.study and self.compare.has_tolerance == (self.tolerance is not None)

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


@cache
def load_headlines(paper: str) -> dict[str, list[str]]:
    """Return the claims of a paper's abstract and conclusion, and the ids of each one's figures."""
    found: dict[str, list[str]] = tomllib.loads((CLAIMS / f"{paper}.toml").read_text())["headlines"]
    for name in (name for names in found.values() for name in names):
        if name not in load_claims(paper):
            raise ValueError(unknown("claim", name, load_claims(paper)))
    return found


def _every() -> dict[str, Claim]:
    return {claim.id: claim for paper in papers() for claim in load_claims(paper).values()}


def facts(paper: str) -> list[Claim]:
    """Return the claims of one paper that neither the scoreboard nor a study compares."""
    return [c for c in load_claims(paper).values() if not (c.is_compared or c.study)]


def find_claim(name: str) -> Claim:
    """Return the claim whose id is ``name``."""
    known = _every()
    if name not in known:
        raise ValueError(unknown("claim", name, known))
    return known[name]


def claims_of_study(study: str) -> list[Claim]:
    """Return the claims of all papers that one study compares."""
    return [claim for claim in _every().values() if claim.study == study]


@cache
def _read(path: Path) -> dict[str, Claim]:
    found: dict[str, Claim] = {}
    for entry in tomllib.loads(path.read_text())["claim"]:
        name = str(entry.get("id", "a claim without an id"))
        try:
            require(name not in found, "the id is there twice")
            found[name] = _claim(path.stem, entry)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path.name}: {name}: {error}") from None
    return found


def _claim(paper: str, entry: dict[str, Any]) -> Claim:
    words = {"with": "arguments", "class": "claim_class"}  # keys that are words of Python
    types: dict[str, Callable[[Any], Any]] = {"derived_from": tuple, "ours": tuple}
    types |= {"compare": Compare, "cause": Cause, "class": ClaimClass}
    given = {words.get(k, k): types[k](v) if k in types else v for k, v in entry.items()}
    return Claim(paper=paper, **given)
