"""Orders of placed PEs: what survives wires, and what is no pair."""

from tilewright.studies.placed_orders import orders_with_wires


def record(spec, delays, energies=None, technology="asap7"):
    metrics = {"delay_before": delays[0], "delay": delays[1]}
    if energies:
        metrics |= {"energy_before": energies[0], "energy": energies[1]}
    return {
        "spec": spec,
        "technology": technology,
        "goal": "area",
        "metrics": {name: {"value": value} for name, value in metrics.items()},
    }


def test_an_order_that_wires_turn_round():
    records = [record("a", (100, 130), (5, 6)), record("b", (110, 120), (4, 7))]
    delay, energy = orders_with_wires(records)
    assert (delay.less, delay.more, delay.survives) == ("a", "b", False)
    assert (energy.less, energy.more, energy.survives) == ("b", "a", False)
    assert delay.ratio_placed == 130 / 120


def test_only_pes_of_one_technology_are_pairs():
    records = [
        record("a", (100, 130), (5, 6)),
        record("b", (110, 120), (4, 7), "sky130hd"),
        record("c", (90, 95)),
    ]
    assert orders_with_wires(records) == []
