"""Benches: inputs of a block, the outputs they must give, and the cocotb tests to run.

A bench is a class in ``tilewright/verify/benches/<family>.py``, entered in the table of
``tilewright.verify.benches``. Operands and results are columns (field name -> array) per port.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.params.block import BlockParams, Port
from tilewright.golden.payload import Columns
from tilewright.verify.stimuli.integers import random_inputs

PortColumns = dict[str, Columns]  # port name -> field name -> array

P = TypeVar("P", bound=BlockParams)


class Bench:
    """Modules of cocotb tests that drive a block."""

    tests: tuple[str, ...]
    exhaustible: bool = False  # whether it can list every case


class SystemBench(Bench):
    """The bench of a block that needs more around it than streams: a memory, registers, a host.

    Its tests, modules of ``tilewright.verify``, drive the block themselves.
    """

    def __init__(self, *tests: str, exhaustible: bool = False):
        self.tests = tuple(f"tilewright.verify.{name}" for name in tests)
        self.exhaustible = exhaustible


class StreamBench(Bench, ABC, Generic[P]):
    """The bench of a block whose ports are streams of a fixed latency and interval."""

    tests = ("tilewright.verify.stream_tests",)
    # Inputs whose words are all taken before those of the others begin.
    first: ClassVar[tuple[str, ...]] = ()
    # Whether the test matrix of all blocks includes this one; a large block has its own tests.
    in_matrix: ClassVar[bool] = True

    def stimulus(self, params: P, rng: Generator, cases: int) -> PortColumns:
        """Draw ``cases`` cases: by default the extremes of every field, then random bits."""
        return random_inputs(params, rng, cases)

    @abstractmethod
    def expected(self, params: P, columns: PortColumns) -> PortColumns:
        """Compute the expected outputs for ``columns``, by the golden model."""

    def result_beats(self, params: P) -> int:
        """Say how many beats of input make a result, where that is the bench's own choice.

        The stated interval is then one of beats.
        """
        return 1

    def check(self, params: P, columns: PortColumns, got: PortColumns) -> str | None:
        """Say what is wrong with ``got``, if anything.

        A block overrides this where the order of its results depends on timing. With neither side
        ever waiting, its results must still be the expected ones.
        """
        return None

    @property
    def has_check(self) -> bool:
        """Whether :meth:`check` decides, and not equality with the expected results."""
        return type(self).check is not StreamBench.check

    def exhaustive(self, params: P) -> PortColumns:
        """List every case there is; only an ``exhaustible`` bench can."""
        raise ValueError(f"the bench of {params.block} has no exhaustive cases")


class TimedBench(StreamBench[P]):
    """The bench of a block whose latency depends on its data, and which has a cycle model."""

    in_matrix = False

    @abstractmethod
    def cycles(self, params: P, columns: PortColumns) -> NDArray[np.int64]:
        """Compute when each result is given, counted from the first word, without stalls."""


class _Fields(dict[str, NDArray]):
    """The columns of one port; a field that it does not have is named in full."""

    def __init__(self, place: str, columns: Columns):
        super().__init__(columns)
        self._place = place

    def __missing__(self, name: str) -> NDArray:
        raise ValueError(f"{self._place} has no field {name!r}; fields: {', '.join(self)}")


def checked_columns(
    params: BlockParams, ports: tuple[Port, ...], columns: PortColumns
) -> PortColumns:
    """Return ``columns`` of ``ports``, checked against the fields that the ports declare.

    A wrong name is refused with the block, the port and the field, here and wherever the result
    is read.
    """
    for name in columns.keys() - {port.name for port in ports}:
        known = ", ".join(port.name for port in ports)
        raise ValueError(f"block {params.block} has no port {name!r}; ports: {known}")
    found: PortColumns = {}
    for port in ports:
        place = f"block {params.block}, port {port.name}"
        if port.name not in columns:
            raise ValueError(f"{place}: the bench gives no columns")
        fields = [field.name for field in port.fields]
        for name in columns[port.name]:
            if name not in fields:
                raise ValueError(f"{place} has no field {name!r}; fields: {', '.join(fields)}")
        for name in fields:
            if name not in columns[port.name]:
                raise ValueError(f"{place}: the bench gives no field {name!r}")
        found[port.name] = _Fields(place, columns[port.name])
    return found
