"""Projections of whole models as programs, for claims that compare accelerators.

A published speedup over machines of other processing elements is computed with the same boundary
on both sides: the same array, buffers, memory port and program writer, and a group of products that
takes as many cycles as the other's elements need. So a machine of fp16 elements is this accelerator
with 16 cycles a group. Only the projections of a pass count, as in the claims, on Harmonia also
attention; the formula of ``tilewright.sim.accelerator`` is their bound.

On Harmonia the other machine has fewer elements in the same area, so that its array takes longer
for the same products: :func:`slower_array`.
"""

from collections.abc import Iterable

from tilewright.golden.anda.cycles import group_cycles
from tilewright.golden.params.anda import MAX_MANTISSA_BITS
from tilewright.sim.kept_times import kept
from tilewright.sim.layer_programs import streamed_gemm_time
from tilewright.sim.schedule import AnyParams, ProgramTime
from tilewright.sim.target import LATENCY
from tilewright.sim.workload import Gemm

__all__ = ["length_of_cycles", "projection_time", "projections_time", "slower_array"]


def slower_array(time: ProgramTime, times: float) -> float:
    """Cycles of programs on the same machine, whose array takes so many times as long.

    What goes beside the array has more time then, so the programs take longer by no more than the
    array does.
    """
    return time.cycles + (times - 1) * time.gemm


def projections_time(
    params: AnyParams, products: Iterable[Gemm], lengths: dict[str, int]
) -> ProgramTime:
    """Cycles of products with all their repetitions, with Anda's mantissas by module."""
    times = [projection_time(params, p, lengths[p.module]) for p in products]
    return sum(times[1:], times[0])


def projection_time(params: AnyParams, product: Gemm, length: int) -> ProgramTime:
    """Cycles of one product with its repetitions, on Anda of activations with ``length`` bits."""
    one = _time(params, product.rows, product.inner, product.outer, length, LATENCY)
    return one.times(int(product.count))


def length_of_cycles(cycles: int) -> int:
    """Return the mantissa with which a group takes so many cycles; with 16, a value has 16 bits."""
    (length,) = (m for m in range(1, MAX_MANTISSA_BITS + 1) if group_cycles(m) == cycles)
    return length


@kept
def _time(
    params: AnyParams, rows: int, inner: int, outer: int, length: int, latency: int
) -> ProgramTime:
    product = Gemm(name="product", module="other", rows=rows, inner=inner, outer=outer)
    return streamed_gemm_time(params, product, latency=latency, length=length, result=0)
