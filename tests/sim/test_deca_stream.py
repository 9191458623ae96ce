"""Rates of a core with a DECA: limits that hold whatever the constants are, and the record."""

from pathlib import Path

import pytest

from tilewright.claims import load_claims
from tilewright.claims.deca import (
    ABLATION_SCHEMES,
    ablation_gain,
    ablation_gain_on_rtl,
    prefetch_rate,
    prefetch_rate_on_rtl,
)
from tilewright.golden.params.deca import DecaParams
from tilewright.golden.params.resolve import resolve
from tilewright.sim.calibration import asked, changed, measured
from tilewright.sim.deca_stream import LONG, Integration, tile_rate
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.sim.xeon import PAPER_DECA, SYSTEMS, deca_cycles
from tilewright.studies.measured import load_measured
from tilewright.studies.runs.deca_rates import PLAIN, PREFETCHERS, model_stream, rate_cases

PAPER = DecaParams()
MUCH = 64.0  # bytes a cycle


def recorded():
    """Rows of the record of the RTL, by name."""
    return {row["name"]: row for row in load_measured("deca_rates")["rates"]}


def rate(scheme, share=MUCH, matrix=16, **how):
    return tile_rate(
        PAPER,
        resolve_weight_scheme(scheme),
        bytes_per_cycle=share,
        matrix_cycles=matrix,
        integration=Integration(**how),
    )


@pytest.mark.parametrize("scheme", ["bf8_50%", "mxfp4"])
def test_nothing_is_faster_than_its_slowest_part(scheme):
    found = resolve_weight_scheme(scheme)
    bytes_per_cycle = SYSTEMS["spr-hbm"].bytes_per_cycle(56)
    least = max(deca_cycles(PAPER, found), 16, found.tile_bytes / bytes_per_cycle)
    assert rate(scheme, bytes_per_cycle).cycles > 0.99 * least


def test_a_slow_matrix_unit_is_the_rate():
    assert rate("bf8_20%", matrix=200).cycles == 200


def test_without_prefetches_every_line_misses_and_the_latency_shows():
    found = rate("mxfp4", prefetch="none")
    assert found.missed > 0.99
    with changed("memory_latency", 2.0):
        assert rate("mxfp4", prefetch="none").cycles > 1.5 * found.cycles


def test_stores_and_fences_expose_what_tepls_hide():
    by_tepl, by_store = (rate("bf8_5%", degree=15, tepl=tepl).cycles for tepl in (True, False))
    # A store, its answer, a load and its rows are in the way of each other, and of the product.
    assert by_store >= 16 + 16 + 4 * 3
    assert by_tepl < by_store / 1.5
    assert rate("bf8_5%", degree=15, tepl=False, tout=False).cycles > by_store


def test_the_degree_is_one_of_the_hardware():
    with pytest.raises(ValueError, match=r"^degree must be 0..15, not 16$"):
        Integration(degree=16)


def test_the_record_of_the_rtl_is_what_the_model_says():
    """A slice. After a change: ``tilewright simulate deca.rates --update-record``."""
    rows = recorded()
    cases = rate_cases(rows["l2 mxfp4"]["tiles"])
    assert set(rows) == set(cases)
    each = "table5 deca 1 as_published"
    for name in ("l2 bf8_20%", "table5 deca 5", "table5 none 0", "fig16 3 bf8_5%", each):
        block, _, case = cases[name]
        row = rows[name]
        assert row["equal_tiles"] == row["tiles"] and row["equal_requests"]
        model = model_stream(resolve(block), case)
        assert model.interval == row["cycles_per_tile"], name
        assert model.memory.missed == row["lines_missed"]


def test_streams_that_drop_prefetches_are_long_enough():
    """Over the first hundreds of tiles the model's and the RTL's mean differed by a tenth."""
    rows, share = recorded(), SYSTEMS["spr-hbm"].bytes_per_cycle(56)
    for name, scheme, degree in (("table5 deca 15", "mxfp4", 15), ("hbm bf16_50%", "bf16_50%", 5)):
        assert rows[name]["tiles"] == LONG and rows[name]["lines_prefetched"]
        found = rate(scheme, share, degree=degree)
        assert found.cycles == pytest.approx(rows[name]["cycles_per_tile"], rel=0.03)


def documented_rows():
    """Paper, RTL and model, as docs/model-accuracy.md has them."""
    published = load_claims("deca")
    for kind, degree in PREFETCHERS:
        name = kind if kind != "deca" else f"deca{degree}"
        what = {"none": "no prefetcher", "l2": "the L2's own"}.get(kind, f"DECA's, degree {degree}")
        model = prefetch_rate(kind, degree)
        rtl = prefetch_rate_on_rtl(kind, degree)
        paper = published[f"deca.table5.{name}"].number
        yield f"| Table 5, {what}, TFMA/s | {paper:g} | {rtl:.2f} | {model:.2f} |"
    for scheme in ABLATION_SCHEMES:
        model = ablation_gain(scheme, 4)
        rtl = ablation_gain_on_rtl(scheme, 4)
        paper = published["deca.fig16.tepl_gain_5pct"].number if scheme == "bf8_5%" else None
        shown = "" if paper is None else f"{paper:g}"
        yield f"| Figure 16, TEPL over stores, {scheme} | {shown} | {rtl:.2f} | {model:.2f} |"


def documented_streams():
    """Cycles from tile to tile of the record, as docs/model-accuracy.md has them."""
    rows = recorded()
    for scheme in PLAIN:
        streams = (f"{memory} {scheme}" for memory in ("l2", "hbm", "hbm deep"))
        cells = (f"{rows[name]['cycles_per_tile']:.2f}" if name in rows else "" for name in streams)
        yield f"| {scheme} | {' | '.join(cells)} |"


def test_the_documented_rates_are_ours():
    text = (Path(__file__).parents[2] / "docs" / "model-accuracy.md").read_text()
    for row in (*documented_rows(), *documented_streams()):
        assert row in text, row


def test_tiles_keep_the_matrix_unit_fed():
    """Limits on the record: pipeline or rows with every line near, else the share of HBM."""
    rows = recorded()
    share = SYSTEMS["spr-hbm"].bytes_per_cycle(56)
    for scheme in PLAIN:
        found = resolve_weight_scheme(scheme)
        near = max(16, deca_cycles(PAPER, found))
        assert rows[f"l2 {scheme}"]["tiles"] >= 10_000
        assert rows[f"l2 {scheme}"]["cycles_per_tile"] <= 1.05 * near
        far = rows.get(f"hbm deep {scheme}", rows[f"hbm {scheme}"])
        assert far["cycles_per_tile"] <= 1.05 * max(near, found.tile_bytes / share), scheme


def test_a_factor_holds_inside_its_statement():
    with asked("inputs") as names, changed("a", 1.5), changed("a", 2.0):
        assert measured("a", 10.0) == pytest.approx(30)
        assert measured("b", 10.0) == 10
    assert names == {"a", "b"} and measured("a", 10.0) == 10


def test_a_slower_deca_is_slower_where_it_bounds():
    scheme = resolve_weight_scheme("bf8_5%")
    asked = {"bytes_per_cycle": 5.7, "matrix_cycles": 16, "integration": Integration()}
    before = tile_rate(PAPER_DECA, scheme, **asked).cycles
    with changed("deca.cycles", 1.5):
        assert tile_rate(PAPER_DECA, scheme, **asked).cycles > 1.1 * before
    assert tile_rate(PAPER_DECA, scheme, **asked).cycles == before
