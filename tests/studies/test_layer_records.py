"""The records of a decoder layer on the accelerators are current.

The recorded runs need the language model, which few test machines have. Counters do not depend on
the weights: golden's counts with random ones must be those of the record.
"""

from dataclasses import dataclass, replace

import pytest

from tilewright.compiler.machine import machine_of
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.params.resolve import resolve
from tilewright.studies.measured import load_measured, write_measured
from tilewright.studies.runs.machine_layer import steps_of
from tilewright.studies.runs.paper_sizes import SMOLLM2
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.machine.model_workload import ModelWork


def latency_of(record):
    words = record["command"].split()
    return int(words[words.index("--latency") + 1])


def golden_counts(record, memory, line):
    """Counters of the program at a line of external memory, on the golden machine."""
    params = resolve(record["block"])
    accelerator = accelerator_of(params)
    machine = accelerator.machine(params, memory)
    outcome = machine.run_stream(line)
    counts = dict(outcome.counts) | accelerator.program_cycles(params, outcome, latency_of(record))
    return {counter.name.lower(): count for counter, count in counts.items()}


@pytest.mark.parametrize("name", ["anda_layer", "harmonia_layer"])
def test_steps(name):
    """The prompt's last recorded step and the last token, with random weights."""
    record = load_measured(name)
    machine, tokens = machine_of(resolve(record["block"])), record["tokens"]
    model = tiny_model(config=replace(SMOLLM2, vocab_size=tokens))
    work = ModelWork(machine, model, context=tokens, latency=latency_of(record))
    recorded = {(step["first"], step["tokens"]): step for step in record["steps"]}
    whole = steps_of(work.plan, tokens)
    assert list(recorded) == [
        (step.tokens[0].position, len(step.tokens)) for step in whole[-len(recorded) :]
    ]
    for step in (whole[-len(recorded)], whole[-1]):
        words = [token.position for token in step.tokens]
        case, found = work.step(step, tokens=words), recorded[words[0], len(words)]
        assert len(case.program) == found["instructions"]
        assert golden_counts(record, case.memory, case.line) == found["counters"]


@dataclass(frozen=True)
class Row:
    cycles: int
    shape: tuple[int, ...]


def test_records_hold_result_objects(tmp_path):
    write_measured("x", {"command": "c", "rows": [Row(1, (2, 3))]}, tmp_path)
    assert load_measured("x", tmp_path) == {
        "command": "c",
        "rows": [{"cycles": 1, "shape": [2, 3]}],
    }
    assert load_measured("y", tmp_path) is None


def test_other_objects_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"^set is not JSON data(\n|$)"):
        write_measured("x", {"rows": {1}}, tmp_path)
    assert list(tmp_path.iterdir()) == []
