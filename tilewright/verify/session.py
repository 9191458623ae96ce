"""One cocotb test of a system: its job, its clock, and its share of the simulation's report."""

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from random import Random
from typing import Any, TypeVar

import cocotb
import numpy as np

from tilewright.verify import job
from tilewright.verify.streams import Harness

# The report: sums over all tests so far, and what :func:`tell` has added.
_numbers: dict[str, Any] = {"cases": 0, "cycles": 0, "seconds": 0.0}


def tell(**numbers: Any) -> None:
    """Add entries to the report of this simulation; a coverage is reported as plain data."""
    _numbers.update(numbers)
    plain = {k: v.as_dict() if hasattr(v, "as_dict") else v for k, v in _numbers.items()}
    job.report(**plain)


class Session:
    """One test: its job, a clock, and random numbers that no other test draws from."""

    params: Any  # of the block

    def __init__(self, dut: Any, name: str):
        self.dut, self.job = dut, job.load()
        self.params = self.job.params
        self.rng = np.random.default_rng([self.job.seed, *name.encode()])
        self.random = Random(f"{self.job.seed} {name}")
        self.clock = Harness(dut)
        self.cases = 0
        self._start = time.perf_counter()

    async def start(self) -> None:
        """Prepare for the test."""

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Count a case; its failure is reported under ``name``."""
        try:
            yield
        except AssertionError as problem:
            raise AssertionError(f"{name}: {problem}") from None
        self.cases += 1

    def close(self) -> None:
        """Add this test to the report."""
        _numbers["cases"] += self.cases
        _numbers["cycles"] += self.clock.total + self.clock.cycle
        _numbers["seconds"] += time.perf_counter() - self._start
        tell()


S = TypeVar("S", bound=Session)
TestBody = Callable[[S], Awaitable[None]]


def test_in(kind: Callable[[Any, str], S]) -> Callable[[TestBody[S]], Any]:
    """Return a decorator that makes a cocotb test of a function of one session."""

    def decorate(body: TestBody[S]) -> Any:
        @wraps(body)
        async def test(dut: Any) -> None:
            session = kind(dut, body.__name__)
            try:
                await session.start()
                await body(session)
            finally:
                session.close()

        del test.__wrapped__  # cocotb reads the parameters of the function that it finds
        return cocotb.test(test)

    return decorate


system_test = test_in(Session)
