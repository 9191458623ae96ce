"""GEMMs of the benches: what their programs leave is the product, by golden's arithmetic."""

import numpy as np
import pytest

from tilewright.compiler import product as products
from tilewright.compiler.machine import machine_of
from tilewright.compiler.product import best_product
from tilewright.golden import bfp
from tilewright.golden.anda.dot_products import gemm
from tilewright.golden.harmonia.gemm import linear
from tilewright.golden.llm.block import MODULES
from tilewright.golden.machine.moves import LATENCY
from tilewright.golden.params.machine import Error
from tilewright.golden.params.resolve import resolve
from tilewright.golden.weights import quantise
from tilewright.verify.machine.accelerators import accelerator_of
from tilewright.verify.machine.workload import gemm_of
from tilewright.verify.stimuli.tensors import heavy_tailed

MANTISSA = 5
# Small memories: several blocks of tokens, parts of weights and programs.
BLOCKS = (
    "anda:small",
    "anda:small,activation_rows=128,weight_rows=128,instructions=40",
    "harmonia:small",
    "harmonia:small,operand_rows=64,activation_rows=32,halves_rows=64,instructions=64",
)


def wanted(params, tokens, inputs, outputs):
    """The product of the operands that ``gemm_of`` draws."""
    rng = np.random.default_rng(1)
    values = heavy_tailed(rng, tokens, inputs)
    group = -(-inputs // params.group) * params.group
    weights = quantise(rng.standard_normal((outputs, inputs)), 4, group=group)
    if params.block == "harmonia":
        blocks = bfp.encode(params.numerics.activation, values)
        return linear(params.numerics, blocks, weights)
    numerics = params.mxu.numerics
    blocks = bfp.encode(numerics.block_format(MANTISSA), values)
    return gemm(numerics, MANTISSA, blocks, weights)


def results(params, memory, programs, shape):
    """fp16 tiles after the operands: of each part of the outputs, span by span of token tiles."""
    machine = machine_of(params).with_mantissas(dict.fromkeys(MODULES, MANTISSA))
    product = best_product(machine, *shape, LATENCY)
    parts, memory_of = product.matrix.parts, machine.fp16_memory
    size, last = product.result_lines * params.line_bytes, len(product.spans[-1]) - 1
    end = programs[0] if isinstance(programs[0], int) else len(memory) // params.line_bytes
    rows = last * machine.fp16_rows(len(parts[-1])) + machine.words(len(parts[-1]))
    used = (len(product.spans) * len(parts) - 1) * product.result_lines
    first = (end - used - params.lines(memory_of, rows)) * params.line_bytes
    found = []
    for number, span in enumerate(product.spans):
        for tile in range(len(span)):
            columns = []
            for k, part in enumerate(parts):
                each = machine.fp16_rows(len(part)) * params.row_bits(memory_of) // 8
                place = first + (number * len(parts) + k) * size
                data = memory[place : place + size][tile * each :]
                columns.append(machine.tile_values(data, len(part)))
            found.append(np.concatenate(columns, axis=1))
    return np.concatenate(found)[: shape[0]]


@pytest.mark.parametrize("items", [1, products.ITEMS])  # repetitions, or one body
@pytest.mark.parametrize("shape", [(1, 16, 2), (2, 40, 70), (9, 20, 37), (15, 40, 33)])
@pytest.mark.parametrize("from_memory", [False, True])
@pytest.mark.parametrize("block", BLOCKS)
def test_results_are_the_product(block, from_memory, shape, items, monkeypatch):
    monkeypatch.setattr(products, "ITEMS", items)
    params = resolve(block)
    options = dict(zip(("tokens", "inputs", "outputs"), shape, strict=True))
    options |= {"mantissa": MANTISSA, "from_memory": from_memory}
    programs, memory = gemm_of(params, np.random.default_rng(1), options)
    machine = accelerator_of(params).machine(params, memory)
    for program in programs:
        outcome = machine.run_stream(program) if from_memory else machine.run(program)
        assert outcome.error is Error.NONE
    assert np.array_equal(results(params, memory, programs, shape), wanted(params, *shape))
