"""Attention of a real decoder layer on the simulated Harmonia accelerator, head by head.

Queries, keys and values come from real text; every head is a program whose memory, counters and
cycles are compared with the golden machine, its results also with golden's cache and attention.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.llm.block import Attention
from tilewright.golden.llm.on_harmonia import head_program, head_results
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.studies.runs.decoder_layer import MODEL, read_layer, run_parts
from tilewright.studies.runs.program import LATENCY, run_program
from tilewright.studies.runs.simulation import DEFAULT, Simulation, resolve_block

__all__ = ["TOKENS", "HarmoniaLayerRun", "HeadRun", "layer_on_harmonia"]

TOKENS = 104  # of the text; a quarter of them is decoded


@dataclass(frozen=True)
class HeadRun:
    """One head of attention on the accelerator."""

    head: int
    equal: bool  # whether memory, results, counters and cycles equal golden's
    instructions: int
    counters: dict[str, int]


@dataclass(frozen=True)
class HarmoniaLayerRun:
    """The attention of a decoder layer on Harmonia."""

    block: str
    model: str
    layer: int
    tokens: int
    equal: bool
    heads: tuple[HeadRun, ...]


def layer_on_harmonia(
    block: str = "harmonia",
    *,
    model: str = MODEL,
    layer: int = 0,
    tokens: int = TOKENS,
    heads: int | None = None,
    latency: int = LATENCY,
    simulation: Simulation = DEFAULT,
) -> HarmoniaLayerRun:
    """Run the attention of decoder layer ``layer`` of ``model``: all heads, or the first ones.

    A quarter of the ``tokens`` is decoded token by token, the others are its prompt.
    """
    params = resolve_block(block, "harmonia", "harmonia.layer")
    assert isinstance(params, HarmoniaParams)
    modules, attention = read_layer(model, layer, 1, tokens=tokens, seed=simulation.seed)
    count = len(attention.q) if heads is None else heads
    if not 1 <= count <= len(attention.q):
        raise CommandError(f"heads must be 1..{len(attention.q)}, not {count}")
    output = modules["o"].weights["output"]
    parts = (
        (
            f"head {head}",
            partial(_run_head, block, params, attention, output, head, latency, simulation),
        )
        for head in range(count)
    )
    runs = run_parts("harmonia.layer", parts)
    equal = all(run.equal for run in runs)
    return HarmoniaLayerRun(params.slug, model, layer, tokens, equal, runs)


def _run_head(
    block: str,
    params: HarmoniaParams,
    attention: Attention,
    output: NDArray[np.float32],
    head: int,
    latency: int,
    simulation: Simulation,
) -> HeadRun:
    program = head_program(params, attention, output, head)
    builder = program.builder
    got, run = run_program(
        f"head {head}",
        block,
        builder.program,
        builder.memory,
        latency=latency,
        simulation=simulation,
    )
    attended = np.array_equal(program.attended(got), head_results(params, attention, head))
    return HeadRun(
        head=head,
        equal=run.equal and attended and run.halted,
        instructions=run.instructions,
        counters=run.counters,
    )
