"""Products and attention as programs of the accelerators: cycles that equal the RTL's.

``golden.anda_system.product`` and ``golden.harmonia_system.product`` cut a product as the buffers
allow and write its instructions; the golden cycle models, which tests hold against the RTL cycle
for cycle, say how long they take behind the accelerator's own memory port. Nothing is computed.
What the host needs to fill the instruction memory again, where one program is not enough, is not
counted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from golden.anda.weights import Weights
from golden.anda_system import cycles as anda_cycles
from golden.anda_system import executor as anda_executor
from golden.anda_system.isa import Formats
from golden.anda_system.product import Product as AndaProduct
from golden.harmonia_system import cycles as harmonia_cycles
from golden.harmonia_system import executor as harmonia_executor
from golden.harmonia_system.attention import attention_program
from golden.harmonia_system.isa import Settings, expand
from golden.harmonia_system.product import Product as HarmoniaProduct
from golden.params import anda_system, harmonia_system
from golden.params.anda_system import AndaParams
from golden.params.formats import IntFormat
from golden.params.harmonia_system import Dataflow, HarmoniaParams
from sim.workload import Gemm

__all__ = ["LATENCY", "ProgramTime", "attention_time", "product_programs", "product_time"]

LATENCY = 30  # cycles from a line's request to its answer: 100 ns of HBM at 285 to 300 MHz

AnyParams = AndaParams | HarmoniaParams


@dataclass(frozen=True)
class ProgramTime:
    """Cycles of programs that run one after the other, by what the controller waits for."""

    programs: int
    cycles: int
    control: int
    memory: int
    gemm: int
    vector: int

    @classmethod
    def of(cls, counters: Sequence[dict[Any, int]]) -> "ProgramTime":
        """The sum over programs of what the accelerator's own counters say."""
        total: dict[str, int] = {}
        for counts in counters:
            for counter, value in counts.items():
                total[counter.name] = total.get(counter.name, 0) + value
        names = ("CYCLES", "CONTROL", "MEMORY", "GEMM", "VECTOR")
        return cls(len(counters), *(total[name] for name in names))


def product_programs(params: AnyParams, product: Gemm, flow: Dataflow, length: int = 8) -> Any:
    """One of ``product``'s repetitions, cut for the accelerator; ``length`` is Anda's mantissa."""
    size = {"tokens": product.rows, "inputs": product.inner, "outputs": product.outer}
    if isinstance(params, AndaParams):
        stay = flow is Dataflow.COLUMN_MAJOR
        return AndaProduct(params=params, **size, mantissa=length, result=length, weights_stay=stay)
    return HarmoniaProduct(params=params, **size, dataflow=flow)


def product_time(
    params: AnyParams,
    product: Gemm,
    *,
    length: int = 8,
    latency: int = LATENCY,
    flow: Dataflow | None = None,
) -> ProgramTime:
    """One of ``product``'s repetitions, in the faster of the two orders unless told which."""
    flows = Dataflow if flow is None else (flow,)
    return min(
        (
            _time(params, product.rows, product.inner, product.outer, length, latency, f)
            for f in flows
        ),
        key=lambda time: time.cycles,
    )


@lru_cache(maxsize=1024)
def _time(
    params: AnyParams, rows: int, inner: int, outer: int, length: int, latency: int, flow: Dataflow
) -> ProgramTime:
    product = Gemm(name="product", module="other", rows=rows, inner=inner, outer=outer)
    programs = product_programs(params, product, flow, length).programs()
    return ProgramTime.of([program_counters(params, program, latency) for program in programs])


def attention_time(
    params: HarmoniaParams,
    tokens: int,
    prompt: int,
    channels: int,
    outputs: int,
    *,
    latency: int = LATENCY,
    flow: Dataflow = Dataflow.ROW_MAJOR,
) -> ProgramTime:
    """One head: a prompt, the other tokens one by one, then a layer of ``outputs`` outputs."""
    nothing = np.zeros((tokens, channels), np.uint16)
    weights = Weights(
        IntFormat(bits=4),
        np.zeros((outputs, channels), np.int8),
        np.zeros((outputs, 1), np.uint16),
        channels,
    )
    program = attention_program(
        params, nothing, nothing, nothing, prompt=prompt, weights=weights, dataflow=flow, keep=2
    )
    return ProgramTime.of([program_counters(params, program.builder.program, latency)])


def program_counters(params: AnyParams, program: Iterable[Any], latency: int) -> dict[Any, int]:
    """What the accelerator's counters of time say after a program that halts."""
    if isinstance(params, AndaParams):
        return _anda_counters(params, program, latency)
    return _harmonia_counters(params, program, latency)


def _anda_counters(params: AndaParams, program: Iterable[Any], latency: int) -> dict[Any, int]:
    trace, formats = [], Formats()
    for x in program:
        if x.opcode is anda_system.Opcode.CONFIGURE:
            formats = Formats(x["source_mantissa"], x["result_mantissa"])
        trace.append((x, formats))
    outcome = anda_executor.Outcome(anda_system.Error.NONE, len(trace) - 1, False, {}, trace)
    return dict(anda_cycles.program_cycles(params, outcome, latency))


def _harmonia_counters(
    params: HarmoniaParams, program: Iterable[Any], latency: int
) -> dict[Any, int]:
    trace, settings = [], Settings()
    for x in program:
        if x.opcode is harmonia_system.Opcode.CONFIGURE:
            settings = Settings(x["lanes"], x["tokens"], Dataflow(x["dataflow"]))
        trace.append((x, settings))
        if x.opcode is harmonia_system.Opcode.PRODUCT:
            trace.extend((part, settings) for part in expand(params, settings, x))
    outcome = harmonia_executor.Outcome(
        harmonia_system.Error.NONE, len(trace) - 1, False, {}, trace
    )
    return dict(harmonia_cycles.program_cycles(params, outcome, latency))
