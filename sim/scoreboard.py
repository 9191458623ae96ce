"""Published figures beside ours: each claim with its deviation and a verdict.

Claims are data in ``sim/claims/*_system.toml``; ``evaluate`` names a function of
``tilewright.sim.evaluations`` and ``with`` its arguments. How the two are compared:

- ``relative`` (the default) and ``absolute``: within ``tolerance``; a list entry by entry
- ``at_least``, ``at_most``: a bound; ``inside``: both of our ends within the published ones
- ``true``: the statement holds
"""

import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from tilewright.golden.params.block import require
from tilewright.golden.params.names import unknown
from tilewright.sim.calibration import changed, table
from tilewright.sim.evaluations import EVALUATIONS, FROM_RECORDS
from tilewright.sim.records import NoRecordError

__all__ = [
    "KINDS",
    "RECORD",
    "REPRODUCED",
    "VERDICTS",
    "Result",
    "evaluate",
    "kinds",
    "papers",
    "record",
    "summary",
]

CLAIMS = Path(__file__).with_name("claims")
SUFFIX = "_system"
REPRODUCED, OFF, NOT_MODELLED = "reproduced", "off", "not modelled"
VERDICTS = (REPRODUCED, OFF, NOT_MODELLED)
MODES = ("relative", "absolute", "at_least", "at_most", "inside", "true")
BOUNDS = ("at least", "at most", "true")  # as `Result.tolerance` has them
KINDS = ("figure", "fitted", "bound")


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
    from_records: bool  # our figure follows committed records of runs
    reason: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def kind(self) -> str:
        """What agreement is worth: a figure met freely, one fitted to, or a bound or statement."""
        if self.fitted:
            return "fitted"
        return "bound" if self.tolerance in BOUNDS else "figure"


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
    """What ``sim/claims/scoreboard.json`` keeps, so that no figure drifts unseen.

    Four significant digits, and nothing that changes with the records of runs.
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


@dataclass(frozen=True)
class Residual:
    """How far the figures of one table are off, those that constants were fitted to apart."""

    group: str
    fitted: int
    fitted_mean: float | None  # of the magnitudes of the deviations
    rest: int
    rest_mean: float | None
    worst: float
    unit: str


# Groups of numeric claims with one kind of tolerance; a prefix and the endings left out.
GROUPS = {
    "DECA Table 1": ("deca.table1.", ()),
    "DECA Table 2, rooflines": ("deca.table2.", (".real", ".bf8", ".bf16_50", ".bf16_30")),
    "DECA Table 4, memory, TMUL and AVX": ("deca.table4.", (".deca.deca",)),
    "DECA Table 5, rates": ("deca.table5.", (".misses", ".order")),
    "DECA Table 6, batch 1 and 16": ("deca.table6.", ()),
    "DECA Table 6, batch 64": ("deca.table6.", ()),
    "Anda Table II, savings": ("anda.table2.bops.", ()),
    "Anda speedups": ("anda.sys.speedup", ()),
}


def residuals(results: dict[str, list[Result]]) -> list[Residual]:
    """By table; deviations in percent, or in the claim's unit where tolerances are absolute."""
    rows = [r for found in results.values() for r in found]
    return [_residual(name, *GROUPS[name], rows) for name in GROUPS]


def _residual(name: str, prefix: str, left_out: tuple[str, ...], rows: list[Result]) -> Residual:
    chosen = [r for r in rows if r.id.startswith(prefix) and not r.id.endswith(left_out or ("?",))]
    if name.startswith("DECA Table 6"):
        chosen = [r for r in chosen if (".n64." in r.id) == name.endswith("64")]
    off = {r.id: abs(r.deviation) for r in chosen if r.deviation is not None}
    parts = [
        [off[r.id] for r in chosen if r.id in off and r.fitted is fit] for fit in (True, False)
    ]
    percent = any(r.tolerance.endswith("%") for r in chosen)
    means = [fmean(part) if part else None for part in parts]
    unit = "%" if percent else next(r.unit for r in chosen)
    return Residual(
        name,
        len(parts[0]),
        means[0],
        len(parts[1]),
        means[1],
        max(off.values()),
        _points(percent, unit),
    )


def _points(percent: bool, unit: str) -> str:
    """Absolute deviations of percentages are points."""
    return "%" if percent else "points" if unit == "%" else unit


# One figure for each mechanism, to say how much a constant matters.
KEY_FIGURES = (
    *("deca.table1.hbm.in128.n16", "deca.table2.bf8_50.rs", "deca.table2.bf16_20.rs"),
    "deca.table4.d5.deca.tmul",
    *("deca.table4.d100.sw.mem", "deca.table5.none", "deca.table5.deca15"),
    *("deca.table6.llama2_70b.n1.q4.sw", "deca.table6.llama2_70b.n1.q4.deca"),
    *("deca.table6.opt_66b.n16.q4.deca", "deca.table6.llama2_70b.n64.q4.sw"),
    *("deca.table6.llama2_70b.n64.q4.deca", "deca.fig11.q8_5_vs_sw"),
    *("deca.fig16.tepl_gain_5pct", "deca.fig14.more_avx_far_below", "deca.table2.bf8.rl"),
)


@dataclass(frozen=True)
class Sensitivity:
    """What 10% more of a constant does to the key figure that it moves most."""

    constant: str
    figure: str
    change: float  # percent


def sensitivities() -> list[Sensitivity]:
    """Of every constant, in the order of the table."""
    wanted = {c["id"]: c for c in claims("deca") if c["id"] in KEY_FIGURES}
    before = _key_figures(wanted)
    found = []
    for name in table():
        with changed(name, 1.1):
            after = _key_figures(wanted)
        moves = {figure: 100 * (after[figure] / before[figure] - 1) for figure in wanted}
        most = max(KEY_FIGURES, key=lambda figure: abs(moves[figure]))
        found.append(Sensitivity(name, most, moves[most]))
    return found


def _key_figures(wanted: dict[str, dict[str, Any]]) -> dict[str, float]:
    return {
        figure: float(EVALUATIONS[claim["evaluate"]](**claim.get("with", {})))  # type: ignore[arg-type]
        for figure, claim in wanted.items()
    }


def summary(results: dict[str, list[Result]]) -> dict[str, dict[str, int]]:
    """Counts of each verdict by paper."""
    return {
        paper: {verdict: sum(r.verdict == verdict for r in rows) for verdict in VERDICTS}
        for paper, rows in results.items()
    }


def kinds(results: Iterable[Result]) -> dict[str, int]:
    """How many of those that are reproduced are of each kind."""
    good = [r.kind for r in results if r.verdict == REPRODUCED]
    return {kind: good.count(kind) for kind in KINDS}
