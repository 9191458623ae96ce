"""The Harmonia accelerator as emitted Verilog: programs, cycles, errors, registers, models."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.benches import names_of, run_on_both, run_passing, simulate
from tilewright.cli import main

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "harmonia-attention.s"
WIDE = "harmonia:small,converter_width=4,operand_rows=8192,dma_lines=64"


# Fast.


def test_everything_in_short():
    """Random programs, cycle for cycle without stalls; steps of a model; every error."""
    result = run_passing("harmonia:small", cases=100, stalls=(0.0,))
    assert names_of(result) == {
        "random_programs",
        "external_memory_accesses",
        "scaled_sums_beside_ties",
        "every_error",
        "last_rows_are_usable",
        "random_words",
        "registers_hold_and_refuse",
        "streamed_programs",
        "steps_of_a_model",
        "steps_over_parts_of_a_cache",
        "bad_code",
        "memory_without_answers",
    }


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


def test_programs_under_stalls():
    run_passing("harmonia:small", cases=100, stalls=(0.3, 0.8), only="random_programs")


def test_program_of_a_file(capsys, tmp_path):
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
        *("harmonia", "--program", str(EXAMPLE), "--memory", str(tmp_path / "in.npz")),
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


def test_a_program_that_goes_wrong(capsys, tmp_path):
    path = tmp_path / "wrong.s"
    path.write_text("configure tokens=4\nadd r5000, r0, #1, elements=3\nhalt\n")
    code, result = simulate(capsys, "harmonia", "--program", str(path))
    assert code == 1 and result["equal"]
    assert result["status"] == {"error": "address", "instruction": 1}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--block", "popcount"], "harmonia runs on a block harmonia, not popcount"),
        (["--program", "{tmp}/bad.s"], "bad.s, line 1: unknown instruction 'compress'"),
        (["--program", "{tmp}/deep.s"], "deep.s, line 4: loop, is within 3 others already"),
        (["--program", "{tmp}/open.s"], "open.s, line 1: loop lacks its end"),
        (["--program", "{tmp}/cross.s"], "cross.s, line 2: loop, ends behind the loop around it"),
        (["--memory", "{tmp}/none.npz"], "--memory goes with --program"),
        (
            [
                *("--block", "harmonia:small,line_bytes=256"),
                *("--program", "{tmp}/good.s", "--memory", "{tmp}/small_lines.npz"),
            ],
            "small_lines.npz: memory must be bytes, whole lines of 256",
        ),
    ],
)
def test_refused_runs(words, message, capsys, tmp_path):
    (tmp_path / "bad.s").write_text("compress source=0\n")
    (tmp_path / "deep.s").write_text("loop count=2\n" * 4 + "wait\n" + "end\n" * 4 + "halt\n")
    (tmp_path / "open.s").write_text("loop count=2\nwait\nhalt\n")
    (tmp_path / "cross.s").write_text(
        "loop count=2, body=2\nloop count=2, body=2\nwait\nwait\nhalt\n"
    )
    (tmp_path / "good.s").write_text("halt\n")
    np.savez(tmp_path / "small_lines.npz", memory=np.zeros(64, np.uint8))
    assert main(["simulate", "harmonia", *(w.format(tmp=tmp_path) for w in words)]) == 2
    assert message in capsys.readouterr().err


# Long.


@pytest.mark.full
def test_preset_for_fpgas():
    """Later results, at the cycles of the model: all that `harmonia:small` is tested for."""
    run_passing("harmonia:fpga", cases=300)


@pytest.mark.full
@pytest.mark.parametrize("seed", [2, 3])
def test_many_programs(seed):
    """Forty programs without stalls, each with its exact cycles, and as many with each stall."""
    run_passing("harmonia:small", cases=4000, seed=seed, only="random_programs|random_words")


@pytest.mark.full
def test_attention_under_stalls():
    run_passing("harmonia:small", stalls=(0.3, 0.6), only="steps_of_a_model")


@pytest.mark.full
def test_the_other_simulator_sees_the_same_cycles():
    run_on_both("harmonia:small", cases=200, stalls=(0.0,), only="random_programs")


@pytest.mark.full
@pytest.mark.parametrize(
    "block",
    [
        "harmonia:small,columns=8",
        "harmonia:small,converter_width=4",
        "harmonia:small,rows=4,group=16,initial=16,local=16",
        "harmonia:small,rows=1,columns=4",
        "harmonia:small,line_bytes=256,dma_lines=32",
    ],
)
def test_other_sizes(block):
    run_passing(block, cases=500, stalls=(0.0, 0.3))


@pytest.mark.full
def test_decoder_layer_at_the_papers_size(capsys):
    """8x16 PEs: a token of each of four sequences; bits and cycles are golden's."""
    code, result = simulate(capsys, "harmonia", "--block", "harmonia:paper")
    assert code == 0 and result["equal"]
    assert result["status"]["error"] == "none"
    assert set(result["golden_counters"]) == set(result["counters"])
