"""The weights of a real decoder layer through the simulated DECA PE.

Each projection is packed in each scheme, streamed through the loaders of the PE, and the resulting
tiles are multiplied with the projection's activations on real text; the GEMM is compared with
golden's, bit for bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tilewright.base.errors import CommandError
from tilewright.golden.bits import encode
from tilewright.golden.deca import compress, resolve_scheme
from tilewright.golden.llm.block import Module
from tilewright.golden.params.formats import BF16
from tilewright.studies.runs.deca_gemm import MEMORY, DecaMemory, GemmRun, run_matrix
from tilewright.studies.runs.machine_layer import MODEL, read_layer, run_parts
from tilewright.studies.runs.simulation import DEFAULT, Simulation, resolve_block

TOKENS = 16  # columns of a matrix unit's tile


@dataclass(frozen=True)
class WeightScheme:
    """A compression scheme of ``tilewright pack`` and the share of weights that it stores."""

    name: str
    density: float | None = None  # all

    @classmethod
    def parse(cls, text: str) -> "WeightScheme":
        """Read ``bf8`` or ``bf8@0.5``."""
        name, _, share = text.partition("@")
        try:
            return cls(name, float(share) if share else None)
        except ValueError:
            raise CommandError(f"a density is a number such as 0.5, not {share!r}") from None


SCHEMES = (WeightScheme("mxfp4"), WeightScheme("bf8", 0.5))


@dataclass(frozen=True, kw_only=True)
class ProjectionRun(GemmRun):
    """One projection of the layer in one scheme."""

    matrix: str


@dataclass(frozen=True)
class DecaLayerRun:
    """All projections of a decoder layer on DECA."""

    block: str
    model: str
    layer: int
    equal: bool  # whether every GEMM equals golden's
    matrices: tuple[ProjectionRun, ...]


def layer_on_deca(
    block: str = "deca",
    *,
    model: str = MODEL,
    layer: int = 0,
    schemes: Sequence[WeightScheme] = SCHEMES,
    memory: DecaMemory = MEMORY,
    simulation: Simulation = DEFAULT,
) -> DecaLayerRun:
    """Run every projection of decoder layer ``layer`` of ``model`` in each of the schemes."""
    params = resolve_block(block, "deca", "deca.layer")
    modules = read_layer(model, layer, TOKENS, seed=simulation.seed)
    parts = (
        (
            f"{name} in {scheme.name}",
            partial(_run_projection, block, module, name, scheme, memory, simulation),
        )
        for scheme in schemes
        for module in modules.values()
        for name in module.weights
    )
    runs = run_parts("deca.layer", parts)
    return DecaLayerRun(params.slug, model, layer, all(run.equal for run in runs), runs)


def _run_projection(
    block: str,
    module: Module,
    name: str,
    scheme: WeightScheme,
    memory: DecaMemory,
    simulation: Simulation,
) -> ProjectionRun:
    matrix = compress(module.weights[name], resolve_scheme(scheme.name), scheme.density)
    if matrix.scheme.config.int8:
        raise CommandError(f"{scheme.name}: the activations of a language model are no int8")
    activations = encode(BF16, module.activations.view(np.float16).T.astype(np.float64))
    run = run_matrix(
        block, matrix, activations, density=scheme.density, memory=memory, simulation=simulation
    )
    return ProjectionRun(**vars(run), matrix=name)
