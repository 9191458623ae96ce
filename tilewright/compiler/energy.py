"""The energy of programs: watts while the array is busy, and energies of bits that are read.

The array is busy as long as in the performance model: a sum of a group takes the cycles of its
mantissa. It reads the group of every row's activations and of every column's weights once, however
many cycles it takes. The vector unit, where it has watts of its own, costs them while it is busy.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from tilewright.compiler.machine import Machine
from tilewright.compiler.program import Program


class Powered(Protocol):
    """Clock, sizes and energies of an accelerator."""

    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def group(self) -> int: ...
    @property
    def clock(self) -> float: ...  # Hz
    @property
    def cycles(self) -> Callable[[int], float]: ...  # of a group's sum, by its mantissa
    @property
    def activation_bits(self) -> Callable[[int], float]: ...
    @property
    def weight_bits(self) -> float: ...
    @property
    def power(self) -> dict[str, float]: ...  # watts during products
    @property
    def attention_power(self) -> dict[str, float]: ...
    @property
    def buffer_pj_per_bit(self) -> float: ...
    @property
    def memory_pj_per_bit(self) -> float: ...


def program_sums(machine: Machine, program: Program) -> tuple[tuple[int, int], ...]:
    """Bits of activations' mantissas, and the groups that the array sums with each."""
    sums: dict[int, int] = {}
    for number, item in enumerate(program.with_settings(machine)):
        found = machine.sums(item)
        if found is not None:
            times = program.layers if program.looped and number in program.body else 1
            sums[found[0]] = sums.get(found[0], 0) + times * found[1]
    return tuple(sorted(sums.items()))


def energy(
    machine: Powered, counters: Mapping[str, int], sums: Mapping[int, int], line_bytes: int
) -> dict[str, float]:
    """Joules by component, from counters (``vector``, ``lines_read``, ``lines_written``) and the
    ``sums`` of programs."""
    busy = sum(count * machine.cycles(length) for length, count in sums.items())
    bits = sum(count * _group_bits(machine, length) for length, count in sums.items())
    moved = 8 * line_bytes * (counters["lines_read"] + counters["lines_written"])
    joules = {name: watts * busy / machine.clock for name, watts in machine.power.items()}
    for name, watts in machine.attention_power.items():
        if name not in joules:  # a unit of its own
            joules[name] = watts * counters["vector"] / machine.clock
    joules["buffers"] = bits * machine.buffer_pj_per_bit * 1e-12
    joules["memory"] = moved * machine.memory_pj_per_bit * 1e-12
    return joules


def _group_bits(machine: Powered, length: int) -> float:
    """Bits of a group that the buffers give to all rows and columns."""
    activations = machine.rows * machine.activation_bits(length)
    return machine.group * (activations + machine.columns * machine.weight_bits)
