"""Work for several processors that ends by a time."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

__all__ = ["InTime", "OutOfTime"]


class OutOfTime(Exception):  # noqa: N818 - no error: what was asked for
    """Nothing more is begun."""


class InTime(ThreadPoolExecutor):
    """Runs what it is given until a time, and then begins nothing more."""

    def __init__(self, jobs: int, minutes: float | None):
        super().__init__(jobs)
        self.end = time.monotonic() + 60 * minutes if minutes else float("inf")

    def submit(self, function: Callable, /, *given: Any, **named: Any) -> Future:
        """Submit work that raises ``OutOfTime`` if it would begin after the end."""

        def begin() -> Any:
            if time.monotonic() > self.end:
                raise OutOfTime
            return function(*given, **named)

        return super().submit(begin)
