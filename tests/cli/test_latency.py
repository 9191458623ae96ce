"""Every command that has an accelerator's memory has the same latency of it, unless told."""

import inspect
from pathlib import Path

import pytest

from tilewright.cli.parser import command_parser
from tilewright.compiler.host import Runner
from tilewright.golden.machine.moves import LATENCY
from tilewright.sim.step_programs import step_time
from tilewright.sim.target import Target
from tilewright.studies.runs.deca_gemm import DecaMemory
from tilewright.studies.runs.machine_layer import layer_on_machine
from tilewright.studies.runs.program import program_on_machine, run_program
from tilewright.verify.native import NativeMemory

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "function",
    [
        *(Runner.__init__, layer_on_machine),
        *(program_on_machine, run_program, step_time),
    ],
    ids=lambda function: function.__qualname__,
)
def test_functions(function):
    assert inspect.signature(function).parameters["latency"].default == LATENCY


def test_classes():
    assert NativeMemory().latency == Target.latency == LATENCY


@pytest.mark.parametrize(
    "words",
    [
        *(("run",), ("llm",), ("gemm",)),
        *(("simulate", name) for name in ("anda", "harmonia", "machine.layer")),
    ],
    ids=" ".join,
)
def test_commands(words):
    (option,) = [x for x in command_parser(*words)._actions if "--latency" in x.option_strings]
    assert option.default in (None, LATENCY)  # None: that of the function
    assert f"[{LATENCY}]" in option.help


def test_a_servers_memory_is_another():
    for words in (("simulate", "deca.gemm"), ("simulate", "deca.layer")):
        parser = command_parser(*words)
        assert parser.get_default("latency") == DecaMemory().latency != LATENCY


def test_the_page_says_so():
    text = " ".join((DOCS / "models-on-harmonia.md").read_text().split())
    assert f"after a request: {LATENCY} unless told, 100 ns of HBM" in text
    assert round(LATENCY / 300e6 * 1e9) == 100
