"""GEMMs with random operands, and loads of weights, for any accelerator."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.image import matrix_bytes
from tilewright.compiler.machine import machine_of
from tilewright.compiler.product import Product, best_product
from tilewright.golden.llm.block import MODULES
from tilewright.golden.machine.moves import LATENCY
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.weights import quantise
from tilewright.verify.machine.accelerators import accelerator_of, bench_side
from tilewright.verify.stimuli.tensors import heavy_tailed

_KIND = 28  # bits of a product's lines within a kind: activations, weights, results


def gemm_of(
    params: Any, rng: np.random.Generator, options: dict[str, Any]
) -> tuple[list, NDArray[np.uint8]]:
    """Programs of a GEMM and the memory that they start with.

    Options are its ``tokens``, ``inputs`` and ``outputs``; ``latency``, for which instructions are
    ordered; ``mantissa``, of activations where a machine has a choice; and ``from_memory``: the
    only program is in the memory too, and is given by its line. Others are cut to fit the
    instruction memory.
    """
    machine = machine_of(params)
    if "mantissa" in options:
        machine = machine.with_mantissas(dict.fromkeys(MODULES, options["mantissa"]))
    tokens, inputs, outputs = (options[name] for name in ("tokens", "inputs", "outputs"))
    product = best_product(machine, tokens, inputs, outputs, options.get("latency", LATENCY))
    program = product.program()
    values = heavy_tailed(rng, tokens, inputs)
    group = -(-inputs // params.group) * params.group
    weights = quantise(rng.standard_normal((outputs, inputs)), 4, group=group)
    kinds = [_activations(product, values), matrix_bytes(product.lines, product.matrix, weights)]
    results = max(_end(machine, x) for x in program if x.opcode.name == "STORE")
    kinds.append(np.zeros((results & ((1 << _KIND) - 1)) * params.line_bytes, np.uint8))
    firsts = np.cumsum([0, *(len(kind) // params.line_bytes for kind in kinds)])
    program = [_placed(x, firsts) for x in program]
    memory = np.concatenate(kinds)
    if options.get("from_memory"):
        return [int(firsts[-1])], np.concatenate([memory, program_lines(params, program)])
    return _cut(machine, program), memory


def stream_of_weights(params: Any) -> tuple[list, int]:
    """A program that fills the memory of weights, and the lines that it reads."""
    name, system = bench_side(params).WEIGHTS, accelerator_of(params)
    memory = system.memory[name.upper()]
    rows = params.depth(memory)
    program = system.assemble(f"load {name}, row=0, rows={rows}, line=0\nhalt")
    return program, params.lines(memory, rows)


def _end(machine: Any, x: Any) -> int:
    end: int = x["line"] + machine.lines(machine.memory(x["memory"]), x["rows"])
    return end


def _placed(x: Any, firsts: NDArray) -> Any:
    """An instruction with its line in the memory at hand."""
    if "line" not in x.fields:
        return x
    kind, line = x["line"] >> _KIND, x["line"] & ((1 << _KIND) - 1)
    return type(x)(x.opcode, x.fields | {"line": int(firsts[kind - 1]) + line})


def _activations(product: Product, values: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """Converted activations, span by span of token tiles, each memory's from a beat on."""
    m, parts, own = product.machine, [], bench_side(product.machine.params)
    for span in product.spans:
        tiles = [
            own.activation_rows(m, product.matrix, values[k * m.rows : (k + 1) * m.rows])
            for k in span
        ]
        for fields, rows in zip(product.loads, zip(*tiles, strict=True), strict=True):
            parts.append(_lined(m, m.to_bytes(m.memory(fields["memory"]), np.concatenate(rows))))
    return np.concatenate(parts)


def _lined(machine: Any, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """With zeros up to the next beat."""
    size = machine.params.line_bytes
    whole = machine.params.beat_line(len(data) // size) * size
    return np.pad(data, (0, whole - len(data)))


def _cut(machine: Any, program: list) -> list[list]:
    """Programs that fit the instruction memory; each sets what those before it have set."""
    halt, most = machine.instruction(machine.opcode["HALT"], {}), machine.params.instructions
    found: list[list] = [[]]
    settings = machine.defaults
    for x in program[:-1]:
        if x.opcode.name == "CONFIGURE":
            settings = machine.settings(x)
        if len(found[-1]) + 1 == most:
            found[-1].append(halt)
            found.append([machine.configure(settings)])
        found[-1].append(x)
    found[-1].append(halt)
    return found
