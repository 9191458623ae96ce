"""A decoder layer of a language model on the RTL: a tiny one here, SmolLM2's in the long run."""

import numpy as np
import pytest

from tests.support.benches import simulate
from tests.support.smollm2 import smollm2_or_skip
from tilewright.cli import main
from tilewright.golden.llm.block import captured
from tilewright.golden.llm.on_anda import mantissas_of
from tilewright.golden.llm.on_harmonia import head_program, head_results
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.params.resolve import resolve
from tilewright.studies.measured import load_measured
from tilewright.studies.runs.harmonia_layer import layer_on_harmonia
from tilewright.studies.runs.simulation import NATIVE

TINY = ("--model", "tiny-llama")


def test_linear_modules_on_anda(capsys):
    words = (*TINY, "--block", "anda:small", "--layer", "1", "--mantissas", "8,5,7,6")
    code, result = simulate(capsys, "anda.layer", *words)
    assert code == 0
    assert result["equal"]
    rows = [(m["module"], m["mantissa"], m["inputs"], m["outputs"]) for m in result["modules"]]
    assert rows == [("qkv", 8, 64, 128), ("o", 5, 64, 64), ("u", 7, 64, 192), ("d", 6, 96, 64)]
    for module in result["modules"]:
        assert module["cycles"] > module["gemm_cycles"] > 0


def test_weights_through_deca(capsys):
    words = (*TINY, "--block", "deca:small", "--schemes", "bf8@0.5")
    code, result = simulate(capsys, "deca.layer", *words)
    assert code == 0
    assert result["equal"]
    assert [m["matrix"] for m in result["matrices"]] == [
        *("query", "key", "value", "output", "gate", "up", "down")
    ]
    assert all(m["bytes"] < m["tiles"] * 512 for m in result["matrices"])


def test_a_head_on_harmonia():
    """In the C++ host, which is the quicker one."""
    done = layer_on_harmonia(
        "harmonia:small", model="tiny-llama", tokens=32, heads=1, simulation=NATIVE
    )
    assert done.equal
    params = resolve("harmonia:small")
    assert params.initial + params.local < 32  # tokens that have aged are among them
    assert done.heads[0].counters["cycles"] > 0


@pytest.mark.parametrize("tokens", ["8", pytest.param("32", marks=pytest.mark.full)])
def test_the_command_for_a_head(tokens, capsys):
    words = (*TINY, "--block", "harmonia:small", "--heads", "1", "--tokens", tokens)
    code, result = simulate(capsys, "harmonia.layer", *words)
    assert code == 0
    assert result["equal"]
    assert result["heads"][0]["counters"]["cycles"] > 0


def test_operands_are_the_models():
    """Query heads that share keys get the same ones, and the golden results differ by head."""
    model, params = tiny_model(), resolve("harmonia:small")
    tokens = np.random.default_rng(0).integers(0, 128, 60)
    modules, attention = captured(model, tokens, 1, 5)
    assert attention.q.shape == (4, 60, 16)
    assert attention.k.shape == (2, 60, 16)
    assert {name: m.activations.shape for name, m in modules.items()} == {
        "qkv": (5, 64),
        "o": (5, 64),
        "u": (5, 64),
        "d": (5, 96),
    }
    assert modules["qkv"].weights["key"] is model.layers[1].key.weight
    assert len({head_results(params, attention, head).tobytes() for head in range(4)}) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["anda.layer", "--block", "popcount"], "anda.layer runs on a block anda, not popcount"),
        (["deca.layer", "--block", "popcount"], "deca.layer runs on a block deca, not popcount"),
        (
            ["harmonia.layer", "--block", "anda"],
            "harmonia.layer runs on a block harmonia, not anda",
        ),
        (["anda.layer", "--layer", "2"], "layer must be 0..1, not 2"),
        (["anda.layer", "--mantissas", "8,5,7"], "four numbers such as 8,5,7,6, not '8,5,7'"),
        (["anda.layer", "--mantissas", "8,5,7,17"], "a mantissa has 1..16 bits, not 17"),
        (["deca.layer", "--schemes", "bf8@half"], "a density is a number such as 0.5, not 'half'"),
        (["deca.layer", "--schemes", "bf8@2"], "density must be 0..1, not 2.0"),
        (
            ["deca.layer", "--schemes", "int8_tile"],
            "int8_tile: the activations of a language model are",
        ),
        (["harmonia.layer", "--heads", "5"], "heads must be 1..4, not 5"),
        (["harmonia.layer", "--tokens", "0"], "1 tokens of a text that has 0"),
        (["anda.layer", "--model", "none.gguf"], "none.gguf: no such file or folder, and no model"),
    ],
)
def test_refused_runs(words, message, capsys):
    assert main(["simulate", *TINY, *words]) == 2
    answer = capsys.readouterr().err
    assert message in answer
    assert answer.count("\n") == 1


def test_refused_operands():
    tokens = np.arange(20)
    with pytest.raises(ValueError, match=r"^21 tokens of a text that has 20$"):
        captured(tiny_model(), tokens, 0, 21)
    modules, attention = captured(tiny_model(), tokens, 0, 1)
    params, output = resolve("harmonia:small"), modules["o"].weights["output"]
    with pytest.raises(ValueError, match=r"^head must be 0\.\.3, not 4$"):
        head_program(params, attention, output, 4)
    assert mantissas_of("1, 2,3,16").d == 16


# Long: the whole layer of a real model at the papers' sizes.


@pytest.mark.full
@pytest.mark.parametrize("workload", ["anda.layer", "deca.layer", "harmonia.layer"])
def test_a_layer_of_smollm2(workload, capsys):
    """Everything equals golden, and is as the committed record says: all modules, all heads."""
    smollm2_or_skip()
    record = load_measured(workload.replace(".", "_"))
    code, result = simulate(capsys, *record["command"].removesuffix(" --update-record").split()[2:])
    assert code == 0
    assert result["equal"]
    assert {"command": record["command"], **result} == record
