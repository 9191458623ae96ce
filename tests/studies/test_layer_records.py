"""Records of a decoder layer on the accelerators are of these machines.

Runs of the layer need the language model, which most machines that run tests do not have. What
programs of these sizes take does not depend on what is multiplied: golden's counts with zeros must
be those of the record.
"""

import numpy as np
import pytest

from tilewright.golden.llm.block import Attention, Module
from tilewright.golden.llm.on_anda import module_program
from tilewright.golden.llm.on_harmonia import head_program
from tilewright.golden.params.formats import IntFormat
from tilewright.golden.params.resolve import resolve
from tilewright.golden.weights import WEIGHT_GROUP, Weights
from tilewright.studies.measured import load_measured
from tilewright.verify.machine.accelerators import accelerator_of

ANDA, HARMONIA = load_measured("anda_layer"), load_measured("harmonia_layer")
HEAD = 64  # channels of SmolLM2's
ONE = 0x3C00  # in fp16
# Outputs of the projections of each module, in the order of the module's products.
OUTPUTS = {"qkv": (576, 192, 192), "o": (576,), "u": (1536, 1536), "d": (576,)}


def golden_counts(record, builder):
    """Of a program on the golden machine, with the memory of the record's command."""
    words = record["command"].split()
    latency = int(words[words.index("--latency") + 1])
    params = resolve(record["block"])
    accelerator = accelerator_of(params)
    outcome = accelerator.machine(params, builder.memory).run(builder.program)
    counts = dict(outcome.counts) | accelerator.program_cycles(params, outcome, latency)
    return {counter.name.lower(): count for counter, count in counts.items()}


def zeros(outputs, inputs):
    scales = np.full((outputs, -(-inputs // WEIGHT_GROUP)), ONE, np.uint16)
    return Weights(IntFormat(bits=4), np.zeros((outputs, inputs), np.int8), scales)


@pytest.mark.parametrize("found", ANDA["modules"], ids=lambda found: found["module"])
def test_linear_modules_on_anda(found):
    inputs, outputs = found["inputs"], OUTPUTS[found["module"]]
    assert sum(outputs) == found["outputs"]
    weights = {f"projection {k}": zeros(count, inputs) for k, count in enumerate(outputs)}
    module = Module(np.zeros((ANDA["tokens"], inputs), np.uint16), {}, weights)
    builder, _ = module_program(resolve(ANDA["block"]), module, found["mantissa"])
    counts = golden_counts(ANDA, builder)
    recorded = found["cycles"], found["gemm_cycles"], found["lines_read"]
    assert (counts["cycles"], counts["gemm"], counts["lines_read"]) == recorded


def test_attention_on_harmonia():
    """All heads are of one size, and all counters are golden's."""
    patterns = np.zeros((1, HARMONIA["tokens"], HEAD), np.uint16)
    channels = len(HARMONIA["heads"]) * HEAD
    output = np.zeros((channels, channels), np.float32)
    params = resolve(HARMONIA["block"])
    program = head_program(params, Attention(patterns, patterns, patterns), output, 0)
    counts = golden_counts(HARMONIA, program.builder)
    assert channels == 9 * HEAD
    for head in HARMONIA["heads"]:
        assert (head["instructions"], head["counters"]) == (len(program.builder.program), counts)
