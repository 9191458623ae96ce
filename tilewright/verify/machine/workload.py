"""GEMMs with random operands, for any accelerator."""

from importlib import import_module
from typing import Any

import numpy as np

from tilewright.golden.anda_machine.block import heavy_tailed
from tilewright.golden.machine.stream import program_lines
from tilewright.golden.params.harmonia_machine import Dataflow
from tilewright.golden.weights import quantise

__all__ = ["gemm_of"]


def gemm_of(
    params: Any, rng: np.random.Generator, options: dict[str, Any]
) -> tuple[list, np.ndarray]:
    """Programs of a GEMM and the memory that they start with; options of ``TiledGemm``.

    With ``from_memory``, the only program is in the memory too, and is given by its line.
    """
    options = dict(options)
    from_memory = options.pop("from_memory", False)
    golden = f"tilewright.golden.{params.block}_machine"
    make: Any
    if params.block == "anda":
        make = import_module(f"{golden}.deep_gemm").any_gemm
    else:
        make = import_module(f"{golden}.tiled_gemm").TiledGemm
    if "dataflow" in options:
        options = options | {"dataflow": Dataflow(options["dataflow"])}
    gemm = make(params=params, **options)
    values = heavy_tailed(rng, gemm.tokens, gemm.inputs)
    weights = rng.standard_normal((gemm.outputs, gemm.inputs))
    group = -(-gemm.inputs // params.group) * params.group
    memory = gemm.memory(values, quantise(weights, 4, group=group))
    if not from_memory:
        return gemm.programs(), memory
    line = len(memory) // params.line_bytes
    return [line], np.concatenate([memory, program_lines(params, gemm.program())])
