"""Whole layers of Llama-2-7B as programs of Anda and Harmonia, beside the formula's bound."""

from dataclasses import dataclass, replace

from tilewright.golden.params.resolve import resolve
from tilewright.sim.models import resolve_model
from tilewright.sim.schedule import AnyParams
from tilewright.sim.step_programs import step_time
from tilewright.sim.workload import Batch, Pass

__all__ = ["LayerResidual", "layer_residuals"]

MODEL = "llama-2-7b"
BLOCKS = ("anda", "harmonia", "harmonia:wide")
CONTEXT = 1024  # tokens of a sequence that is decoded
STEPS = (
    *(Pass(Batch(((batch, CONTEXT),))) for batch in (1, 16)),
    *(Pass(Batch(((1, prompt),)), None) for prompt in (512, 2048)),
)


@dataclass(frozen=True, kw_only=True)
class LayerResidual:
    """One layer: norms, projections, rotation, attention, feed-forward part, residual sums."""

    block: str
    phase: str
    batch: int
    context: int  # tokens
    kind: str  # "programs", or "mixed" where some of it has none
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
        params: AnyParams = resolve(block)  # type: ignore[assignment]
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
