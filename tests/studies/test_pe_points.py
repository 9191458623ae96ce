"""Arrangements of the baselines' PEs: the rule by hand, and what the record shows of adders."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.smollm2 import smollm2_or_skip
from tilewright.golden.params.resolve import resolve
from tilewright.sim.pe_units import UNITS
from tilewright.sim.records import area_um2, energy_fj
from tilewright.studies.pe import workload as pe_tensors
from tilewright.studies.pe.energy import CLOCK_MHZ, PES, made_with
from tilewright.studies.pe.points import (
    BASELINES,
    POINTS,
    Point,
    load_points,
    point_specs,
    taken_point,
)
from tilewright.studies.pe.workload import DOTS, LENGTH, STREAMS, samples
from tilewright.synth.record import rtlil_sha256

DOCUMENT = Path(__file__).parents[2] / "docs" / "pe-comparison.md"
A = Point("A", True, 4, "balanced", False, "a,stages=4", 100.0, 3000.0, 50.0, "")


def test_every_point_is_spelled_as_it_resolves():
    specs = [spec for _, _, spec in point_specs()]
    assert len(specs) == len(set(specs)) == 2 * (4 * 3 + 6 * 5 * 3 * 2)


def test_the_least_product_of_area_and_energy_is_taken_among_those_that_meet_the_clock():
    smaller = replace(A, spec="b", area_um2=90.0)
    late = replace(A, spec="c", area_um2=10.0, delay_ps=1e6 / CLOCK_MHZ + 1)
    outside = replace(A, spec="d", area_um2=50.0, registered=False)
    other = replace(A, spec="e", area_um2=1.0, pe="B")
    equal = replace(A, spec="f", area_um2=180.0, fj_per_mac=25.0, stages=3)
    assert taken_point([A, smaller, late, outside, other], "A", registered=True) is smaller
    assert taken_point([A, smaller, late, outside, other], "A", registered=False) is outside
    assert taken_point([smaller, equal], "A", registered=True) is equal  # fewer stages


def test_the_record_is_of_these_pes_cells_and_data():
    record = json.loads(POINTS.read_text())
    for key, value in made_with(record["technology"]).items():
        assert record[key] == value, "renew with `python -m tilewright.studies.pe.points`"
    known = {spec for _, _, spec in point_specs()}
    points = load_points()
    assert {point.spec for point in points} <= known
    for point in points[:: max(1, len(points) // 3)]:
        assert point.rtlil_sha256 == rtlil_sha256(point.spec)


@pytest.mark.full
def test_every_point_is_of_the_present_rtl():
    for point in load_points():
        assert point.rtlil_sha256 == rtlil_sha256(point.spec), point.spec


def _all_points(pe: str, registered: bool) -> bool:
    wanted = {s for name, p, s in point_specs() if (name, p.registered) == (pe, registered)}
    return wanted <= {point.spec for point in load_points()}


def _compared(name: str, registered: bool) -> Point:
    """The point that comparison and scoreboard have."""
    unit = UNITS[name.lower()][not registered]
    (found,) = [p for p in load_points() if p.pe == name and resolve(p.spec).slug == unit]
    return found


@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize("name", BASELINES)
def test_comparison_and_scoreboard_take_what_the_rule_takes(name, registered):
    compared = _compared(name, registered)
    assert _all_points(name, registered)
    assert compared == taken_point(load_points(), name, registered=registered)
    assert registered or resolve(PES[name]) == resolve(compared.spec)


@pytest.mark.parametrize("name", BASELINES)
def test_the_documented_points_are_those_of_the_record(name):
    """How many there are, what is taken, and its figures beside those of the block by default."""
    points = [p for p in load_points() if p.pe == name]
    known = sum(pe == name for pe, _, _ in point_specs())
    taken = _compared(name, registered=True)
    settings = f"stages={taken.stages}"
    settings += "" if taken.adder == "balanced" else f",adder={taken.adder}"
    settings += ",bounded=true" if taken.bounded else ""
    default = resolve(f"{BASELINES[name][0]},registered=true").slug
    figures = (taken.area_um2, area_um2(default), taken.fj_per_mac, energy_fj(default))
    shown = " | ".join(f"{figure:.1f}" for figure in figures)
    row = f"| {name} | {len(points)} of {known} | `{settings}` | {shown} |"
    assert row in DOCUMENT.read_text().splitlines()


def floats(patterns):
    return patterns.astype(np.uint16).view(np.float16).astype(np.float64)


def test_samples_are_what_elements_take():
    found = samples()
    assert found["activation"].shape == (STREAMS, DOTS, LENGTH)
    assert np.isfinite(floats(found["activation"])).all()
    assert found["weight"].min() >= -8 and found["weight"].max() == 7
    assert (floats(found["scale"]) > 0).all()
    # Nothing is constant: no stream, no dot product, no place in one.
    for axis in range(3):
        assert (np.ptp(floats(found["activation"]), axis=axis) > 0).all()
    assert (np.ptp(found["weight"], axis=1) >= 7).all()


@pytest.mark.full
def test_samples_are_those_of_the_model():
    smollm2_or_skip()
    ours, anew = samples(), pe_tensors.sampled()
    # Up to the order of summation of this machine's BLAS, which may also turn a choice of scale.
    np.testing.assert_allclose(floats(ours["activation"]), floats(anew["activation"]), 0.02, 0.01)
    assert (ours["weight"] == anew["weight"]).mean() > 0.99
