"""Published figures beside ours: each claim with its deviation and a verdict.

Claims are data of ``tilewright.sim.claims``; ``evaluate`` names a function of
``tilewright.sim.evaluations``, ``with`` its arguments, and ``compare`` how the two are compared.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from statistics import fmean
from typing import Self

from tilewright.golden.params.names import unknown
from tilewright.sim.calibration import changed, table
from tilewright.sim.claims import CLAIMS, Claim, Compare, Value, load_claims, papers
from tilewright.sim.evaluations import EVALUATIONS, FROM_RECORDS, Answer
from tilewright.sim.records import NoRecordError

__all__ = [
    *("RECORD", "REPRODUCED", "VERDICTS"),
    *("Residual", "Result", "Sensitivity", "Summary"),
    *("evaluate", "record", "residuals", "scoreboard_claims", "sensitivities", "summary"),
]

REPRODUCED, OFF, NOT_MODELLED = "reproduced", "off", "not modelled"
VERDICTS = (REPRODUCED, OFF, NOT_MODELLED)


@dataclass(frozen=True, kw_only=True)
class Result:
    """One claim, evaluated."""

    id: str
    where: str  # place in the paper
    published: Value
    ours: Answer | None
    unit: str
    compare: Compare
    tolerance: float | None  # a share, or in units where ``compare`` is absolute
    deviation: float | None
    deviation_unit: str  # percent, or the claim's own unit where ``compare`` is absolute
    verdict: str
    kind: str  # a figure met or missed freely, one that was fitted to, or a bound or statement
    fitted: bool  # a constant of the model was fitted to it
    from_records: bool  # our figure follows committed records of runs
    reason: str

    def as_dict(self) -> dict[str, object]:
        """Return plain data whose keys have one type each, as JSON has it for programs.

        Numbers are in lists, as some claims have several; a statement has ``holds`` instead.
        """
        statement = self.compare is Compare.TRUE
        return asdict(self) | {
            "published": None if statement else _as_list(self.published),
            "ours": None if statement or self.ours is None else _as_list(self.ours),
            "holds": self.ours if statement else None,
        }

    @property
    def tolerance_text(self) -> str:
        """The tolerance as tables show it: ``5%``, ``2``, or ``at least``."""
        if not self.compare.is_equality:
            return self.compare.replace("_", " ")
        share = self.tolerance or 0.0
        return f"{share:g}" if self.compare is Compare.ABSOLUTE else f"{100 * share:g}%"

    @property
    def deviation_text(self) -> str:
        """The deviation as tables show it, empty where there is none."""
        if self.deviation is None:
            return ""
        return f"{self.deviation:+.2f}{'%' if self.deviation_unit == 'percent' else ''}"


def _as_list(value: Value | Answer) -> list[object]:
    return list(value) if isinstance(value, list) else [value]


@cache
def scoreboard_claims(paper: str) -> tuple[Claim, ...]:
    """Return the claims of one paper that have a verdict, in the order of its file."""
    return tuple(claim for claim in load_claims(paper).values() if claim.on_scoreboard)


@cache
def fitted_claims() -> dict[str, list[str]]:
    """Return for each claim the constants that were fitted to it."""
    found: dict[str, list[str]] = {}
    for name, entry in table().items():
        for claim in entry.fitted_on:
            found.setdefault(claim, []).append(name)
    return found


def answer(claim: Claim) -> Answer:
    """Return what our models say about a claim."""
    if claim.evaluate not in EVALUATIONS:
        raise ValueError(f"{claim.id}: {unknown('evaluation', claim.evaluate, EVALUATIONS)}")
    return EVALUATIONS[claim.evaluate](**claim.arguments)


def answer_number(claim: Claim) -> float:
    """Return the same for a claim that one number answers."""
    ours = answer(claim)
    if isinstance(ours, list):
        raise ValueError(f"{claim.id}: {claim.evaluate} gives several numbers")
    return float(ours)


def evaluate(wanted: Iterable[str] | None = None) -> dict[str, list[Result]]:
    """Evaluate all claims of these papers, or of all papers."""
    return {
        paper: [_evaluate(claim) for claim in scoreboard_claims(paper)]
        for paper in wanted or papers()
    }


def _evaluate(claim: Claim) -> Result:
    ours, deviation, verdict, reason = None, None, NOT_MODELLED, claim.reason
    if claim.evaluate:
        try:
            ours = answer(claim)
        except NoRecordError as missing:
            reason = str(missing)
        else:
            deviation, good = compare(claim.compare, claim.value, ours, claim.tolerance or 0.0)
            verdict = REPRODUCED if good else OFF
            reason = "" if good else claim.reason
    fitted = claim.id in fitted_claims()
    free = "figure" if claim.compare.is_equality else "bound"
    return Result(
        id=claim.id,
        where=claim.where,
        published=claim.value,
        ours=ours,
        unit=claim.unit,
        compare=claim.compare,
        tolerance=claim.tolerance,
        deviation=deviation,
        deviation_unit=claim.unit if claim.compare is Compare.ABSOLUTE else "percent",
        verdict=verdict,
        kind="fitted" if fitted else free,
        fitted=fitted,
        from_records=claim.evaluate in FROM_RECORDS,
        reason=reason,
    )


def compare(
    how: Compare, published: Value, ours: Answer, tolerance: float
) -> tuple[float | None, bool]:
    """Return the deviation of ours, where it has one, and whether it is allowed."""
    match how, published, ours:
        case Compare.TRUE, _, _:
            return None, ours == published
        case Compare.INSIDE, [float() | int() as low, float() | int() as high], [first, last]:
            return None, low * (1 - tolerance) <= first and last <= high * (1 + tolerance)
        case _, list(), list():
            pairs = zip(published, ours, strict=True)
            both = [compare(how, one, mine, tolerance) for one, mine in pairs]
            worst = max((off for off, _ in both if off is not None), key=abs)
            return worst, all(good for _, good in both)
        case _, float() | int(), float() | int():
            return _compare_numbers(how, published, ours, tolerance)
    raise ValueError(f"{ours!r} cannot be compared with {published!r} by {how}")


def _compare_numbers(
    how: Compare, published: float, ours: float, tolerance: float
) -> tuple[float, bool]:
    if how is Compare.ABSOLUTE:
        return ours - published, abs(ours - published) <= tolerance
    deviation = 100 * (ours / published - 1)
    if how is Compare.AT_LEAST:
        return deviation, ours >= published
    if how is Compare.AT_MOST:
        return deviation, ours <= published
    if how is Compare.LESS_THAN:
        return deviation, ours < published
    return deviation, abs(deviation) <= 100 * tolerance


RECORD = CLAIMS / "scoreboard.json"


def record(results: dict[str, list[Result]]) -> dict[str, dict[str, Answer | str]]:
    """Return what ``sim/claims/scoreboard.json`` holds, so that no figure drifts unseen.

    Four significant digits, and nothing that changes with the records of runs.
    """
    return {
        r.id: {"ours": _digits(r.ours), "verdict": r.verdict}
        for rows in results.values()
        for r in rows
        if r.ours is not None and not r.from_records
    }


def _digits(value: Answer) -> Answer:
    if isinstance(value, list):
        return [float(f"{part:.4g}") for part in value]
    return value if isinstance(value, bool) else float(f"{value:.4g}")


@dataclass(frozen=True, kw_only=True)
class Residual:
    """How far the figures of one table are off, those that constants were fitted to apart."""

    table: str
    fitted: int  # figures that constants were fitted to
    fitted_mean: float | None  # of the magnitudes of their deviations
    others: int
    others_mean: float | None
    largest: float
    unit: str


def residuals(results: dict[str, list[Result]]) -> list[Residual]:
    """Return the residuals of every table of the claims, in the order of the papers."""
    of = {claim.id: claim.table for paper in results for claim in scoreboard_claims(paper)}
    tables: dict[str, list[Result]] = {}
    for rows in results.values():
        for result in rows:
            if of[result.id] and result.deviation is not None:
                tables.setdefault(of[result.id], []).append(result)
    return [_residual(name, rows) for name, rows in tables.items()]


def _residual(name: str, rows: list[Result]) -> Residual:
    fitted, others = (
        [abs(r.deviation) for r in rows if r.fitted is fit and r.deviation is not None]
        for fit in (True, False)
    )
    (unit,) = {r.deviation_unit for r in rows}
    return Residual(
        table=name,
        fitted=len(fitted),
        fitted_mean=fmean(fitted) if fitted else None,
        others=len(others),
        others_mean=fmean(others) if others else None,
        largest=max(fitted + others),
        # The distance of two percentages is in points.
        unit="points" if unit == "%" else unit,
    )


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


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """What 10% more of a constant does to the key figure that it moves most."""

    constant: str
    figure: str  # the id of the claim
    change_percent: float


def sensitivities() -> list[Sensitivity]:
    """Return the sensitivity of every constant, in the order of the calibration table."""
    wanted = [claim for claim in scoreboard_claims("deca") if claim.id in KEY_FIGURES]
    before = _key_figures(wanted)
    found = []
    for name in table():
        with changed(name, 1.1):
            after = _key_figures(wanted)
        moves = {figure: 100 * (after[figure] / before[figure] - 1) for figure in KEY_FIGURES}
        most = max(KEY_FIGURES, key=lambda figure: abs(moves[figure]))
        found.append(Sensitivity(constant=name, figure=most, change_percent=moves[most]))
    return found


def _key_figures(wanted: Iterable[Claim]) -> dict[str, float]:
    return {claim.id: answer_number(claim) for claim in wanted}


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How many claims have each verdict, and of what kind those are that are reproduced."""

    reproduced: int
    off: int
    not_modelled: int
    reproduced_figures: int
    reproduced_fitted: int
    reproduced_bounds: int

    @classmethod
    def of(cls, results: Iterable[Result]) -> Self:
        """Count these results."""
        rows = list(results)
        reproduced, off, not_modelled = (sum(r.verdict == v for r in rows) for v in VERDICTS)
        good = [r.kind for r in rows if r.verdict == REPRODUCED]
        return cls(
            reproduced=reproduced,
            off=off,
            not_modelled=not_modelled,
            reproduced_figures=good.count("figure"),
            reproduced_fitted=good.count("fitted"),
            reproduced_bounds=good.count("bound"),
        )

    @property
    def evaluated(self) -> int:
        """Claims that our models answer."""
        return self.reproduced + self.off

    @property
    def claims(self) -> int:
        """Claims of any verdict."""
        return self.evaluated + self.not_modelled


def summary(results: dict[str, list[Result]]) -> dict[str, Summary]:
    """Count the results of each paper."""
    return {paper: Summary.of(rows) for paper, rows in results.items()}
