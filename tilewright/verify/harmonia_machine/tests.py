"""Accesses to memory, caches in several parts, and sums that random programs hardly have."""

from random import Random

import numpy as np

from tilewright.golden.harmonia import traffic
from tilewright.golden.harmonia_machine.executor import Machine
from tilewright.golden.harmonia_machine.isa import TileLines
from tilewright.golden.params.harmonia_machine import Dataflow, Memory, Opcode
from tilewright.golden.params.machine import SCALARS, Kind
from tilewright.golden.params.vector import Operation
from tilewright.golden.weights import quantise
from tilewright.verify.harmonia_machine.builder import Builder
from tilewright.verify.machine.check import check_program
from tilewright.verify.machine.host import Host
from tilewright.verify.machine.models import check_models
from tilewright.verify.session import Session, system_test
from tilewright.verify.stimuli.tensors import with_outliers


@system_test
async def steps_over_parts_of_a_cache(s: Session) -> None:
    """Parts as short as they can be."""
    await check_models(s, part=s.params.group)


@system_test
async def external_memory_accesses(s: Session) -> None:
    """Elements that the port asks for, counted line by line, are those of the paper's formulas."""
    params, rng = s.params, np.random.default_rng(s.job.seed)
    if params.row_groups > 1:
        return  # no tiled GEMM
    # Four groups fill whole lines; the last tiles that stay are fewer than ``keep``.
    token_tiles, groups, tiles, keep = 3, 4, 5, 2
    tokens, inputs = token_tiles * params.rows, groups * params.group
    outputs = tiles * params.columns
    weights = quantise(rng.standard_normal((outputs, inputs)), 4, group=inputs)
    for dataflow in Dataflow:
        b = Builder(params)
        source = b.place_activations(with_outliers(rng, tokens, inputs))
        b.tiled_gemm(source, tokens, weights, dataflow, keep)
        b.halt()
        memory, wanted = b.memory, b.memory
        Machine(params, wanted).run(b.program)
        host = Host(s.clock, params, memory)
        await host.start()
        await host.run_program(b.program)
        assert np.array_equal(memory, wanted), f"{dataflow.name}: the result is not golden's"
        sizes = TileLines.of(params, groups)
        placed = next(x["weights"] for x in b.program if "weights" in x.fields)
        a_lines = params.lines(Memory.MANTISSAS, groups)
        b_lines = params.lines(Memory.OPERANDS, groups)
        elements = 0
        for line in host.requested:
            if line >= placed:
                if (line - placed) % sizes.weights < b_lines:
                    elements += params.columns * inputs // b_lines
            elif (line - source) % sizes.source < a_lines:
                elements += params.rows * inputs // a_lines
        column_major = dataflow is Dataflow.COLUMN_MAJOR
        product = traffic.TiledShape(
            tokens,
            inputs,
            outputs,
            tile_rows=params.rows * (1 if column_major else keep),
            tile_columns=params.columns * (keep if column_major else 1),
        )
        want = product.accesses(dataflow)
        assert elements == want, f"{dataflow.name}: {elements} elements, the formula says {want}"


@system_test
async def scaled_sums_beside_ties(s: Session) -> None:
    """Sums of 24 bits times scales of 11, halfway between two fp16 values or just off it.

    There any wrong bit of a product changes its rounding; in random ones hardly any does.
    """
    params, choose = s.params, Random(s.job.seed)
    elements = 3  # of a sum
    words, every = -(-elements // params.word_values), range(params.rows)
    b = Builder(params)
    b.configure(lanes=every)
    for _ in range(4):
        # Scalar registers hold the sums; each is added to zeros to be seen.
        terms = np.zeros((SCALARS, params.rows, words * params.word_values), np.uint16)
        scales = []
        for k in range(SCALARS):
            scale, *sums = _beside_a_tie(choose, params.rows)
            scales.append(scale)
            terms[k, :, :elements] = [_three_terms(total) for total in sums]
        rows = terms.reshape(SCALARS, params.rows, words, -1).swapaxes(1, 2)
        content = rows.reshape(SCALARS * words, params.rows, -1)
        line = b.place(Memory.FP16, content)
        b.load(Memory.FP16, 0, len(content), line)
        zeros = b.reserve(params.lines(Memory.FP16, SCALARS))
        seen = len(content)  # the row
        b.load(Memory.FP16, seen, SCALARS, zeros)
        for k, scale in enumerate(scales):
            fields = {"a": k * words, "destination": k, "elements": elements, "scale": scale}
            b.emit(Opcode.VECTOR, operation=Operation.SUM, a_kind=Kind.TENSOR, **fields)
            b.write(f"add r{seen + k}, r{seen + k}, s{k}, elements=1")
        b.store(Memory.FP16, seen, SCALARS, b.reserve(params.lines(Memory.FP16, SCALARS)))
    b.halt()
    await check_program(s, b.program, b.memory, stream=True)


def _beside_a_tie(choose: Random, count: int) -> tuple[int, ...]:
    """A scale, an fp16 pattern in [1, 2), and so many sums of 24 bits for it.

    Products have 35 bits, of which fp16 keeps 11: the others are half of what they count, or one
    less or more.
    """
    while True:
        factor = choose.randrange(1025, 2048, 2)
        inverse = pow(factor, -1, 1 << 24)
        middles = [((1 << 23) + beside) * inverse % (1 << 24) for beside in (-1, 0, 1)]
        sums = [x for x in middles if x >= 1 << 23 and x * factor >= 1 << 34]
        if sums:
            return int(np.float16(factor / 1024).view(np.uint16)), *choose.choices(sums, k=count)


def _three_terms(total: int) -> list[int]:
    """Patterns of fp16 values whose sum is total / 2^24, without an error on the way."""
    parts = (total & -1 << 13, total & 0x1FFC, total & 3)
    return [int(np.float16(part / (1 << 24)).view(np.uint16)) for part in parts]
