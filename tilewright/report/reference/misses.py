"""The page of what is off: one table a paper, made from the claims as they are evaluated now."""

from tilewright.report.reference.declarations import markdown_table
from tilewright.sim.choices import AIM, Ceiling, ceiling, within_wider
from tilewright.sim.classes import Summary, headline
from tilewright.sim.misses import Miss, causes, kinds, misses
from tilewright.sim.scoreboard import Result, evaluate

__all__ = ["miss_lists"]

TITLES = {"anda": "Anda", "deca": "DECA", "harmonia": "Harmonia", "sparamx": "SparAMX"}
HEADER = (
    *("claim", "kind", "published", "ours", "off by", "allowed", "within from", "why"),
    "what is computed",
)

UNKNOWN = "nothing: not explained"
WIDER = (1.0, 1.25, 1.5, 2.0, 3.0)  # how much every tolerance is stretched, to see what hangs on it


def miss_lists() -> str:
    """Return the headline, the causes, and the section of every paper with a claim that is off."""
    results = evaluate()
    every = [r for rows in results.values() for r in rows]
    off = misses(every)
    needs = {miss.computed: miss.needs for miss in off}
    counts = causes(off).items()
    rows_of_causes = [(str(count), text or UNKNOWN, needs[text] or "-") for text, count in counts]
    computations = markdown_table(
        ("claims", "what is computed", "what they would need"), rows_of_causes
    )
    bound = ceiling(every)
    parts = [
        f"{headline(Summary.of(every))}. {bound.sentence}.",
        f"## What stands between the count and four of five\n\n{_argument(bound)}",
        f"## If tolerances were wider\n\n{_wider(every, bound)}",
        f"## What other choices would change\n\n{_choices(bound)}",
        f"## Kinds of causes\n\n{_kinds(off)}",
        f"## Computations, and what would be needed\n\n{computations}",
    ]
    for paper, rows in results.items():
        found = misses(rows)
        if found:
            parts.append(f"## {TITLES[paper]}\n\n{markdown_table(HEADER, map(_row, found))}")
    return "\n\n".join(parts)


def _argument(bound: Ceiling) -> str:
    chosen, left = len(bound.reached_by), bound.evaluated - bound.most_of_all
    rows = [
        ("predictions and measurements", "", bound.evaluated),
        (f"{AIM:.0%} of these, the aim", "", bound.aimed),
        ("within tolerance, measured", "", bound.within),
        ("with the choice of ours that suits each best", f"+{chosen}", bound.most),
        (
            "and nothing off for a cause that lies in this project",
            f"+{bound.most_of_all - bound.most}",
            bound.most_of_all,
        ),
        ("off for a cause outside, whatever is chosen here", "", left),
        ("short of the aim even so", "", bound.aimed - bound.most_of_all),
    ]
    return markdown_table(
        ("figures", "more", "count"), [(name, more, str(count)) for name, more, count in rows]
    )


def _wider(every: list[Result], bound: Ceiling) -> str:
    counts = [(factor, within_wider(every, factor)) for factor in WIDER]
    rows = [
        (f"{factor:g}", str(count), f"{100 * count / bound.evaluated:.0f}%")
        for factor, count in counts
    ]
    return markdown_table(("tolerances times", "within", "share"), rows)


def _kinds(off: list[Miss]) -> str:
    rows = [
        (
            str(len(of_kind)),
            str(cause),
            "outside" if cause.outside else "here",
            ", ".join(f"`{name}`" for name in dict.fromkeys(miss.shown_by for miss in of_kind)),
        )
        for cause, of_kind in kinds(off).items()
    ]
    return markdown_table(("claims", "cause", "lies", "computations that show it"), rows)


def _choices(bound: Ceiling) -> str:
    rows = [(f"`{claim}`", "; ".join(names)) for claim, names in bound.reached_by.items()]
    return markdown_table(("off", "within tolerance with"), rows)


def _row(miss: Miss) -> tuple[str, ...]:
    return (
        f"`{miss.claim}`",
        str(miss.claim_class),
        f"{_shown(miss.published)} {miss.unit}".strip(),
        f"{_shown(miss.ours)} {miss.unit}".strip(),
        miss.deviation or "-",
        miss.tolerance,
        "-" if miss.nearest is None else _shown(float(miss.nearest)),
        miss.reason,
        miss.computed or UNKNOWN,
    )


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " to ".join(_shown(part) for part in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
