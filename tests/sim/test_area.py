"""Rates by watt and by area."""

import pytest

from tilewright.sim.llm import silicon_mm2
from tilewright.sim.records import area_um2
from tilewright.sim.serving import Question, ask
from tilewright.sim.target import resolve_target


@pytest.mark.parametrize(
    "work", [{"batch": 4}, {"prompt": 64, "tokens": 4}, {"within_ms": 100.0}], ids=str
)
def test_watts_are_joules_at_the_rate(work):
    found = ask(Question(model="llama-3.2-1b", **work))
    watts = found.joules_per_token * found.tokens_per_second
    assert found.average_watts == pytest.approx(watts)
    per_watt = found.tokens_per_second / found.average_watts
    assert found.tokens_per_second_per_watt == pytest.approx(per_watt)


def test_areas_are_those_of_dies_and_records():
    server = resolve_target("spr-hbm", engine="software")
    assert silicon_mm2(server) == server.server.die_area
    deca = resolve_target("spr-hbm")
    more = 56 * area_um2("deca", "fastest") / 1e6
    assert silicon_mm2(deca) == pytest.approx(server.server.die_area + more)
    anda, harmonia = (silicon_mm2(resolve_target(name)) for name in ("anda", "harmonia"))
    assert 0 < harmonia < anda < 5 or 0 < anda < harmonia < 5
    assert silicon_mm2(resolve_target("fp-fp")) is None  # no such machine was synthesised
