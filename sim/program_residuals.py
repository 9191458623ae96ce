"""Programs of Anda and Harmonia beside the bounds of the formulas: whole layers, and products."""

from dataclasses import dataclass, replace
from typing import Any

from tilewright.golden.params.machine import MachineParams
from tilewright.golden.params.resolve import resolve
from tilewright.sim.accelerator import BUILT, as_built, run
from tilewright.sim.models import resolve_model
from tilewright.sim.programs import gemm_time
from tilewright.sim.step_programs import step_time
from tilewright.sim.workload import Batch, Pass, linear

__all__ = ["LayerResidual", "ProductResidual", "layer_residuals", "product_residuals"]

MODEL = "llama-2-7b"
BLOCKS = ("anda", "harmonia", "harmonia:wide")
CONTEXT = 1024  # tokens of a sequence that is decoded
STEPS = (
    *(Pass(Batch(((batch, CONTEXT),))) for batch in (1, 16)),
    *(Pass(Batch(((1, prompt),)), None) for prompt in (512, 2048)),
)
# As built; and one channel, of lines as long as the widest row, or of short ones, few outstanding.
PORTS = (
    "",
    "memory_channels=1,line_bytes=256",
    "memory_channels=1,line_bytes=64,dma_lines=8",
)
TOKENS = (1, 16, 512)


@dataclass(frozen=True, kw_only=True)
class LayerResidual:
    """One layer: norms, projections, rotation, attention, feed-forward part, residual sums."""

    block: str
    phase: str
    batch: int
    context: int  # tokens
    kind: str  # "programs", or "formula" where there are none
    program_cycles: int
    bound_cycles: float  # of the array and the memory port, for products and attention
    programs_over_bound: float
    attention_over_bound: float
    missing: str


def layer_residuals() -> list[LayerResidual]:
    """Decoding and prompts of one layer, on both accelerators and with the wide converter."""
    layer = replace(resolve_model(MODEL), num_hidden_layers=1)
    rows = []
    for block in BLOCKS:
        params: MachineParams = resolve(block)  # type: ignore[assignment]
        for step in STEPS:
            found = step_time(params, layer, step)
            parts = [part for name, part in found.parts.items() if name != "head"]
            cycles, bound = sum(p.cycles for p in parts), sum(p.bound for p in parts)
            attention = found.parts["attention"]
            row = LayerResidual(
                block=block,
                phase="prefill" if step.prompt else "decode",
                batch=step.batch.sequences,
                context=step.batch.longest,
                kind=found.kind,
                program_cycles=round(cycles),
                bound_cycles=bound,
                programs_over_bound=cycles / bound,
                attention_over_bound=attention.cycles / attention.bound,
                missing=found.missing,
            )
            rows.append(row)
    return rows


@dataclass(frozen=True, kw_only=True)
class ProductResidual:
    """Projections of one layer as programs, beside the formulas for the same accelerator."""

    system: str
    tokens: int
    memory_channels: int
    line_bytes: int
    outstanding_lines: int  # in a channel
    program_cycles: int
    formula_deviation_percent: float  # of the formula for this port
    programs_over_formula: float  # the formula with the paper's memory of 256 GB/s


def product_residuals() -> list[ProductResidual]:
    """Compare programs with the formulas, for decoding and a prompt, with several ports."""
    rows = []
    for block, make in BUILT.items():
        machine = make(resolve(block))
        for tokens in TOKENS:
            layer = [replace(p, count=1) for p in linear(resolve_model(MODEL), tokens)]
            ideal = sum(time.cycles for time in run(machine, layer))
            for port in PORTS:
                params: Any = resolve(f"{block},{port}" if port else block)
                exact = sum(
                    gemm_time(params, p, length=machine.lengths[p.module]).cycles for p in layer
                )
                formula = sum(time.cycles for time in run(as_built(params), layer))
                row = ProductResidual(
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
