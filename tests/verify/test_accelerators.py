"""Anda and Harmonia as emitted Verilog: programs, cycles, errors, registers, models."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.benches import names_of, run_on_both, run_passing, simulate
from tests.support.tables import table_rows
from tilewright.cli import main
from tilewright.compiler.machine import machine_of
from tilewright.golden.machine.moves import LATENCY
from tilewright.golden.params.resolve import resolve
from tilewright.golden.params.vector import VectorParams

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
IN_BANKS = "anda:small,rows=8,columns=2,activation_rows=2048,line_bytes=16"
WIDE = "harmonia:small,converter_width=4,operand_rows=8192,dma_lines=64"
MACHINES = pytest.mark.parametrize("name", ["anda", "harmonia"])

TESTS = {
    *("random_programs", "directed_programs", "every_error", "last_rows_are_usable"),
    *("random_words", "registers_hold_and_refuse", "streamed_programs", "bad_code"),
    *("memory_without_answers", "steps_of_a_model"),
}
OWN_TESTS = {
    "anda": {"subnormal_reciprocals"},
    "harmonia": {
        *("external_memory_accesses", "scaled_sums_beside_ties", "steps_over_parts_of_a_cache")
    },
}


# Fast.


@pytest.mark.parametrize(
    ("name", "options"),
    [("anda", {"cases": 150, "stalls": (0.0, 0.6)}), ("harmonia", {"cases": 60, "stalls": (0.0,)})],
)
def test_everything_in_short(name, options):
    """Random programs, cycle for cycle without stalls; steps of a model; every error."""
    assert names_of(run_passing(f"{name}:small", **options)) == TESTS | OWN_TESTS[name]


def test_programs_under_stalls():
    run_passing("harmonia:small", cases=100, stalls=(0.3, 0.8), only="random_programs")


@pytest.mark.full  # a wide converter alone is in every run: tests/hw/test_harmonia_units.py
def test_a_wide_converter():
    """With four elements of every token in a cycle: what converts, that is all but errors.

    The block is that of a stream in tests/sim/test_programs.py, so that one build serves both.
    """
    converting = (
        *("random_programs", "external_memory_accesses"),
        *("steps_of_a_model", "steps_over_parts_of_a_cache"),
        "streamed_programs",
        "last_rows_are_usable",
    )
    result = run_passing(WIDE, cases=200, stalls=(0.0,), only="|".join(converting))
    assert names_of(result) == set(converting)


def test_transformer_block(capsys):
    """A compiled layer, a token of each of some sequences."""
    code, result = simulate(capsys, "anda")
    assert code == 0 and result["equal"]
    assert result["status"]["error"] == "none"
    assert result["counters"] | result["golden_counters"] == result["counters"]
    assert set(result["golden_counters"]) == set(result["counters"])
    assert result["counters"]["groups_compressed"] > 0


def test_program_of_a_file_on_anda(capsys, tmp_path):
    """The example of the documentation, on values whose softmax is known."""
    values = np.zeros((32, 2, 1), np.float16)  # rows, banks, values of a word
    values[:24, 0, 0] = np.linspace(-2, 2, 24)
    values[:24, 1, 0] = 1
    memory = np.zeros(6 * 64, np.uint8)
    memory[:128] = values.view(np.uint8).reshape(-1)
    np.savez(tmp_path / "in.npz", memory=memory)
    code, result = simulate(
        capsys,
        *("anda", "--program", str(EXAMPLES / "anda-norm.s"), "--memory", str(tmp_path / "in.npz")),
        *("--save", str(tmp_path / "out.npz"), "--latency", "3"),
    )
    assert code == 0 and result["equal"]
    out = np.load(tmp_path / "out.npz")["memory"]
    softmax = out[4 * 64 :].view(np.float16).reshape(32, 2)[:24].astype(float)
    powers = np.exp(np.linspace(-2, 2, 24) / np.sqrt(np.mean(np.linspace(-2, 2, 24) ** 2)))
    assert np.allclose(softmax[:, 0], powers / powers.sum(), atol=2e-3)
    assert np.allclose(softmax[:, 1], 1 / 24, atol=1e-4)


def test_program_of_a_file_on_harmonia(capsys, tmp_path):
    """The example of the documentation, on values whose attention is known."""
    rng = np.random.default_rng(3)
    k, v, q = (rng.standard_normal((n, 8)).astype(np.float16) for n in (4, 4, 2))
    # A token tile is two rows, each with four values of both tokens.
    tiles = [
        x[t : t + 2].reshape(2, 2, 4).swapaxes(0, 1) for x in (k, v, q) for t in range(0, len(x), 2)
    ]
    memory = np.zeros(6 * 64, np.uint8)
    memory[: 5 * 64].reshape(5, 64)[:, :32] = [
        np.ascontiguousarray(tile).view(np.uint8).reshape(-1) for tile in tiles
    ]
    np.savez(tmp_path / "in.npz", memory=memory)
    code, result = simulate(
        capsys,
        *(
            "harmonia",
            "--program",
            str(EXAMPLES / "harmonia-attention.s"),
            "--memory",
            str(tmp_path / "in.npz"),
        ),
        *("--save", str(tmp_path / "out.npz"), "--latency", "3"),
    )
    assert code == 0 and result["equal"]
    out = np.load(tmp_path / "out.npz")["memory"]
    got = out[5 * 64 :][:32].view(np.float16).reshape(2, 2, 4).swapaxes(0, 1).reshape(2, 8)
    scores = q.astype(float) @ k.astype(float).T
    scores[0, 3] = -np.inf  # token 2 does not see token 3
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    want = weights / weights.sum(axis=1, keepdims=True) @ v.astype(float)
    assert np.abs(got.astype(float) - want).max() < 0.05


def test_a_long_program_streams_from_memory(capsys, tmp_path):
    """Also a short one if it is asked to; in a loop, stores move on by a line each."""
    path = tmp_path / "loop.s"
    loop = "loop count=3, i1=1\nstore activations, row=0, rows=1, line=2+i1\nend\n"
    path.write_text("add s0, s0, #1\n" * 200 + loop + "halt\n")
    code, result = simulate(capsys, "anda", "--program", str(path))
    assert code == 0 and result["equal"] and result["streamed"]
    assert result["counters"]["instructions"] == 200 + 1 + 3 + 1
    path.write_text(loop + "halt\n")
    found = [simulate(capsys, "anda", "--program", str(path), *o) for o in ((), ("--stream",))]
    assert [code for code, _ in found] == [0, 0]
    assert [result["streamed"] for _, result in found] == [False, True]
    resident, streamed = (result["counters"] for _, result in found)
    assert streamed["lines_written"] == resident["lines_written"] == 3
    assert streamed["cycles"] > resident["cycles"] + LATENCY  # of the memory, once


@pytest.mark.parametrize(
    ("name", "first"),
    [("anda", "configure source=4, result=0"), ("harmonia", "configure tokens=4")],
)
def test_a_program_that_goes_wrong(name, first, capsys, tmp_path):
    path = tmp_path / "wrong.s"
    path.write_text(f"{first}\nadd r5000, r0, #1, elements=3\nhalt\n")
    code, result = simulate(capsys, name, "--program", str(path))
    assert code == 1 and result["equal"]
    assert result["status"] == {"error": "address", "instruction": 1}
    assert main(["simulate", name, "--program", str(path)]) == 1
    assert "stopped with error address at instruction 1, as golden does" in capsys.readouterr().out


REFUSALS = """
anda --block popcount | anda runs on a block anda, not popcount
harmonia --block popcount | harmonia runs on a block harmonia, not popcount
anda --latency 0 | latency must be at least 1, not 0
anda --program '{tmp}/none.s' | none.s: No such file or directory
anda --program '{tmp}/bad.s' | bad.s, line 2: unknown instruction 'jump'
anda --program '{tmp}/shift.s' | shift.s, line 3: vector, reads rows 0..15 of
anda --program '{tmp}/deep.s' | deep.s, line 4: loop, is within 3 others already
anda --program '{tmp}/open.s' | open.s, line 1: loop lacks its end
anda --program '{tmp}/cross.s' | cross.s, line 2: loop, ends after the loop around it
anda --memory '{tmp}/odd.npz' | --memory goes with --program
anda --program '{tmp}/good.s' --memory '{tmp}/odd.npz' | memory must be bytes, whole lines of 64
anda --program '{tmp}/good.s' --memory '{tmp}/other.npz' | other.npz has no array 'memory'
anda --program '{tmp}/good.s' --memory '{tmp}/good.s' | good.s is no .npz file
anda --program '{tmp}/good.s' --memory '{tmp}/one.npy' | one.npy is no .npz file
anda --program '{tmp}/good.s' --memory '{tmp}/no.npz' | no.npz: No such file or
harmonia --program '{tmp}/compress.s' | compress.s, line 1: unknown instruction 'compress'
harmonia --block harmonia:small,line_bytes=256 --program '{tmp}/good.s' \
--memory '{tmp}/small_lines.npz' | small_lines.npz: memory must be bytes, whole lines of 256
"""


@pytest.mark.parametrize(("words", "message"), table_rows(REFUSALS))
def test_refused_runs(words, message, capsys, tmp_path):
    (tmp_path / "bad.s").write_text("halt\njump\n")
    (tmp_path / "good.s").write_text("halt\n")
    (tmp_path / "compress.s").write_text("compress source=0\n")
    (tmp_path / "shift.s").write_text("; by a row\n\ncopy r1, r0, elements=16\nhalt\n")
    (tmp_path / "deep.s").write_text("loop count=2\n" * 4 + "wait\n" + "end\n" * 4 + "halt\n")
    (tmp_path / "open.s").write_text("loop count=2\nwait\nhalt\n")
    (tmp_path / "cross.s").write_text(
        "loop count=2, body=2\nloop count=2, body=2\nwait\nwait\nhalt\n"
    )
    np.savez(tmp_path / "odd.npz", memory=np.zeros(65, np.uint8))
    np.savez(tmp_path / "small_lines.npz", memory=np.zeros(64, np.uint8))
    np.savez(tmp_path / "other.npz", weights=np.zeros(64, np.uint8))
    np.save(tmp_path / "one.npy", np.zeros(64, np.uint8))
    assert main(["simulate", *(w.format(tmp=tmp_path) for w in words)]) == 2
    assert message in capsys.readouterr().err


# Long.


@pytest.mark.full
@MACHINES
def test_preset_for_fpgas(name):
    """Later results, at the cycles of the model: all that the small preset is tested for."""
    run_passing(f"{name}:fpga", cases=300)


@pytest.mark.full
@MACHINES
def test_row_groups(name):
    """Every bench of the published machine, with weights in blocks and shared gemms."""
    result = run_passing(f"{name}:small_decode", cases=300)
    assert names_of(result) == TESTS | OWN_TESTS[name]


@pytest.mark.full
@MACHINES
@pytest.mark.parametrize("seed", [2, 3])
def test_many_programs(name, seed):
    """Forty programs without stalls, each with its exact cycles, and as many with each stall."""
    only = "random_programs|random_words|every_error"
    run_passing(f"{name}:small", cases=4000, seed=seed, only=only)


@pytest.mark.full
def test_attention_under_stalls():
    run_passing("harmonia:small", stalls=(0.3, 0.6), only="steps_of_a_model")


@pytest.mark.full
@pytest.mark.parametrize(("name", "stalls"), [("anda", (0.0, 0.3, 0.8)), ("harmonia", (0.0,))])
def test_the_other_simulator_sees_the_same_cycles(name, stalls):
    run_on_both(f"{name}:small", cases=200, stalls=stalls, only="random_programs")


@pytest.mark.full
@pytest.mark.parametrize(
    "block",
    [
        *("anda:small,group=32", "anda:small,rows=4,columns=4,group=32"),
        *("harmonia:small,columns=8", "harmonia:small,converter_width=4"),
        "harmonia:small,rows=4,group=16,initial=16,local=16",
        *("harmonia:small,rows=1,columns=4", "harmonia:small,line_bytes=256,dma_lines=32"),
    ],
)
def test_other_sizes(block):
    run_passing(block, cases=500, stalls=(0.0, 0.3))


@pytest.mark.full
def test_a_prompt_with_a_query_in_every_bank():
    """Lines of the memory port are rows here, as at the paper's size."""
    assert machine_of(resolve(IN_BANKS)).queries_in_banks
    run_passing(IN_BANKS, cases=1, only="steps_of_a_model")


@pytest.mark.full
@pytest.mark.parametrize("preset", VectorParams.PRESETS)
def test_approximations_of_every_pattern(preset):
    """Exponential, reciprocal and its root; powers too, where the unit is fused."""
    params = resolve(f"anda_vector:{preset}")
    result = run_passing(f"anda_vector:{preset}", exhaustive=True, stalls=(0.0,))
    assert result.numbers["cases"] * params.lanes == (4 if params.fused else 3) << 16


@pytest.mark.full
@MACHINES
def test_a_layer_at_the_papers_size(name, capsys):
    """16x16 APUs, 8x16 PEs: results and cycles are golden's."""
    code, result = simulate(capsys, name, "--block", f"{name}:paper")
    assert code == 0 and result["equal"]
    assert result["status"]["error"] == "none"
    assert set(result["golden_counters"]) == set(result["counters"])
