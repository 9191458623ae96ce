"""Published figures beside ours: each claim with its deviation and a verdict.

Claims are data of ``tilewright.sim.claims``; ``evaluate`` names a function of
``tilewright.sim.evaluations``, ``with`` its arguments, and ``compare`` how the two are compared.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from statistics import fmean

from tilewright.golden.params.names import unknown
from tilewright.sim.calibration import changed, table
from tilewright.sim.claims import CLAIMS, Claim, ClaimClass, Compare, Value, load_claims, papers
from tilewright.sim.claims.classes import COUNTED, MEASURED
from tilewright.sim.evaluations import CLASSES, EVALUATIONS, Answer, reads_records
from tilewright.sim.evaluations.elements import registers_outside
from tilewright.sim.moved import moving_inputs
from tilewright.sim.records import NoRecordError

__all__ = [
    *("AGREES", "NOT_MODELLED", "OFF", "RECORD", "REPRODUCED", "VERDICTS"),
    *("Residual", "Result", "Sensitivity"),
    *("class_of", "evaluate", "record", "residuals", "scoreboard_claims", "sensitivities"),
]

# A claim within its tolerance is reproduced where it can fail by what we built: it is a measurement
# of ours, or a prediction that one of our measurements moves. Any other claim agrees.
REPRODUCED, AGREES, OFF, NOT_MODELLED = "reproduced", "agrees", "off", "not modelled"
VERDICTS = (REPRODUCED, AGREES, OFF, NOT_MODELLED)
_MOVED: dict[str, bool] = {}


@dataclass(frozen=True, kw_only=True)
class Result:
    """One claim, evaluated."""

    id: str
    where: str  # place in the paper
    published: Value
    printed: bool  # else it follows from the paper by arithmetic
    ours: Answer | None
    registers_outside: Answer | None  # ours with the registers of operands outside every PE
    unit: str
    compare: Compare
    tolerance: float | None  # a share, or in units where ``compare`` is absolute
    deviation: float | None
    deviation_unit: str  # percent, or the claim's own unit where ``compare`` is absolute
    verdict: str
    claim_class: ClaimClass | None  # None where nothing answers the claim
    same_as: str  # the claim of which this one is the same figure, and with which it counts once
    fitted: bool  # a constant of the model was fitted to it
    from_records: bool  # our figure follows committed records of runs
    reason: str

    def as_dict(self) -> dict[str, object]:
        """Return plain data whose keys have one type each, as JSON has it for programs.

        Numbers are in lists, as some claims have several; a statement has ``holds`` instead.
        """
        statement = self.compare is Compare.TRUE
        plain = {name: value for name, value in asdict(self).items() if name != "claim_class"}
        return plain | {
            "class": self.claim_class,
            "published": None if statement else _as_list(self.published),
            "registers_outside": (
                None
                if statement or self.registers_outside is None
                else _as_list(self.registers_outside)
            ),
            "ours": None if statement or self.ours is None else _as_list(self.ours),
            "holds": self.ours if statement else None,
        }

    @property
    def good(self) -> bool:
        """Whether ours is within the tolerance."""
        return self.verdict in (REPRODUCED, AGREES)

    @property
    def counted(self) -> bool:
        """Whether it is in the headline: a prediction or a measurement, and no duplicate."""
        return self.claim_class in COUNTED and not self.same_as

    @property
    def tolerance_text(self) -> str:
        """The tolerance as tables show it: ``5%``, ``2``, or ``at least``."""
        if not self.compare.has_tolerance:
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


def class_of(claim: Claim) -> ClaimClass | None:
    """Return the class of a claim: what its file states, else what follows from how it is answered.

    A bound on a prediction or a measurement is a bound, and so is a trend of predictions; a trend
    that measurements decide, such as which of two is larger, is a measurement.
    """
    if not claim.evaluate:
        return None
    found = CLASSES[claim.evaluate]
    if claim.stated_class is not None:
        return claim.stated_class
    if claim.id in fitted_claims():
        return ClaimClass.FITTED
    trend = found in MEASURED and claim.compare is Compare.TRUE
    if found in COUNTED and not (claim.compare.is_equality or trend):
        return ClaimClass.BOUND
    if found is ClaimClass.PREDICTION and claim.derived_from:
        return ClaimClass.DERIVED
    return found


def answer(claim: Claim) -> Answer:
    """Return what our models say about a claim."""
    if claim.evaluate not in EVALUATIONS:
        raise ValueError(f"{claim.id}: {unknown('evaluation', claim.evaluate, EVALUATIONS)}")
    return EVALUATIONS[claim.evaluate](**claim.arguments)


def answer_number(claim: Claim) -> float:
    """Return the same for a claim that one number answers."""
    ours = answer(claim)
    if not isinstance(ours, int | float):
        raise ValueError(f"{claim.id}: {claim.evaluate} does not give one number")
    return float(ours)


def evaluate(wanted: Iterable[str] | None = None) -> dict[str, list[Result]]:
    """Evaluate all claims of these papers, or of all papers."""
    return {
        paper: [_evaluate(claim) for claim in scoreboard_claims(paper)]
        for paper in wanted or papers()
    }


def _registers_outside(claim: Claim) -> Answer | None:
    """Return the other column of a claim about netlists, where it is another number."""
    if CLASSES[claim.evaluate] is not ClaimClass.NETLIST:
        return None
    inside = answer(claim)
    with registers_outside():
        outside = answer(claim)
    return None if outside == inside else outside


def _evaluate(claim: Claim) -> Result:
    ours, deviation, verdict, reason = None, None, NOT_MODELLED, claim.reason
    claim_class = class_of(claim)
    if claim.evaluate:
        try:
            ours = answer(claim)
        except NoRecordError as missing:
            reason = str(missing)
        else:
            deviation, good = compare(claim.compare, claim.value, ours, claim.tolerance or 0.0)
            verdict = (REPRODUCED if _is_ours(claim) else AGREES) if good else OFF
            reason = "" if good else claim.reason
    return Result(
        id=claim.id,
        where=claim.where,
        published=claim.value,
        printed="derived" not in claim.where,
        ours=ours,
        registers_outside=_registers_outside(claim) if ours is not None else None,
        unit=claim.unit,
        compare=claim.compare,
        tolerance=claim.tolerance,
        deviation=deviation,
        deviation_unit=claim.unit if claim.compare is Compare.ABSOLUTE else "percent",
        verdict=verdict,
        claim_class=claim_class if ours is not None else None,
        same_as=claim.same_as,
        fitted=claim.id in fitted_claims(),
        from_records=reads_records(claim.evaluate),
        reason=reason,
    )


def _is_ours(claim: Claim) -> bool:
    """Whether it is a measurement of ours, or a prediction that such a measurement moves."""
    found = class_of(claim)
    if found is not ClaimClass.PREDICTION:
        return found in MEASURED
    # What moves it is the same for any value of our measurements, so it is found out once.
    question = f"{claim.evaluate} {claim.arguments}"
    if question not in _MOVED:
        _MOVED[question] = next(moving_inputs(lambda: answer(claim)), None) is not None
    return _MOVED[question]


def compare(
    how: Compare, published: Value, ours: Answer, tolerance: float
) -> tuple[float | None, bool]:
    """Return the deviation of ours, where it has one, and whether it is allowed."""
    match how, published, ours:
        case Compare.TRUE | Compare.EQUAL, _, _:
            return None, ours == published
        case (
            Compare.INSIDE,
            [float() | int() as low, float() | int() as high],
            [float() | int() as first, float() | int() as last],
        ):
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

    Four significant digits, those that follow committed records of runs too.
    """
    return {
        r.id: {"ours": _digits(r.ours), "class": str(r.claim_class), "verdict": r.verdict}
        for rows in results.values()
        for r in rows
        if r.ours is not None
    }


def _digits(value: Answer) -> Answer:
    if isinstance(value, list):
        return [_digits(part) for part in value]
    if isinstance(value, dict):
        return {name: _digits(part) for name, part in value.items()}
    return value if isinstance(value, bool | str) else float(f"{value:.4g}")


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
    *("deca.fig16.tepl_gain_5pct", "deca.table2.bf8.rl"),
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
