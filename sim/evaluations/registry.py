"""The evaluations by their names."""

from collections.abc import Callable
from typing import TypeVar

__all__ = ["EVALUATIONS", "FROM_RECORDS", "Answer", "evaluation", "evaluation_of_records"]

Answer = float | bool | list[float]
EVALUATIONS: dict[str, Callable[..., Answer]] = {}
FROM_RECORDS: set[str] = set()  # those whose answer follows committed records
F = TypeVar("F", bound=Callable[..., Answer])


def evaluation(function: F) -> F:
    """Enter a function that answers claims under its own name."""
    EVALUATIONS[function.__name__] = function
    return function


def evaluation_of_records(function: F) -> F:
    """Enter a function that reads records, of synthesis or of the kernels."""
    FROM_RECORDS.add(function.__name__)
    return evaluation(function)
