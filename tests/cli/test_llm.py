"""The commands of the performance model as a user meets them."""

import csv
import json
import re

import pytest

from tests.cli.test_cli import modules_after, run
from tilewright.sim.records import area_um2, deca_power_mw, deca_runs


def as_json(capsys, *argv):
    code, out, err = run(capsys, *argv, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_llm_gives_latency_rate_bounds_energy_and_memory(capsys):
    found = as_json(
        capsys, "llm", "llama-2-70b", "--system", "spr-hbm", "--scheme", "mxfp4", "--batch", "16"
    )
    assert found["tokens_per_second"] == pytest.approx(16e3 / found["latency_ms"])
    assert sum(found["ms_by_part"].values()) == pytest.approx(found["latency_ms"])
    assert set(found["utilisation"]) == {"memory", "vector", "matrix", "l2", "llc"}
    assert found["engine"] == "deca"
    assert found["memory_bytes"]["fits"] is True
    seconds, energy = found["latency_ms"] / 1e3, found["joules_by_part"]
    assert energy["memory"] > 0
    assert energy["idle"] == pytest.approx(0.3 * 350 * seconds)
    assert 0.55 * 350 * seconds < sum(energy.values()) < 350 * seconds
    assert found["average_watts"] == pytest.approx(sum(energy.values()) / seconds)
    rate = found["tokens_per_second"]
    assert found["tokens_per_second_per_watt"] == pytest.approx(rate / found["average_watts"])
    assert found["tokens_per_second_per_mm2"] == pytest.approx(
        rate / (1576 + 56e-6 * area_um2("deca", "fastest"))
    )
    # 56 DECAs, by their energy record: more than idle, less than always at work.
    idle, work = (56e-3 * deca_power_mw(run) * seconds for run in ("idle", "mxfp4 real"))
    assert idle < energy["deca"] < work
    assert any("energy of deca is that of its netlist" in line for line in found["remarks"])


def test_energy_of_deca_without_a_run_of_the_scheme_is_the_mean(capsys):
    """The record has no run of bf8 at 30%."""
    found = as_json(capsys, "llm", "llama-2-70b", "--scheme", "bf8_30%")
    same = as_json(capsys, "llm", "llama-2-70b", "--scheme", "q8_30%")
    assert found["joules_by_part"]["deca"] == same["joules_by_part"]["deca"]
    real = [deca_power_mw(run) for run in deca_runs() if run.endswith(" real")]
    busy, seconds = found["utilisation"]["vector"], found["latency_ms"] / 1e3
    watts = 56e-3 * (busy * sum(real) / len(real) + (1 - busy) * deca_power_mw("idle"))
    assert found["joules_by_part"]["deca"] == pytest.approx(watts * seconds)


def test_llm_prints_the_same_as_text(capsys):
    code, out, err = run(capsys, "llm", "opt-125m", "--system", "anda")
    assert code == 0
    assert "tokens/s" in out
    assert "scheme 7/7/6/5" in out
    assert err.startswith("tilewright: formula only: ")


def test_a_model_that_does_not_fit_says_so(capsys):
    code, _, err = run(capsys, "llm", "opt-66b", "--scheme", "bf16")
    assert code == 0
    assert "tilewright: does not fit: 13" in err


def test_a_context_beyond_the_models_own_is_remarked(capsys):
    found = as_json(capsys, "llm", "opt-125m", "--context", "4096")
    assert "opt-125m was trained for 2048 tokens" in found["remarks"]


def test_anda_takes_mantissa_lengths(capsys):
    short, long = (
        as_json(capsys, "llm", "opt-1.3b", "--system", "anda", "--scheme", s, "--phase", "prefill")
        for s in ("4", "13/12/11/10")
    )
    assert short["scheme"] == "4/4/4/4"
    assert short["ms_by_part"]["q"] < long["ms_by_part"]["q"]


def test_a_deca_of_another_size_is_beside_the_cores(capsys):
    """Few lanes and tables make the vector pipeline the bound; the paper's size is the default."""
    words = ("llm", "llama-2-70b", "--scheme", "bf8_50%")
    plain = as_json(capsys, *words)
    same = as_json(capsys, *words, "--block", "deca:paper")
    assert same | {"block": None} == plain
    small = as_json(capsys, *words, "--block", "deca,lanes=8,luts=4")
    assert (small["system"], small["engine"]) == ("spr-hbm", "deca")
    assert small["block"] == "deca__lanes_8__luts_4"
    assert small["bound"] == "vector" != plain["bound"]
    assert small["latency_ms"] > 1.3 * plain["latency_ms"]
    # There is no energy record of that size, and none is made up.
    assert "deca" not in small["joules_by_part"]
    missing = "energy of deca is not counted: no energy record of deca__lanes_8__luts_4 in asap7"
    assert missing in small["remarks"]


def test_gemm_with_a_deca_of_another_size(capsys):
    words = ("gemm", "1", "8192", "28672", "--scheme", "bf8")
    (plain,), (small,) = (
        as_json(capsys, *words, *more) for more in ((), ("--block", "deca,lanes=16,luts=4"))
    )
    assert small["bound"] == "vector"
    # Dense 8-bit codes take 512 / 4 cycles/tile, on 56 cores at 2.5 GHz.
    tiles = 8192 * 28672 / 512 / 56
    assert small["milliseconds"] == pytest.approx(1e3 * tiles * 128 / 2.5e9, rel=0.02)
    assert small["milliseconds"] > 1.4 * plain["milliseconds"]


def test_roofsurface_names_the_bound_of_every_kernel(capsys):
    found = as_json(capsys, "roofsurface", "--system", "spr-ddr")
    bounds = {row["scheme"]: row["bound"] for row in found["kernels"]}
    assert {name for name, bound in bounds.items() if bound == "VEC"} == {"bf8_10%", "bf8_5%"}
    best = as_json(capsys, "roofsurface", "--block", "deca")
    assert all(row["bound"] != "VEC" for row in best["kernels"])
    small = as_json(capsys, "roofsurface", "--block", "deca,lanes=8,luts=4")
    assert sum(row["bound"] == "VEC" for row in small["kernels"]) == 11


def test_a_kernel_that_decompresses_nothing_has_no_vector_intensity(capsys):
    (row,) = as_json(capsys, "roofsurface", "--scheme", "bf16")["kernels"]
    assert row["matrix_ops_per_vector_op"] is None


def test_roofsurface_finds_the_smallest_deca(capsys):
    code, out, _ = run(capsys, "roofsurface", "--explore")
    assert code == 0
    assert out.endswith("smallest without a vector-bound kernel: W = 32, L = 8\n")


def test_claims_are_counted_by_class(capsys):
    _, out, _ = run(capsys, "claims", "--paper", "anda", "--classes")
    assert "figures that our hardware decides hold" in out
    classes = {c["name"]: c for c in as_json(capsys, "claims", "--paper", "anda", "--classes")}
    assert (classes["bound"]["holds"], classes["bound"]["off"]) == (0, 3)


def test_claims_begin_with_those_of_the_abstract(capsys):
    code, out, _ = run(capsys, "claims", "--paper", "harmonia", "--verdict", "not evidence")
    assert code == 0
    assert out.splitlines()[1].startswith("harmonia  Area efficiency: mean, at most")
    assert "harmonia.pe.m8m8_area_eff_vs_anda_m4" in out
    assert "harmonia.joint.speedup.min" not in out  # it holds
    found = as_json(capsys, "claims", "--paper", "harmonia")
    assert [paper["name"] for paper in found] == ["harmonia"]
    assert len(found[0]["headlines"]) == 10
    assert found[0]["headlines"][4]["ids"] == ["harmonia.joint.speedup.max"]
    (size,) = (c for c in found[0]["claims"] if c["id"] == "harmonia.kv_share_low")
    assert (size["compare"], size["verdict"]) == ("equal", "not evidence")
    assert (size["published"], size["ours"], size["holds"]) == ([31.25], [31.25], None)
    assert (size["tolerance"], size["deviation"], size["deviation_unit"]) == (None, None, "percent")


def test_claims_that_turn_with_a_measured_input(capsys):
    found = as_json(capsys, "claims", "--what-if", "deca.power=+30%")
    assert {pair["before"]["id"] for pair in found} >= {"deca.power.total_56"}
    assert all(pair["before"]["verdict"] != pair["after"]["verdict"] for pair in found)


def test_compare_llm_has_every_system(capsys):
    rows = as_json(capsys, "compare", "llm", "opt-1.3b", "--batch", "4")
    assert {row["system"] for row in rows} >= {"spr-ddr", "spr-hbm", "anda", "harmonia", "fp-fp"}
    assert {row["kind"] for row in rows} == {"predicted", "formula"}  # OPT has no programs
    code, out, err = run(capsys, "compare", "llm", "opt-1.3b")
    assert code == 0
    assert "TOKENS/S" in out and "KIND" in out
    # Energy, as its help says, and what kind of figure it is.
    place = out.splitlines()[0].index("J/TOKEN")
    assert all(float(line[place : place + 7]) > 0 for line in out.splitlines()[1:])
    assert "energy of the package is its design power by activity" in err


def test_a_prompt_with_its_answer(capsys):
    words = ("llm", "llama-3.2-1b", "--prompt", "128", "--tokens", "4", "--batch", "2")
    code, out, _ = run(capsys, *words)
    assert code == 0 and "first token" in out and "new tokens/s" in out


def test_sweeps_are_drawn(capsys, tmp_path):
    words = ("llm", "opt-125m", "--sweep", "batch=1..4", "--sweep", "bandwidth=100GB/s,200GB/s")
    plot = tmp_path / "x.svg"
    code, out, _ = run(capsys, *words, "--plot", str(plot))
    assert (code, out.split()[2]) == (0, "BANDWIDTH")
    assert plot.read_text().startswith("<svg")


def test_contexts_of_several_lengths(capsys):
    found = as_json(capsys, "llm", "opt-125m", "--context", "3x64,1x512")
    assert (found["batch"], found["context"], found["contexts"]) == (4, 512, [[3, 64], [1, 512]])
    _, out, _ = run(capsys, "llm", "opt-125m", "--context", "3x64,1x512")
    assert "batch 4, context 3x64,1x512" in out


def test_the_largest_batch_within_a_time(capsys):
    code, out, err = run(capsys, "llm", "opt-125m", "--within", "20")
    assert code == 0
    assert "is the largest within 20 ms" in err
    assert "decode, batch " in out


def test_a_sweep_is_a_table_json_or_csv(capsys):
    words = ("llm", "opt-125m", "--sweep", "batch=1..4*2", "--sweep", "kv=bf16,int8")
    rows = as_json(capsys, *words)
    assert [(row["batch"], row["kv_format"]) for row in rows] == [
        (batch, kv) for batch in (1, 2, 4) for kv in ("bf16", "int8")
    ]
    code, out, err = run(capsys, *words, "--csv")
    table = list(csv.DictReader(out.splitlines()))
    assert code == 0
    assert [float(row["latency_ms"]) for row in table] == [row["latency_ms"] for row in rows]
    assert (
        "energy of the package is its design power by activity" in err
    )  # beside the table, not in it
    code, out, _ = run(capsys, *words)
    assert (code, len(out.splitlines())) == (0, 7)


def test_list_has_models_and_systems(capsys):
    models = {row["name"]: row for row in as_json(capsys, "list", "models")}
    assert models["mixtral-8x7b"]["experts"]["count"] == 8
    assert models["deepseek-v3"]["latent"]["kv_rank"] == 512
    _, out, _ = run(capsys, "list", "models")
    assert "64 heads, 8 of 64 cached, 12 layers see 128" in out
    assert {row["system"] for row in as_json(capsys, "list", "systems")} > {"spr-hbm", "anda"}
    assert run(capsys, "list", "systems")[0] == 0


def test_a_bound_that_one_sequence_exceeds_says_what_it_takes(capsys):
    """In a few digits, which are the model's and not the test's."""
    code, out, err = run(capsys, "llm", "opt-125m", "--within", "0.1")
    assert (code, out) == (2, "")
    pattern = r"tilewright: one sequence takes \d+(\.\d{1,3})? ms, more than 0\.1\n"
    assert re.fullmatch(pattern, err)


def test_llm_needs_no_hardware_description():
    """So that it takes less than a second."""
    loaded = modules_after("llm", "opt-125m")
    assert "numpy" in loaded
    assert not loaded & {"amaranth", "pyosys", "matplotlib", "rich", "tilewright.claims.scoreboard"}


def test_a_model_with_weights_has_the_names_of_its_shape():
    from tilewright.cli import command_parser

    for command, *words in (["run", "--prompt", "x"], ["compile"], ["search"], ["kv"]):
        args = command_parser(command).parse_args(["smollm2-135m", *words])
        assert args.model == "smollm2"


def test_one_option_names_systems_and_blocks(capsys):
    """``--on`` takes both; a block with a preset or fields is built as it says."""

    def result(*words):
        return as_json(capsys, "llm", "smollm2", *words, "--context", "32")

    assert result("--on", "harmonia:small") == result("--block", "harmonia:small")
    assert result("--on", "spr-ddr") == result("--system", "spr-ddr")
    assert result("--on", "deca:small") == result("--on", "spr-hbm", "--block", "deca:small")
    code, _, err = run(capsys, "llm", "smollm2", "--on", "deca:small", "--block", "deca")
    assert (code, err) == (2, "tilewright: --on deca:small is a block; leave --block out\n")
