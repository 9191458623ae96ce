"""Published figures beside ours: each claim with its deviation and a verdict.

Claims are data in ``docs/claims/*_system.toml``; ``evaluate`` names a function of
``sim.evaluations`` and ``with`` its arguments. How the two are compared:

- ``relative`` (the default) and ``absolute``: within ``tolerance``; a list entry by entry
- ``at_least``, ``at_most``: a bound; ``inside``: both of our ends within the published ones
- ``true``: the statement holds
"""

import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from golden.params.block import require
from sim.calibration import table
from sim.evaluations import EVALUATIONS, FROM_RECORDS
from sim.names import unknown
from sim.records import NoRecordError

__all__ = ["RECORD", "VERDICTS", "Result", "evaluate", "papers", "record", "summary"]

CLAIMS = Path(__file__).parents[1] / "docs" / "claims"
SUFFIX = "_system"
REPRODUCED, OFF, NOT_MODELLED = "reproduced", "off", "not modelled"
VERDICTS = (REPRODUCED, OFF, NOT_MODELLED)
MODES = ("relative", "absolute", "at_least", "at_most", "inside", "true")


@dataclass(frozen=True, kw_only=True)
class Result:
    """One claim, evaluated; ``deviation`` is in percent, or in units for absolute tolerances."""

    id: str
    where: str
    published: Any
    ours: Any
    unit: str
    deviation: float | None
    tolerance: str
    verdict: str
    fitted: bool  # a constant of the model was fitted to it
    from_records: bool  # our figure follows the synthesis records
    reason: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@cache
def papers() -> list[str]:
    return sorted(p.stem.removesuffix(SUFFIX) for p in CLAIMS.glob(f"*{SUFFIX}.toml"))


@cache
def claims(paper: str) -> list[dict[str, Any]]:
    if paper not in papers():
        raise ValueError(unknown("paper", paper, papers()))
    return list(tomllib.loads((CLAIMS / f"{paper}{SUFFIX}.toml").read_text())["claim"])


@cache
def fitted_claims() -> dict[str, list[str]]:
    """Claim -> constants that were fitted to it."""
    found: dict[str, list[str]] = {}
    for name, entry in table().items():
        for claim in entry.get("fitted_on", ()):
            found.setdefault(claim, []).append(name)
    return found


def evaluate(wanted: Iterable[str] | None = None) -> dict[str, list[Result]]:
    """All claims of these papers, or of all."""
    return {paper: [_evaluate(claim) for claim in claims(paper)] for paper in wanted or papers()}


def _evaluate(claim: dict[str, Any]) -> Result:
    mode = claim.get("mode", "relative")
    require(mode in MODES, unknown("mode", mode, MODES))
    ours, deviation, verdict, reason = None, None, NOT_MODELLED, claim.get("reason", "")
    if "evaluate" in claim:
        try:
            ours = EVALUATIONS[claim["evaluate"]](**claim.get("with", {}))
        except NoRecordError as missing:
            reason = str(missing)
        else:
            deviation, good = _compare(mode, claim["value"], ours, claim.get("tolerance", 0.0))
            verdict = REPRODUCED if good else OFF
            reason = "" if good else claim.get("reason", "")
    return Result(
        id=claim["id"],
        where=claim["where"],
        published=claim["value"],
        ours=ours,
        unit=claim.get("unit", ""),
        deviation=deviation,
        tolerance=_tolerance(mode, claim.get("tolerance", 0.0)),
        verdict=verdict,
        fitted=claim["id"] in fitted_claims(),
        from_records=claim.get("evaluate") in FROM_RECORDS,
        reason=reason,
    )


def _compare(mode: str, published: Any, ours: Any, tolerance: float) -> tuple[float | None, bool]:
    """Deviation and whether it is within the tolerance."""
    if mode == "true":
        return None, bool(ours) == bool(published)
    if mode == "inside":
        low, high = published
        return None, low * (1 - tolerance) <= ours[0] and ours[1] <= high * (1 + tolerance)
    if isinstance(published, list):
        pairs = [
            _compare(mode, one, mine, tolerance) for one, mine in zip(published, ours, strict=True)
        ]
        worst = max((d for d, _ in pairs if d is not None), key=abs)
        return worst, all(good for _, good in pairs)
    if mode == "absolute":
        return ours - published, abs(ours - published) <= tolerance
    deviation = 100 * (ours / published - 1)
    if mode == "at_least":
        return deviation, ours >= published
    if mode == "at_most":
        return deviation, ours <= published
    return deviation, abs(deviation) <= 100 * tolerance


def _tolerance(mode: str, tolerance: float) -> str:
    if mode in ("relative", "inside"):
        return f"{100 * tolerance:g}%"
    return f"{tolerance:g}" if mode == "absolute" else mode.replace("_", " ")


RECORD = CLAIMS / "scoreboard.json"


def record(results: dict[str, list[Result]]) -> dict[str, dict[str, Any]]:
    """What ``docs/claims/scoreboard.json`` keeps, so that no figure drifts unseen.

    Four significant digits, and nothing that changes with the synthesis records.
    """
    return {
        r.id: {"ours": _digits(r.ours), "verdict": r.verdict}
        for rows in results.values()
        for r in rows
        if r.ours is not None and not r.from_records
    }


def _digits(value: Any) -> Any:
    if isinstance(value, list):
        return [_digits(part) for part in value]
    return value if isinstance(value, bool) else float(f"{value:.4g}")


def summary(results: dict[str, list[Result]]) -> dict[str, dict[str, int]]:
    """Counts of each verdict by paper."""
    return {
        paper: {verdict: sum(r.verdict == verdict for r in rows) for verdict in VERDICTS}
        for paper, rows in results.items()
    }
