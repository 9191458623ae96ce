"""GEMMs and attention as programs of the accelerators: cycles that equal the RTL's.

``golden.anda_machine.tiled_gemm`` and ``golden.harmonia_machine.tiled_gemm`` cut a
product as the buffers allow and write its instructions; the golden cycle models, which tests hold
against the RTL cycle for cycle, say how long they take behind the accelerator's own memory port.
Nothing is computed. What the host needs to fill the instruction memory again, where one program is
not enough, is not counted. :func:`as_built` is the formula of ``tilewright.sim.accelerator`` for
the same port and buffers.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.golden.anda_machine import cycles as anda_cycles
from tilewright.golden.anda_machine.deep_gemm import any_gemm
from tilewright.golden.anda_machine.tiled_gemm import TiledGemm as AndaGemm
from tilewright.golden.harmonia_machine import cycles as harmonia_cycles
from tilewright.golden.harmonia_machine.attention import attention_program
from tilewright.golden.harmonia_machine.tiled_gemm import TiledGemm as HarmoniaGemm
from tilewright.golden.machine.clock import Work
from tilewright.golden.machine.instruction import BaseInstruction
from tilewright.golden.machine.machine import Outcome
from tilewright.golden.params import anda_machine, harmonia_machine
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.formats import FP16, IntFormat
from tilewright.golden.params.harmonia import ACTIVATION_BITS
from tilewright.golden.params.harmonia_machine import Dataflow, HarmoniaParams
from tilewright.golden.params.machine import Error
from tilewright.golden.weights import Weights
from tilewright.sim.accelerator import Accelerator, Port, anda, harmonia, run
from tilewright.sim.kept_times import kept
from tilewright.sim.models import resolve_model
from tilewright.sim.schedule import AnyParams, Counts, ProgramTime, program_time, trace
from tilewright.sim.target import LATENCY
from tilewright.sim.workload import Gemm, linear

__all__ = [
    *("LATENCY", "ProgramResidual", "ProgramTime", "as_built", "attention_time"),
    *("gemm_programs", "gemm_time", "program_timeline", "residuals"),
]


PORT_BOUND = 0.8  # of the cycles of a product, with a load in them


def gemm_programs(
    params: AnyParams,
    product: Gemm,
    flow: Dataflow,
    length: int = 8,
    *,
    large_blocks: bool = False,
) -> AndaGemm | HarmoniaGemm:
    """One of ``product``'s repetitions, cut for the accelerator; ``length`` is Anda's mantissa."""
    size: dict[str, Any] = {
        "tokens": product.rows,
        "inputs": product.inner,
        "outputs": product.outer,
        "large_blocks": large_blocks,
    }
    if isinstance(params, AndaParams):
        stay = flow is Dataflow.COLUMN_MAJOR
        return any_gemm(params=params, **size, mantissa=length, result=length, weights_stay=stay)
    return HarmoniaGemm(params=params, **size, dataflow=flow)


def fastest(
    flows: Iterable[Dataflow], time: Callable[[Dataflow, bool], ProgramTime]
) -> ProgramTime:
    """Return the least of a product's times by order and by whether blocks are large.

    Large blocks are tried where the port has work in nearly all cycles: what they cost is that it
    has none at times.
    """
    best = min((time(flow, False) for flow in flows), key=lambda found: found.cycles)
    if best.load < PORT_BOUND * best.cycles:
        return best
    return min(best, *(time(flow, True) for flow in flows), key=lambda found: found.cycles)


def gemm_time(
    params: AnyParams,
    product: Gemm,
    *,
    length: int = 8,
    latency: int = LATENCY,
    flow: Dataflow | None = None,
) -> ProgramTime:
    """One of ``product``'s repetitions, in the faster of the two orders unless told which.

    Where the port is the bound, in larger blocks if that is faster.
    """
    size = (product.rows, product.inner, product.outer)
    return fastest(
        Dataflow if flow is None else (flow,),
        lambda f, large: _time(params, *size, length, latency, f, large),
    )


@kept
def _time(
    params: AnyParams,
    rows: int,
    inner: int,
    outer: int,
    length: int,
    latency: int,
    flow: Dataflow,
    large_blocks: bool,
) -> ProgramTime:
    product = Gemm(name="product", module="other", rows=rows, inner=inner, outer=outer)
    gemm = gemm_programs(params, product, flow, length, large_blocks=large_blocks)
    first, *others = (
        program_time(params, program, latency, streamed=False) for program in gemm.programs()
    )
    return sum(others, first)


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


def as_built(params: AnyParams, *, latency: int = LATENCY) -> Accelerator:
    """Return the formula's machine with the memory port and the buffers of the accelerator.

    At most ``dma_lines`` requests are outstanding in a channel, each for ``latency`` and three more
    cycles. Weights come a beat a cycle where the buffers take beats, all else a line or a row. All
    transfers go beside computing, but for the first part of the weights and the last results.
    """
    activations: tuple[Any, ...]
    if isinstance(params, AndaParams):
        machine, beats = anda(params=params), params.mxu.weight_beats
        memories: Any = anda_machine.Memory
        activations, results = (memories.EXPONENTS,), memories.ACTIVATIONS
        weights, plane_bits = memories.WEIGHTS, 1.0
        buffer_share = 0.5  # results have the other half
    else:
        machine, beats = harmonia(params), 1
        memories = harmonia_machine.Memory
        activations = (memories.MANTISSAS, memories.SIGNS, memories.EXPONENTS)
        weights, results = memories.OPERANDS, memories.FP16
        plane_bits = machine.activation_bits(ACTIVATION_BITS)  # signs and exponents lie beside
        buffer_share = 1.0
    share = min(1.0, params.dma_lines / (latency + 3))  # of the cycles bring a channel's line
    per_cycle = share * params.beat_bits
    line_share = min(1.0, params.memory_channels * share)  # of the cycles in which one is taken
    tile_values = params.rows * params.group  # of a group of all tokens of a tile

    def load_cycles(memory: Any) -> float:
        """Return the cycles in which one row comes."""
        if params.beat_rows(memory):
            return params.row_bits(memory) / per_cycle
        return max(1.0, params.row_bits(memory) / params.line_bits / line_share)

    def activation_bits(bits: float) -> float:
        """A value's bits are rows of Anda's buffer; Harmonia has rows of three memories."""
        cycles = sum(load_cycles(memory) for memory in activations)
        if isinstance(params, AndaParams):
            cycles += bits * load_cycles(memories.ACTIVATIONS)
        return cycles * per_cycle / tile_values

    group_cycles = beats * load_cycles(weights) + load_cycles(memories.SCALES)
    lines = params.row_bits(results) / params.line_bits
    store_cycles = max(1.0, lines)  # of a row
    stored = store_cycles * per_cycle / params.row_bits(results)

    def result_bits(bits: float) -> float:
        """Harmonia's results leave in fp16."""
        return stored * (bits if isinstance(params, AndaParams) else FP16.bits)

    return replace(
        machine,
        bandwidth=per_cycle / 8 * machine.clock,
        activation_buffer=round(
            buffer_share * params.activation_rows * tile_values * plane_bits / 8
        ),
        weight_buffer=params.depth(weights) * params.row_bits(weights) // 8,
        port=Port(
            weight_bits=group_cycles * per_cycle / (params.group * params.columns),
            activation_bits=activation_bits,
            result_bits=result_bits,
            last_bits=latency * per_cycle,
        ),
    )


def program_counters(params: AnyParams, program: Iterable[BaseInstruction], latency: int) -> Counts:
    """What the accelerator's counters of time say after a program that halts."""
    outcome = _outcome(params, program)
    if isinstance(params, AndaParams):
        return dict(anda_cycles.program_cycles(params, outcome, latency))
    return dict(harmonia_cycles.program_cycles(params, outcome, latency))


def program_timeline(
    params: AnyParams, program: Iterable[BaseInstruction], latency: int = LATENCY
) -> list[Work]:
    """What every unit does in a program that halts, and when, in the order of the program."""
    outcome = _outcome(params, program)
    if isinstance(params, AndaParams):
        return anda_cycles.timeline(params, outcome, latency)
    return harmonia_cycles.timeline(params, outcome, latency)


def _outcome(params: AnyParams, program: Iterable[BaseInstruction]) -> Outcome:
    """A program as it is executed; nothing is computed."""
    steps = list(trace(params, list(program)))
    return Outcome(Error.NONE, len(steps) - 1, False, {}, steps)


# As built; and one channel, of lines as long as the widest row, or of short ones, few outstanding.
PORTS: tuple[dict[str, Any], ...] = (
    {},
    {"memory_channels": 1, "line_bytes": 256},
    {"memory_channels": 1, "line_bytes": 64, "dma_lines": 8},
)
MODEL = "llama-2-7b"
TOKENS = (1, 16, 512)


@dataclass(frozen=True, kw_only=True)
class ProgramResidual:
    """Projections of one layer as programs, beside the formulas for the same accelerator."""

    system: str
    tokens: int
    memory_channels: int
    line_bytes: int
    outstanding_lines: int  # in a channel
    program_cycles: int
    formula_deviation_percent: float  # of the formula for this port
    programs_over_formula: float  # the formula with the paper's memory of 256 GB/s


def residuals() -> list[ProgramResidual]:
    """Compare programs with the formulas, for decoding and a prompt, behind several ports."""
    rows = []
    for params_type, machine in ((AndaParams, anda()), (HarmoniaParams, harmonia())):
        for tokens in TOKENS:
            layer = [replace(p, count=1) for p in linear(resolve_model(MODEL), tokens)]
            ideal = sum(time.cycles for time in run(machine, layer))
            for port in PORTS:
                params = params_type(**port)
                exact = sum(
                    gemm_time(params, p, length=machine.lengths[p.module]).cycles for p in layer
                )
                formula = sum(time.cycles for time in run(as_built(params), layer))
                row = ProgramResidual(
                    system=machine.name,
                    tokens=tokens,
                    memory_channels=params.memory_channels,
                    line_bytes=params.line_bytes,
                    outstanding_lines=params.dma_lines,
                    program_cycles=exact,
                    formula_deviation_percent=100 * (formula / exact - 1),
                    programs_over_formula=exact / ideal,
                )
                rows.append(row)
    return rows
