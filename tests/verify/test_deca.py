"""The DECA processing element as emitted Verilog: results, cycles, errors, squashes, coverage."""

from dataclasses import asdict

import numpy as np
import pytest

from tests.support.benches import names_of, run_on_both, run_passing, simulate
from tests.support.claims import claim
from tilewright.cli import main
from tilewright.golden.deca import expected_cycles
from tilewright.golden.params.deca import DecaParams, ScaleKind, TileConfig
from tilewright.golden.params.resolve import resolve
from tilewright.studies.measured import load_measured
from tilewright.studies.runs import deca_gemm
from tilewright.verify.coverage import Coverage
from tilewright.verify.deca.workload import Squash, tile_coverage
from tilewright.verify.job import DEFAULT_STALLS

TESTS = {
    "every_configuration",
    "every_scheme",
    "every_combination",
    "cycles_equal_the_model",
    "every_error",
    "squash_at_any_time",
    "registers_keep_and_refuse",
    "tiles_through_registers",
    "contexts_change_in_mid_stream",
    "stray_answers_are_noted",
    "prefetches_are_goldens",
    "prefetches_never_repeat",
}


# Fast.


@pytest.mark.parametrize(
    "block", [pytest.param("deca:small", marks=pytest.mark.full), "deca:paper"]
)
def test_everything_in_short(block):
    """Every test on the emitted Verilog; the paper's size is the one that matters."""
    result = run_passing(block, cases=8)
    assert names_of(result) == TESTS
    coverage = Coverage.from_dict(result.numbers["coverage"])
    assert sum(coverage.hits) > 100


@pytest.mark.parametrize(
    "only",
    [
        "every_configuration|squash_at_any_time|registers_keep_and_refuse",
        # Hundreds of tiles, which take Icarus Verilog as long as all of the others.
        pytest.param("every_error", marks=pytest.mark.full),
    ],
)
def test_both_simulators_see_the_same_cycles(only):
    results = run_on_both("deca:small", only=only, cases=6)
    assert [len(result.tests) for result in results] == [only.count("|") + 1] * 2


def test_axi():
    result = run_passing("deca_axi:small", cases=8)
    assert len(result.tests) == 4


def test_speculative_tepls():
    """Issued, flushed and completed into tile registers, by the TEPL unit and the PE."""
    result = run_passing("deca_tepl:small", cases=30)
    assert len(result.tests) == 2
    assert result.numbers["flushes"] >= 10
    assert Coverage.from_dict(result.numbers["coverage"]).axes.keys() == {"dropped", "stall"}


def cycle_row(table, config, density):
    (row,) = [
        row
        for row in table
        if (row["code_bits"], row["scale"], row["int8"], row["density"])
        == (config.code_bits, config.scale.value, config.int8, density)
    ]
    return row


# Records, which the report shows.


def test_record_is_of_this_model():
    """Measured cycles are the model's, to the last one; the formula is the one of golden."""
    record = load_measured("deca_cycles")
    assert list(record["blocks"]) == [f"deca:{preset}" for preset in DecaParams.PRESETS]
    for spec, rows in record["blocks"].items():
        params = resolve(spec)
        for row in rows:
            assert row["measured"] == row["model"]
            config = TileConfig(
                code_bits=row["code_bits"],
                sparse=row["density"] < 1,
                scale=ScaleKind(row["scale"]),
                group=row["group"],
                int8=row["int8"],
            )
            assert row["formula"] == float(expected_cycles(params, config, row["density"]))


@pytest.mark.parametrize(
    ("preset", "figures"),
    [
        ("paper", "deca.cycles_per_tile.w32l8"),
        ("small", "deca.cycles_per_tile.w8l4"),
        ("large", "deca.cycles_per_tile.w64l64"),
    ],
)
def test_recorded_cycles_are_the_papers(preset, figures):
    """Within 0.5% of the closed form at every density; dense tiles exactly."""
    table = load_measured("deca_cycles")["blocks"][f"deca:{preset}"]
    for percent, cycles in claim(figures).items():
        row = cycle_row(table, TileConfig(), int(percent) / 100)
        assert row["measured"] == pytest.approx(cycles, rel=0.005)
        if percent == "100":
            assert row["measured"] == cycles


def test_recorded_coverage_has_no_hole():
    record = load_measured("deca_coverage")
    assert list(record["blocks"]) == [f"deca:{preset}" for preset in DecaParams.PRESETS]
    for entry in record["blocks"].values():
        coverage = Coverage.from_dict(entry)
        assert coverage.axes == tile_coverage(DEFAULT_STALLS).axes
        assert coverage.holes == []
        squashed = [found["squash"] != Squash.NONE for found in coverage.bins()]
        assert np.dot(squashed, coverage.hits) >= 1000


# Workloads.


def test_small_gemm(capsys):
    """The function that the command calls; every field of its result is in the JSON."""
    words = ("--block", "deca:small", "--m", "40", "--k", "200", "--n", "5", "--latency", "20")
    words += ("--scheme", "mxfp4", "--density", "0.4", "--prefetch", "2")
    code, result = simulate(capsys, "deca.gemm", *words)
    memory = deca_gemm.DecaMemory(latency=20, prefetch=2)
    run = deca_gemm.gemm_on_deca(
        "deca:small", m=40, k=200, n=5, scheme="mxfp4", density=0.4, memory=memory
    )
    assert code == 0 and result == asdict(run) | {"shape": list(run.shape)}
    assert result["equal"] and result["wrong"] == 0
    assert result["tiles"] == 3 * 7  # a ragged matrix
    assert result["cycles_per_tile"] >= (
        result["vector_operations_per_tile"] + result["bubbles_per_tile"]
    )
    assert result["lines_read"] >= result["bytes"] / 64
    assert 0 < result["prefetch_accuracy"] <= 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--m", "0"], "m must be at least 1, not 0"),
        (["--prefetch", "16"], "prefetch must be 0..15, not 16"),
        (["--block", "popcount"], "deca.gemm runs on a block deca, not popcount"),
        (["--scheme", "bf9"], "unknown scheme 'bf9'"),
        (
            ["--block", "deca:large", "--scheme", "int8,group=1", "--m", "16", "--k", "32"],
            "deca__lanes_64__luts_64 cannot scale groups of 1 elements",
        ),
    ],
)
def test_refused_gemms(words, message, capsys):
    assert main(["simulate", "deca.gemm", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("workload", ["deca.cycles", "deca.coverage"])
def test_record_is_of_every_preset(workload, capsys):
    assert main(["simulate", workload, "--block", "deca", "--update-record"]) == 2
    assert "--update-record measures every preset: leave out --block" in capsys.readouterr().err


# Long.


@pytest.mark.full
@pytest.mark.parametrize("preset", DecaParams.PRESETS)
def test_every_combination(preset, capsys):
    """Format x density x alignment x stall x squash: a hole fails."""
    code, result = simulate(capsys, "deca.coverage", "--block", f"deca:{preset}")
    assert code == 0
    assert Coverage.from_dict(result["coverage_by_block"][f"deca:{preset}"]).holes == []


@pytest.mark.full
def test_cycle_record_can_be_made_again(capsys):
    record = load_measured("deca_cycles")
    words = record["command"].replace(" --update-record", "").split()[2:]
    code, result = simulate(capsys, *words)
    assert code == 0
    assert (result["seed"], result["cycles_by_block"]) == (record["seed"], record["blocks"])


EVERYTHING = "|".join(TESTS - {"every_combination", "cycles_equal_the_model"})
LOADING = "every_configuration|squash_at_any_time|stray_answers_are_noted"


@pytest.mark.full
@pytest.mark.parametrize(
    ("block", "options"),
    [
        # Schemes, configurations, errors, contexts, and thousands of squashes.
        ("deca:small", {"only": EVERYTHING, "cases": 2000}),
        ("deca:small", {"only": EVERYTHING, "cases": 2000, "seed": 2}),
        ("deca:paper", {"only": EVERYTHING, "cases": 1000}),
        ("deca:large", {"only": EVERYTHING, "cases": 500}),
        ("deca:small,cam_entries=2,sqq_lines=2", {"only": LOADING, "cases": 300}),
        (
            "deca:small,cam_entries=5,sqq_lines=3,mask_queue_lines=2",
            {"only": LOADING, "cases": 300},
        ),
        *((f"deca:{size}", {"simulator": "icarus", "cases": 6}) for size in ("paper", "large")),
        *((f"deca_axi:{size}", {"cases": 40}) for size in ("paper", "large")),
        ("deca_tepl:small,tepl_entries=2", {"cases": 300}),
        ("deca_tepl:small,tepl_entries=5,port_commands=1", {"cases": 300}),
        ("deca_tepl:small", {"simulator": "icarus", "cases": 24}),
    ],
)
def test_at_length(block, options):
    run_passing(block, optimize="-O1", **options)


@pytest.mark.full
@pytest.mark.parametrize("preset", DecaParams.PRESETS)
def test_hundreds_of_flushed_tepls(preset):
    result = run_passing(f"deca_tepl:{preset}", cases=600, optimize="-O1")
    assert result.numbers["flushes"] >= 200


@pytest.mark.full
def test_the_gemm_of_the_readme(capsys):
    words = ("--m", "256", "--k", "1024", "--n", "16", "--scheme", "bf8", "--density", "0.2")
    code, result = simulate(capsys, "deca.gemm", *words)
    assert code == 0 and result["equal"]
    assert result["tiles"] == 512
