"""Formulas and definitions of the papers, beside the golden functions that implement them.

A claim gives the paper's formula and ours as text, and the values over which both are worked out.
They have to be the same everywhere; where they are, the class is "identity": it shows that we
implement what the paper defines, not that the paper is right.
"""

from itertools import product
from math import isclose
from typing import Any

import numpy as np

from tilewright.golden.anda.cycles import group_cycles
from tilewright.golden.harmonia.offset import largest_halved
from tilewright.golden.harmonia.precision import element_share, key_bits
from tilewright.golden.harmonia.traffic import TiledShape
from tilewright.golden.params.harmonia import CacheParams
from tilewright.golden.params.harmonia_machine import Dataflow
from tilewright.golden.sparamx.core import Core, prefix_sum
from tilewright.sim.claims.classes import ClaimClass
from tilewright.sim.evaluations.computed import work_out
from tilewright.sim.evaluations.registry import evaluation
from tilewright.sim.length_search import linear_cost, search
from tilewright.sim.models import resolve_model
from tilewright.sim.workload import attention, linear, total_macs

__all__ = ["formula", "search_neighbours"]


def accesses(rows: int, inner: int, columns: int, tile_rows: int, tile_columns: int) -> list[int]:
    """Return the values that a GEMM moves, column-major and row-major (golden traffic model)."""
    shape = TiledShape(
        rows=rows, inner=inner, columns=columns, tile_rows=tile_rows, tile_columns=tile_columns
    )
    return [shape.accesses(flow) for flow in (Dataflow.COLUMN_MAJOR, Dataflow.ROW_MAJOR)]


def projection_macs(model: str, tokens: int) -> float:
    """Return the multiply-adds of all projections of a model for so many tokens."""
    return total_macs(linear(resolve_model(model), tokens))


def attention_macs(model: str, tokens: int, keys: int) -> float:
    """Return the multiply-adds of attention for ``tokens`` queries that meet ``keys`` keys."""
    return total_macs(attention(resolve_model(model), 1, tokens, keys))


def prefix_sums(last: int) -> list[int]:
    """Return the inclusive prefix sums of 0, 1 ... 15 by the kernel's four steps, up to one."""
    words = np.arange(16, dtype=np.uint32)[np.newaxis]
    return [int(x) for x in np.asarray(prefix_sum(Core(), words)).ravel()[: last + 1]]


def low_share(tokens: int) -> float:
    """Return the percent of cached keys that have the short mantissa (golden allocation)."""
    params = CacheParams()
    return 100 * float(np.mean(key_bits(params, tokens) == params.low_bits))


def halved_offset(largest: float) -> float:
    """Return the offset of a channel of K whose largest value this is (golden generator)."""
    window = np.zeros((4, 2), np.float16)
    window[1, 0] = largest
    return float(largest_halved(window.view(np.uint16), 1).view(np.float16)[0])


GOLDEN: dict[str, Any] = {
    "accesses": accesses,
    "attention_macs": attention_macs,
    "element_share": element_share,
    "group_cycles": group_cycles,
    "halved_offset": halved_offset,
    "low_share": low_share,
    "prefix_sums": prefix_sums,
    "projection_macs": projection_macs,
}


@evaluation(ClaimClass.IDENTITY)
def formula(published: str, ours: str, over: dict[str, list[Any]]) -> bool:
    """Return whether two expressions are equal for every combination of the values in ``over``."""
    pairs = []
    for values in product(*over.values()):
        names = dict(zip(over, values, strict=True))
        pairs.append([float(work_out(text, **GOLDEN, **names)) for text in (published, ours)])
    return bool(pairs) and all(isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in pairs)


@evaluation(ClaimClass.IDENTITY)
def golden(text: str) -> float:
    """Return what golden functions give for the numbers of a paper's example."""
    return float(work_out(text, **GOLDEN))


@evaluation(ClaimClass.IDENTITY)
def search_neighbours(best: list[int]) -> list[list[int]]:
    """Return the combinations that golden's search looks at after it has accepted ``best``."""
    seen: list[list[int]] = []

    def perplexity(lengths: tuple[int, ...]) -> float:
        seen.append(list(lengths))
        return 1.0 if list(lengths) == best else 2.0

    search(
        perplexity,
        linear_cost([1.0] * len(best)),
        len(best),
        reference=1.0,
        tolerance=0.0,
        starts=[tuple(best)],
        shortest=1,
    )
    return sorted(seen[1:])
