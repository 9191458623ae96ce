"""DECA's RTL and parameters against the paper's figures, as docs/results/claims.md lists them."""

from itertools import product
from pathlib import Path

import pytest

from tilewright.claims import find_claim
from tilewright.claims.deca import HBM, _rate, prefetch_rate
from tilewright.golden.params.deca import LUT_ENTRIES, TILE_BYTES, DecaParams
from tilewright.sim.calibration import other_choice
from tilewright.sim.deca_stream import Integration, tile_rate
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.xeon import MATRIX_CYCLES

PAGE = " ".join((Path(__file__).parents[2] / "docs/results/claims.md").read_text().split())


def test_tiles_take_the_cycles_of_the_papers_formula_on_our_rtl():
    """Every line in the L2; the record is made by ``tilewright simulate deca.rates``."""
    expected = find_claim("deca.cycles_per_tile.w32l8").numbers
    assert len(expected) == 6
    for density, formula in expected.items():
        scheme = "bf8" if density == "100" else f"bf8_{density}%"
        assert _rate(f"l2 {scheme}") == pytest.approx(formula, rel=0.01), scheme
    assert _rate("l2 mxfp4") == pytest.approx(16, rel=0.01)


def cycles(scheme, lines, prefetch):
    """Cycles of a tile with an SQQ of so many lines in each loader."""
    return tile_rate(
        DecaParams(sqq_lines=lines),
        resolve_weight_scheme(scheme),
        bytes_per_cycle=HBM.bytes_per_cycle(HBM.cores),
        matrix_cycles=MATRIX_CYCLES,
        integration=Integration(prefetch=prefetch, degree=5),
    ).cycles


def test_two_lines_of_the_sqq_are_enough_where_lines_are_prefetched():
    for scheme, lines in product(("bf8", "bf8_5%", "mxfp4"), (2, 16)):
        full = cycles(scheme, 32, "deca")
        assert cycles(scheme, lines, "deca") == pytest.approx(full, rel=0.003), scheme


def test_without_a_prefetcher_the_sqq_covers_two_tiles():
    two, eight, sixteen, full = (cycles("bf8", lines, "none") for lines in (2, 8, 16, 32))
    assert f"{two:.0f} cycles with 2 lines, {eight:.0f} with 8 and {sixteen:.0f} with 16" in PAGE
    assert sixteen == full


def test_one_tile_in_flight_in_a_loader_is_slower_without_a_prefetcher():
    ours = prefetch_rate("none", 0)
    with other_choice("port"):
        assert prefetch_rate("none", 0) < 0.6 * ours
        assert prefetch_rate("deca", 1) == pytest.approx(prefetch_rate("deca", 5), rel=0.01)


def test_memories_of_a_pe_have_the_printed_sizes():
    """A tile output is one tile of 1 KB; the printed 2 KB are explained in docs/deca.md."""
    p, printed = DecaParams.preset("paper"), find_claim("deca.table3.bytes").numbers
    lines = {"sqq": p.sqq_lines, "bitmask_queue": p.mask_queue_lines}
    lines["scale_queue"] = p.scale_queue_lines
    sizes = {name: count * p.line_bytes for name, count in lines.items()}
    sizes |= {"tout": 2 * TILE_BYTES, "big_lut": 2 * LUT_ENTRIES}
    assert sizes.items() <= printed.items()
