"""A decoder layer of a language model on the RTL: a tiny one here, SmolLM2's in the long run."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.benches import simulate
from tests.support.smollm2 import smollm2_or_skip
from tilewright.cli import main
from tilewright.golden.llm.block import captured, layer_alone
from tilewright.golden.llm.engine import Session
from tilewright.golden.llm.tiny import tiny_model
from tilewright.studies.measured import load_measured
from tilewright.studies.runs.machine_layer import layer_on_machine
from tilewright.studies.runs.simulation import NATIVE

TINY = ("--model", "tiny-llama")


def test_weights_through_deca(capsys):
    words = (*TINY, "--block", "deca:small", "--schemes", "bf8@0.5")
    code, result = simulate(capsys, "deca.layer", *words)
    assert code == 0
    assert result["equal"]
    assert [m["matrix"] for m in result["matrices"]] == [
        *("query", "key", "value", "output", "gate", "up", "down")
    ]
    assert all(m["bytes"] < m["tiles"] * 512 for m in result["matrices"])


@pytest.mark.parametrize(
    ("block", "steps"),
    [
        pytest.param("anda:small", [(30, 1), (31, 1)], marks=pytest.mark.full),  # another build
        ("harmonia:small", [(24, 4), (28, 2), (30, 1), (31, 1)]),
    ],
)
def test_steps(block, steps):
    """In the C++ host, which is the quicker one."""
    done = layer_on_machine(
        block, model="tiny-llama", tokens=32, steps=len(steps), simulation=NATIVE
    )
    assert done.equal
    assert [(s.first, s.tokens) for s in done.steps] == steps


@pytest.mark.parametrize("tokens", ["8", pytest.param("32", marks=pytest.mark.full)])
def test_the_command_for_a_step(tokens, capsys):
    words = (*TINY, "--block", "harmonia:small", "--steps", "1", "--tokens", tokens)
    code, result = simulate(capsys, "machine.layer", *words)
    assert code == 0
    assert result["equal"]
    assert result["steps"][0]["counters"]["cycles"] > 0


def test_operands_are_the_models():
    model = tiny_model()
    tokens = np.random.default_rng(0).integers(0, 128, 60)
    modules = captured(model, tokens, 1, 5)
    assert {name: m.activations.shape for name, m in modules.items()} == {
        "qkv": (5, 64),
        "o": (5, 64),
        "u": (5, 64),
        "d": (5, 96),
    }
    assert modules["qkv"].weights["key"] is model.layers[1].key.weight
    alone = layer_alone(model, tokens, 1)
    want = Session(model).feed(tokens)
    assert np.array_equal(Session(replace(alone, head=model.head)).feed(np.arange(60)), want)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["machine.layer", "--block", "popcount"], "compiled for a block anda or harm"),
        (["deca.layer", "--block", "popcount"], "deca.layer runs on a block deca, not popcount"),
        (["machine.layer", "--layer", "2"], "layer must be 0..1, not 2"),
        (["deca.layer", "--schemes", "bf8@half"], "a density is a number such as 0.5, not 'half'"),
        (["deca.layer", "--schemes", "bf8@2"], "density must be 0..1, not 2.0"),
        (
            ["deca.layer", "--schemes", "int8_tile"],
            "int8_tile: the activations of a language model are",
        ),
        (["machine.layer", "--steps", "0"], "steps must be at least 1, not 0"),
        (["machine.layer", "--tokens", "0"], "tokens are a sequence of at least one integer"),
        (["machine.layer", "--model", "none.gguf"], "none.gguf: no such file or folder, and"),
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
    with pytest.raises(ValueError, match=r"^layer must be 0\.\.1, not 2$"):
        layer_alone(tiny_model(), tokens, 2)


# Long: the whole layer of a real model at the papers' sizes.


@pytest.mark.full
@pytest.mark.parametrize("name", ["anda_layer", "deca_layer", "harmonia_layer"])
def test_a_layer_of_smollm2(name, capsys):
    """Everything equals golden, and is as the committed record says: all modules, all heads."""
    smollm2_or_skip()
    record = load_measured(name)
    code, result = simulate(capsys, *record["command"].removesuffix(" --update-record").split()[2:])
    assert code == 0
    assert result["equal"]
    assert {"command": record["command"], **result} == record
