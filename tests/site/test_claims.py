"""The tables of claims have every claim, its verdict, and its deviation in its unit."""

from dataclasses import replace

import pytest

from tilewright.base.table import code
from tilewright.claims import Compare
from tilewright.claims.scoreboard import evaluate, misses
from tilewright.sim.calibration import table as calibration
from tilewright.site import claims


def test_every_claim_has_its_verdict():
    for paper, results in evaluate().items():
        table = claims.paper(paper)
        assert table.column("Claim") == [code(result.id) for result in results]
        for result, shown in zip(results, table.column("Verdict"), strict=True):
            assert result.verdict in shown
        off = claims.off(paper)
        assert off.column("Reason") == [result.reason for result in misses(results)]
    loaders = dict(zip(*(claims.loaders().column(k) for k in ("Claim", "Published")), strict=True))
    assert loaders[code("deca.table5.deca1")] == "3.4"
    assert len(claims.constants().rows) == len(calibration())
    assert claims.in_short().split()[0].isdigit()
    assert len(claims.abstracts().rows) == 30
    assert claims.twice_as_slow().column("Decided by") == claims.by_subject().column("Decided by")
    assert claims.twice_as_slow().rows != claims.by_subject().rows
    assert all(claims.causes().column("Settled by"))


def test_facts_show_values_of_every_kind():
    shown = dict(
        zip(*(claims.facts("deca").column(name) for name in ("Claim", "Value")), strict=True)
    )
    assert shown[code("deca.clock")] == "2.5"
    assert "lut " in shown[code("deca.area.share")]


@pytest.mark.parametrize(
    ("compare", "tolerance", "allowed", "unit", "shown"),
    [
        (Compare.RELATIVE, 0.05, "5%", "percent", "+2.50%"),
        (Compare.AT_LEAST, None, "at least", "percent", "+2.50%"),
        (Compare.ABSOLUTE, 0.1, "0.1", "GB/s", "+2.50"),
    ],
)
def test_deviations_have_their_unit(compare, tolerance, allowed, unit, shown):
    (result, *_) = evaluate(["sparamx"])["sparamx"]
    changed = replace(
        result, compare=compare, tolerance=tolerance, deviation=2.5, deviation_unit=unit
    )
    assert (changed.tolerance_text, changed.deviation_text) == (allowed, shown)
