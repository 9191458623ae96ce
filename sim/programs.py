"""Counts of the compiler's programs: cached by everything that decides them, and products alone.

A program takes up to seconds to write and to count, and thousands of questions have the same
programs. Counts are cached in this process and, for others, on disk; those that the report asks for
are part of the package.
"""

from collections.abc import Callable, Iterable
from functools import cache, lru_cache, update_wrapper
from typing import Any, ParamSpec, TypeVar

from tilewright.base.cache import content_key, sources_of
from tilewright.compiler.count import ProgramTime
from tilewright.compiler.machine import Machine, machine_of
from tilewright.compiler.product import best_product
from tilewright.golden.anda.cycles import group_cycles
from tilewright.golden.machine.moves import LATENCY, Timing
from tilewright.golden.params.anda import MAX_MANTISSA_BITS
from tilewright.golden.params.machine import MachineParams
from tilewright.sim.model_answers import get_or_compute
from tilewright.sim.workload import Gemm

P = ParamSpec("P")
T = TypeVar("T", ProgramTime, dict[str, ProgramTime])
MOST = 1 << 15  # counts; a sweep of 10,000 points has some thousand
MODULES = ("qkv", "o", "u", "d")  # whose activations have mantissas of their own


def cached_count(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function with its results and its refusals cached.

    Arguments are values whose ``repr`` says all of them, results are one time or times by name.
    """

    @lru_cache(maxsize=MOST)
    def found(*args: Any) -> Any:
        asked = (function.__qualname__, repr(args), sources())
        return get_or_compute(asked, lambda: _data(function, args))

    def answer(*args: Any) -> Any:
        data = found(*args)
        if "refused" in data:
            raise ValueError(data["refused"])
        if "parts" in data:
            return {name: ProgramTime.of_data(time) for name, time in data["parts"].items()}
        return ProgramTime.of_data(data["one"])

    return update_wrapper(answer, function)  # type: ignore[return-value]


@cache
def sources() -> str:
    """The key of the sources that programs and their cycles depend on."""
    return content_key(sources_of("tilewright.golden", "tilewright.compiler"))


def _data(function: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, Any]:
    try:
        found = function(*args)
    except ValueError as error:
        return {"refused": str(error)}
    if isinstance(found, ProgramTime):
        return {"one": vars(found)}
    return {"parts": {name: vars(time) for name, time in found.items()}}


# Products alone, for claims that compare accelerators.
#
# A published speedup over machines of other processing elements is computed with the same boundary
# on both sides: the same array, buffers, memory port and compiler, and a group of products that
# takes as many cycles as the other's elements need. So a machine of fp16 elements is Anda with 16
# cycles a group. Harmonia's other machine has fewer elements in the same area: its array takes
# longer for the same products.


def gemm_time(
    params: MachineParams, product: Gemm, *, length: int = 8, latency: int | Timing = LATENCY
) -> ProgramTime:
    """One of ``product``'s repetitions, from external memory to external memory.

    ``length`` is that of the activations' mantissas, where the accelerator lets a model choose.
    """
    machine = machine_of(params).with_mantissas(dict.fromkeys(MODULES, length))
    timing = latency if isinstance(latency, Timing) else Timing(latency)
    return _product(machine, product.rows, product.inner, product.outer, timing)


@cached_count
def _product(machine: Machine, rows: int, inner: int, outer: int, timing: Timing) -> ProgramTime:
    return best_product(machine, rows, inner, outer, timing).time


def projections_time(
    params: MachineParams, products: Iterable[Gemm], lengths: dict[str, int]
) -> ProgramTime:
    """Cycles of products with all their repetitions, with mantissas by module."""
    times = (gemm_time(params, p, length=lengths[p.module]).times(int(p.count)) for p in products)
    return sum(times, ProgramTime())


def length_of_cycles(cycles: int) -> int:
    """Return the mantissa with which a group takes ``cycles``; with 16, a value has 16 bits."""
    (length,) = (m for m in range(1, MAX_MANTISSA_BITS + 1) if group_cycles(m) == cycles)
    return length


def slower_array(time: ProgramTime, times: float) -> float:
    """Cycles of programs on the same machine if its array took ``times`` as long.

    What overlaps with the array has more time then, so the programs take longer by no more than the
    array does.
    """
    return time.cycles + (times - 1) * time.gemm
