"""Dollars of a million tokens, and rates by area, from prices and records."""

import pytest

from tilewright.sim.area import silicon_mm2
from tilewright.sim.cost import Prices, parse_prices
from tilewright.sim.records import area_um2
from tilewright.sim.serving import Question, ask
from tilewright.sim.target import resolve_target


def test_hardware_and_energy_of_a_million_tokens():
    prices = parse_prices("hardware=35064,years=4,energy=0.36,overhead=1.5,use=50%")
    cost = prices.cost(tokens_per_second=1000, joules_per_token=2, devices=3)
    # A dollar an hour for each of three, busy half of the time; 1000 s for a million tokens.
    assert cost.hardware == pytest.approx(3 * 2 * 1000 / 3600)
    assert cost.energy == pytest.approx(2e6 / 3.6e6 * 1.5 * 0.36)
    assert cost.total == cost.hardware + cost.energy
    rented = Prices(hour=2.0).cost(1000, 2, 1)
    assert (rented.hardware, rented.energy) == (pytest.approx(2000 / 3600), 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hardware=1,hour=2", "hardware is bought or rented: give one, not both"),
        ("years=3", "prices need hardware, hour or energy in dollars"),
        ("enrgy=3", "unknown price 'enrgy'; did you mean energy?"),
        ("energy=dear", "energy must be a number with a unit"),
        ("hour=-1", "hour must be 0 to 1e+06 count, not -1"),
    ],
)
def test_prices_that_are_none(text, message):
    with pytest.raises(ValueError) as refusal:
        parse_prices(text)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    "work", [{"batch": 4}, {"prompt": 64, "tokens": 4}, {"within_ms": 100.0}], ids=str
)
def test_answers_have_the_cost_of_their_rate(work):
    found = ask(Question(model="llama-3.2-1b", prices=Prices(hour=1), tensor=2, **work))
    assert found.cost.hardware == pytest.approx(2e6 / found.tokens_per_second / 3600)
    assert found.cost.energy == 0
    assert ask(Question(model="llama-3.2-1b", **work)).cost is None
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
    assert silicon_mm2(resolve_target("harmonia", tensor=3)) == pytest.approx(3 * harmonia)
