"""Costs of software decompression from a record: cycles of a core, and what is refused."""

from statistics import fmean

import pytest

from tilewright.sim import records
from tilewright.sim.records import NoRecordError, measured_cycles
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.whole_models import SCHEMES, measured_models
from tilewright.sim.xeon import SYSTEMS, tile_cost

ROWS = [
    ("bf8", None, "DECA tiles", 1e8, 2e8),
    ("bf8", None, "look-up, vector order", 4e8, None),
    ("bf8", 0.5, "look-up, vector order", 3e8, None),
    ("bf8", 0.1, "look-up, vector order", 2e8, None),
    ("bf16", 0.5, "SparAMX, vector order", 5e8, None),
]
RECORD = {
    "roofs": {"instructions": {"vpadd": 4e10}},  # 2e10 cycles a second of all cores
    "roof_surface": [
        dict(zip(("scheme", "density", "kernel", "vector", "reload_rate"), row, strict=True))
        for row in ROWS
    ],
}

real_record = records.record


@pytest.fixture(autouse=True)
def record(monkeypatch):
    monkeypatch.setattr(records, "record", lambda: RECORD)


@pytest.mark.parametrize(
    ("engine", "scheme", "cycles"),
    [
        ("software-measured", "bf8", (200, 200)),
        ("look-up", "bf8", (50, 50)),
        ("look-up", "bf8_40%", (pytest.approx(66.67, abs=0.01),) * 2),  # of density 0.5
        ("look-up", "bf16_30%", (40, 40)),
    ],
)
def test_cycles_of_a_tile(engine, scheme, cycles):
    assert measured_cycles(engine, resolve_weight_scheme(scheme)) == cycles


def test_the_way_through_memory_counts_where_it_is_longer(monkeypatch):
    slow = RECORD["roof_surface"][0] | {"vector": 4e8}
    rows = {**RECORD, "roof_surface": [slow]}
    monkeypatch.setattr(records, "record", lambda: rows)
    assert measured_cycles("software-measured", resolve_weight_scheme("bf8")) == (50, 100)


def test_as_an_engine():
    machine, scheme = SYSTEMS["spr-hbm"], resolve_weight_scheme("bf8")
    assert tile_cost(machine, "software-measured", scheme, 1).cycles == 200
    looked_up = tile_cost(machine, "look-up", scheme, 1)
    assert looked_up.cycles == pytest.approx(512 / machine.bytes_per_cycle(56))
    assert looked_up.bound == "memory"
    # A tile is decompressed once for all rows, which then take the matrix unit.
    assert tile_cost(machine, "look-up", scheme, 4).cycles == looked_up.cycles
    assert tile_cost(machine, "look-up", scheme, 256).cycles >= 256


def test_the_committed_record_is_a_source_of_costs(monkeypatch):
    """Software-only bf8 at 5% is bound by its instructions, as measured."""
    monkeypatch.setattr(records, "record", real_record)
    scheme = resolve_weight_scheme("bf8_5%")
    vector, whole = measured_cycles("software-measured", scheme)
    assert 16 < vector <= whole < 300
    for name in ("mxfp4", "mxfp4_50%", "bf8", "bf8_5%"):
        scheme = resolve_weight_scheme(name)
        ours, theirs = (measured_cycles(e, scheme)[1] for e in ("look-up", "software-measured"))
        assert 16 < ours < theirs
    with pytest.raises(ValueError, match=r"^no measurement of mxfp6_e3m2 by the kernel look-up"):
        tile_cost(SYSTEMS["spr-hbm"], "look-up", resolve_weight_scheme("mxfp6_e3m2"), 1)


def test_what_was_not_measured_is_refused():
    with pytest.raises(NoRecordError, match=r"^no measurement of mxfp4 by the kernel DECA tiles$"):
        measured_cycles("software-measured", resolve_weight_scheme("mxfp4"))


def test_measured_steps_are_near_the_model_of_the_measured_machine(monkeypatch):
    """Single layers say what whole models take: by a factor of 1.11 on average, at most 1.27."""
    monkeypatch.setattr(records, "record", real_record)
    found = measured_models()
    assert len(found) == 21 == 3 * len(SCHEMES)

    def factors(predicted):
        ratios = [predicted(row) / row.measured_ms for row in found]
        return [max(ratio, 1 / ratio) for ratio in ratios]

    ours, roofline = factors(lambda r: r.ours_ms), factors(lambda r: r.roofline_ms)
    assert fmean(ours) < 1.15 and max(ours) < 1.27
    assert fmean(roofline) > 1.6
    first = [factor for factor, row in zip(ours, found, strict=True) if row.batch == 1]
    assert fmean(first) < 1.1


def test_no_step_is_faster_than_its_roofline(monkeypatch):
    monkeypatch.setattr(records, "record", real_record)
    for row in measured_models():
        assert row.roofline_ms < min(row.measured_ms, row.ours_ms)
