"""DECA's RTL and parameters against the paper's figures, as docs/results/claims.md lists them."""

from itertools import product
from pathlib import Path

import pytest

from tilewright.claims import find_claim
from tilewright.claims.deca import HBM, _rate, prefetch_rate
from tilewright.golden.params.deca import LUT_ENTRIES, TILE_BYTES, DecaParams
from tilewright.sim.calibration import changed, other_choice
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


SHARE = HBM.bytes_per_cycle(HBM.cores)


def cycles(scheme, lines, prefetch, share=SHARE):
    """Cycles of a tile with an SQQ of so many lines in each loader."""
    return tile_rate(
        DecaParams(sqq_lines=lines),
        resolve_weight_scheme(scheme),
        bytes_per_cycle=share,
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


def test_more_lines_of_the_sqq_are_needed_where_every_line_is_in_the_l2():
    with changed("memory_latency", 0.0):
        found = [cycles("bf16_50%", lines, "none", share=64) for lines in (2, 4, 8, 32)]
    two, four, eight, full = found
    assert f"{two:.1f} cycles with 2 lines, {four:.1f} with 4 and {eight:.1f} with 8" in PAGE
    assert full == pytest.approx(eight, rel=0.001)


def test_the_loaders_of_the_paper():
    """One tile and a prefetcher each: slower but where the prefetcher is far ahead."""
    kinds = [("none", 0), ("l2", 0), ("deca", 1), ("deca", 5), ("deca", 15)]
    ours = [prefetch_rate(*kind) for kind in kinds]
    with other_choice("loaders"):
        none, l2, one, five, fifteen = (prefetch_rate(*kind) for kind in kinds)
    assert none < 0.6 * ours[0] and l2 < 0.6 * ours[1] and one < 0.6 * ours[2]
    assert five == pytest.approx(ours[3], rel=0.01) and fifteen == pytest.approx(five, rel=0.01)
    # The paper on its prefetcher: degree 1 is not enough.
    assert one == pytest.approx(find_claim("deca.table5.deca1").number, rel=0.08)


def test_memories_of_a_pe_have_the_printed_sizes():
    """A tile output is one tile of 1 KB; the printed 2 KB are explained in docs/deca.md."""
    p, printed = DecaParams.preset("paper"), find_claim("deca.table3.bytes").numbers
    lines = {"sqq": p.sqq_lines, "bitmask_queue": p.mask_queue_lines}
    lines["scale_queue"] = p.scale_queue_lines
    sizes = {name: count * p.line_bytes for name, count in lines.items()}
    sizes |= {"tout": 2 * TILE_BYTES, "big_lut": 2 * LUT_ENTRIES}
    assert sizes.items() <= printed.items()
