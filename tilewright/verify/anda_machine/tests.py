"""Rare in random programs: an approximation's result halfway between two values."""

import numpy as np

from tilewright.golden.params.vector import Operation
from tilewright.verify.anda_machine.builder import Builder
from tilewright.verify.machine.check import check_program
from tilewright.verify.session import Session, system_test


@system_test
async def subnormal_reciprocals(s: Session) -> None:
    """1/x of every finite x from 2^14 on, and of -x.

    These are the shifted results of the approximation, a few of which are halfway between two
    values; random programs seldom have one.
    """
    params, b = s.params, Builder(s.params)
    large = np.arange(0x7400, 0x7C00, dtype=np.uint16)
    values = np.resize([large, large | 0x8000], (params.rows, -(-2 * len(large) // params.rows)))
    most = 8 * params.group  # elements that have room
    for first in range(0, values.shape[1], most):
        x = b.load(values[:, first : first + most])
        b.apply(Operation.RECIPROCAL, x, into=x)
        b.store(x)
        b.release(x.row)
    b.halt()
    await check_program(s, b.program, b.memory, stream=True)
