"""The four linear modules of a real decoder layer on the simulated Anda accelerator.

Every module is a program: its activations, from real text, are compressed to its mantissa length
and multiplied with the int4 weights of its projections. Memory, counters and cycles are compared
with the golden machine, the GEMMs also with the golden GEMM.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from tilewright.golden.llm.block import Module
from tilewright.golden.llm.on_anda import mantissas_of, module_products, module_program
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.studies.accuracy.records import load_record
from tilewright.studies.runs.decoder_layer import MODEL, read_layer, run_parts
from tilewright.studies.runs.program import LATENCY, run_program
from tilewright.studies.runs.simulation import DEFAULT, Simulation, resolve_block

__all__ = ["AndaLayerRun", "ModuleRun", "layer_on_anda", "searched_mantissas"]

TOLERANCE = 0.01  # of the search whose lengths are taken


@dataclass(frozen=True)
class ModuleRun:
    """One linear module on the accelerator."""

    module: str
    mantissa: int  # bits
    inputs: int
    outputs: int
    equal: bool  # whether memory, GEMMs, counters and cycles equal golden's
    cycles: int
    gemm_cycles: int
    lines_read: int


@dataclass(frozen=True)
class AndaLayerRun:
    """The linear modules of a decoder layer on Anda."""

    block: str
    model: str
    layer: int
    tokens: int
    equal: bool
    modules: tuple[ModuleRun, ...]


def layer_on_anda(
    block: str = "anda",
    *,
    model: str = MODEL,
    layer: int = 0,
    mantissas: str | None = None,
    latency: int = LATENCY,
    simulation: Simulation = DEFAULT,
) -> AndaLayerRun:
    """Run the linear modules of decoder layer ``layer`` of ``model``.

    ``mantissas`` are the lengths of the modules' activations, written ``8,5,7,6``, by default
    those that :func:`searched_mantissas` gives.
    """
    params = resolve_block(block, "anda", "anda.layer")
    lengths = vars(mantissas_of(mantissas or searched_mantissas()))
    assert isinstance(params, AndaParams)
    modules, _ = read_layer(model, layer, params.rows, seed=simulation.seed)
    parts = (
        (
            name,
            partial(_run_module, block, params, module, name, lengths[name], latency, simulation),
        )
        for name, module in modules.items()
    )
    runs = run_parts("anda.layer", parts)
    equal = all(run.equal for run in runs)
    return AndaLayerRun(params.slug, model, layer, params.rows, equal, runs)


def searched_mantissas() -> str:
    """Return the lengths that Anda's search found for SmolLM2 at a loss of 1%, from its record."""
    record = load_record("search")
    assert record is not None
    (best,) = (s["best"] for s in record["searches"] if s["tolerance"] == TOLERANCE)
    return ",".join(map(str, best["lengths"]))


def _run_module(
    block: str,
    params: AndaParams,
    module: Module,
    name: str,
    mantissa: int,
    latency: int,
    simulation: Simulation,
) -> ModuleRun:
    builder, outputs = module_program(params, module, mantissa)
    got, run = run_program(
        name, block, builder.program, builder.memory, latency=latency, simulation=simulation
    )
    products_equal = all(
        np.array_equal(builder.read_output(got, outputs[part])[: len(want)], want)
        for part, want in module_products(params, module, mantissa).items()
    )
    return ModuleRun(
        module=name,
        mantissa=mantissa,
        inputs=module.activations.shape[1],
        outputs=sum(weights.outputs for weights in module.integers.values()),
        equal=run.equal and products_equal and run.halted,
        cycles=run.counters["cycles"],
        gemm_cycles=run.counters["gemm"],
        lines_read=run.counters["lines_read"],
    )
