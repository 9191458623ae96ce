"""Equations 1 to 3, the diagram's borders, and the design space."""

import pytest

from tilewright.golden.params.deca import DecaParams
from tilewright.sim.roofsurface import Kernel, Surface, explore, kernel
from tilewright.sim.scheme import PAPER_SCHEMES, resolve_weight_scheme
from tilewright.sim.xeon import SYSTEMS

HBM, DDR = SYSTEMS["spr-hbm"], SYSTEMS["spr-ddr"]
SCHEMES = [resolve_weight_scheme(name) for name in PAPER_SCHEMES]


def test_the_roof_surface_equation():
    surface = Surface(memory=100.0, vector=30.0, matrix=7.0)
    # 512 * N * min(MBW * x, VOS * y, MOS)
    assert surface.fma(0.01, 1.0, 3) == 512 * 3 * 1.0
    assert surface.fma(1.0, 0.1, 3) == 512 * 3 * 3.0
    assert surface.fma(1.0, 1.0, 3) == 512 * 3 * 7.0
    assert surface.fma(1.0, 1.0, 64) == 512 * 16 * 7.0  # a tile has sixteen rows
    assert surface.roofline(0.05, 2) == 512 * 2 * 5.0


def test_regions_change_at_the_borders():
    surface = Surface.of_cores(HBM)
    border = surface.borders
    x, y = border["mem_mtx_x"], border["vec_mtx_y"]
    assert y / x == pytest.approx(border["mem_vec_slope"], rel=1e-12)
    points = {"MEM": (x * 0.5, y), "VEC": (x * 2, y * 0.5), "MTX": (x * 2, y * 2)}
    for name, (memory, vector) in points.items():
        assert surface.bound(Kernel(name, memory, vector)) == name


def test_matrix_rate_is_a_tile_in_sixteen_cycles():
    assert HBM.matrix_rate == 56 * 2.5e9 / 16 == 8.75e9


def test_a_tie_with_the_matrix_unit_is_no_vector_bound():
    surface = Surface(memory=1e9, vector=16.0, matrix=1.0)
    assert surface.bound(Kernel("tie", 1.0, 1 / 16.0001)) == "MTX"
    assert surface.bound(Kernel("slow", 1.0, 1 / 17)) == "VEC"
    assert surface.bound(Kernel("memory", 1e-10, 1.0)) == "MEM"


def test_uses_of_a_tile_raise_both_intensities():
    scheme = resolve_weight_scheme("bf8_20%")
    one, four = kernel(scheme, 16), kernel(scheme, 64)
    assert (four.memory, four.vector) == (4 * one.memory, 4 * one.vector)


def test_deca_sizes_from_the_bubble_formula():
    point = kernel(resolve_weight_scheme("bf8"), params=DecaParams())
    assert point.vector == 1 / 64


def test_the_smallest_design_is_the_papers():
    found = explore(HBM, SCHEMES)
    assert (found.smallest.lanes, found.smallest.luts) == (32, 8)
    under = next(d for d in found.designs if (d.lanes, d.luts) == (8, 4))
    assert len(under.vector_bound) == 11
    assert "bf16_50%" not in under.vector_bound


def test_no_design_may_be_enough():
    with pytest.raises(ValueError, match=r"^every design leaves a kernel vector-bound$"):
        explore(HBM, SCHEMES, lanes=(8,))
    with pytest.raises(ValueError, match=r"^at least one scheme is needed"):
        explore(HBM, [])
