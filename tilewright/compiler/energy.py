"""The energy of programs: watts while the array is busy, and energies of bits that are read.

The array is busy as long as in the performance model: a sum of a group takes the cycles of its
mantissa. It reads the group of every row's activations and of the weights of every column, or of
every column for each row group, once, however many cycles it takes. The vector unit, where it has
watts of its own, costs them while it is busy.
"""

from collections.abc import Mapping
from typing import Any

from tilewright.compiler.machine import SumKind


def energy(
    machine: Any, counters: Mapping[str, int], sums: Mapping[SumKind, int], line_bytes: int
) -> dict[str, float]:
    """Joules by component, from counters (``vector``, ``lines_read``, ``lines_written``) and the
    ``sums`` of programs; ``machine`` is an accelerator of the performance model."""
    busy = sum(count * machine.cycles(length) for (length, _), count in sums.items())
    columns = machine.columns * machine.weight_bits
    bits = sum(  # of groups that the buffers give to all rows and columns
        count * machine.group * (machine.rows * machine.activation_bits(length) + tiles * columns)
        for (length, tiles), count in sums.items()
    )
    moved = 8 * line_bytes * (counters["lines_read"] + counters["lines_written"])
    joules = {name: watts * busy / machine.clock for name, watts in machine.power.items()}
    for name, watts in machine.attention_power.items():
        if name not in joules:  # a unit of its own
            joules[name] = watts * counters["vector"] / machine.clock
    joules["buffers"] = bits * machine.buffer_pj_per_bit * 1e-12
    joules["memory"] = moved * machine.memory_pj_per_bit * 1e-12
    return joules
