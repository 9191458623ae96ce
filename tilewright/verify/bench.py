"""Benches: inputs of a block, the outputs they must give, and the cocotb tests to run.

Those of the catalogue are in ``tilewright/verify/benches/<family>.py``. Operands and results are
columns (field name -> array) per port.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.params.block import BlockParams, Port
from tilewright.golden.payload import Columns
from tilewright.verify.stimuli.numbers import random_columns

PortColumns = dict[str, Columns]  # port name -> field name -> array

P = TypeVar("P", bound=BlockParams)


class Bench:
    """Modules of ``tilewright.verify`` whose cocotb tests drive a block.

    They may have more around it than streams: a memory, registers, a host.
    """

    def __init__(self, *tests: str, exhaustible: bool = False):
        self.tests = tuple(f"tilewright.verify.{name}" for name in tests)
        self.exhaustible = exhaustible  # whether they can list every case


class StreamBench(Bench, ABC, Generic[P]):
    """The bench of a block whose ports are streams.

    The block has a fixed latency and interval, or, if ``timed``, a cycle model.
    """

    timed: bool = False
    # Inputs whose words are all taken before those of the others begin.
    first: ClassVar[tuple[str, ...]] = ()
    # Whether the test matrix of all blocks includes this one; a large block has its own tests.
    in_matrix: bool = True

    def __init__(self, *, exhaustible: bool = False):
        super().__init__("stream_tests", exhaustible=exhaustible)

    def stimulus(self, params: P, rng: Generator, cases: int) -> PortColumns:
        """Draw ``cases`` cases: by default the extremes of every field, then random bits."""
        return {port.name: random_columns(port, rng, cases) for port in params.inputs}

    @abstractmethod
    def expected(self, params: P, columns: PortColumns) -> PortColumns:
        """Compute the expected outputs for ``columns``, by the golden model."""

    def result_beats(self, params: P) -> int:
        """Say how many beats make a result, if the bench chooses; the interval is one of beats."""
        return 1

    def cycles(self, params: P, columns: PortColumns) -> NDArray[np.int64]:
        """Compute when each result is given, counted from the first word, without stalls."""
        raise NotImplementedError(f"{params.block} has a fixed latency")

    def exhaustive(self, params: P) -> PortColumns:
        """List every case there is; only an ``exhaustible`` bench can."""
        raise ValueError(f"the bench of {params.block} has no exhaustive cases")


class WordBench(StreamBench[Any]):
    """The bench of a block with the ports ``i`` and ``o``, as functions of their columns."""

    def __init__(
        self,
        expected: Callable[[Any, Columns], Columns],
        stimulus: Callable[[Any, Generator, int], Columns] | None = None,
        *,
        cycles: Callable[[Any, Columns], NDArray[np.int64]] | None = None,
        exhaustive: Callable[[Any], Columns] | None = None,
        in_matrix: bool = True,
    ):
        super().__init__(exhaustible=exhaustive is not None)
        self._expected, self._stimulus = expected, stimulus
        self._cycles, self._exhaustive = cycles, exhaustive
        self.timed = cycles is not None
        self.in_matrix = in_matrix and not self.timed

    def stimulus(self, params: Any, rng: Generator, cases: int) -> PortColumns:
        draw = self._stimulus
        return {"i": draw(params, rng, cases)} if draw else super().stimulus(params, rng, cases)

    def expected(self, params: Any, columns: PortColumns) -> PortColumns:
        return {"o": self._expected(params, columns["i"])}

    def cycles(self, params: Any, columns: PortColumns) -> NDArray[np.int64]:
        return (
            self._cycles(params, columns["i"]) if self._cycles else super().cycles(params, columns)
        )

    def exhaustive(self, params: Any) -> PortColumns:
        list_all = self._exhaustive
        return {"i": list_all(params)} if list_all else super().exhaustive(params)


def checked_columns(
    params: BlockParams, ports: tuple[Port, ...], columns: PortColumns
) -> PortColumns:
    """Return ``columns`` of ``ports``, checked against the fields that the ports declare."""
    for name in columns.keys() - {port.name for port in ports}:
        known = ", ".join(port.name for port in ports)
        raise ValueError(f"block {params.block} has no port {name!r}; ports: {known}")
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
    return columns
