"""One program with every instruction that has a size, on one row or group and on several.

Random programs move tensors as programs do, and so never a single row, for example.
"""

from random import Random

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.anda_machine.assembler import assemble
from tilewright.golden.anda_machine.isa import Instruction
from tilewright.golden.params.anda_machine import FP16_ROWS, AndaParams, Memory, group_rows
from tilewright.golden.params.vector import Operation

__all__ = ["directed_program"]

GROUPS = 3  # of a tensor that has several
MANTISSA = 5


def directed_program(params: AndaParams, seed: int) -> tuple[list[Instruction], NDArray[np.uint8]]:
    """The program and the external memory that it starts with."""
    choose = Random(seed)
    tensor = GROUPS * FP16_ROWS
    a, b, result, small = (k * tensor for k in range(4))  # rows; the last holds compressed values
    rows = 4 * tensor
    lines = {memory: params.lines(memory, rows) for memory in Memory}
    back = 2 * max(lines.values())  # where results go, behind what is loaded
    text = [f"load activations, row=0, rows={rows}, line=0"]
    for memory in (Memory.WEIGHTS, Memory.SCALES):
        count = min(rows, params.weight_rows, params.scale_rows)
        text.append(f"load {memory.name.lower()}, row=0, rows={count}, line={choose.randrange(8)}")
    for memory in Memory:
        for count in (1, choose.randint(2, 5)):
            row, line = choose.randrange(rows - 100), choose.randrange(8)
            stride = ", stride=7" if memory is Memory.EXPONENTS else ""
            move = f"{memory.name.lower()}, row={row}, rows={count}"
            text.append(f"load {move}, line={line}{stride}")
            if memory.stores:
                text.append(f"store {move}, line={back}{stride}")
                back += params.lines(memory, count)
    for groups in (1, GROUPS):
        elements = groups * params.group - choose.randrange(params.group)
        for operation in params.vector.operations:
            name = operation.name.lower()
            if operation.attends:
                fields = f"elements={elements}, results=2, step=1, pitch=1"
                text.append(f"{name} r{result}, r{a}, r{b}, {fields}")
            elif operation.reduces:
                second = f", r{b}" if operation is Operation.DOT else ""
                text.append(f"{name} s1, r{a}{second}, elements={elements}")
                text.append(f"add r{result}, r{a}, s1, elements={elements}")  # to be seen
            else:
                second = choose.choice((f", r{b}", ", #0.75")) if operation.takes_b else ""
                text.append(f"{name} r{result}, r{a}{second}, elements={elements}")
            text.append(f"store activations, row={result}, rows={tensor}, line={back}")
            back += lines[Memory.ACTIVATIONS]
        text += [
            f"configure source={MANTISSA}, result={MANTISSA}",
            f"compress source={b}, destination={small}, elements={elements}",
            f"store exponents, row={small}, rows={groups}, line={back},"
            f" stride={group_rows(MANTISSA)}",
            f"configure source={MANTISSA}, result=0",
            f"gemm source={small}, weights=0, scales=0, destination={result},"
            f" inputs={elements}, outputs={params.mxu.columns + 1}",
            f"store activations, row={result}, rows={tensor},"
            f" line={back + lines[Memory.EXPONENTS]}",
        ]
        back += 2 * max(lines.values())
    program = assemble("\nwait\n".join([*text, "halt"]))
    values = np.random.default_rng(seed).standard_normal(back * params.line_bytes // 2)
    return program, values.astype(np.float16).view(np.uint8)
