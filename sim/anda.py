"""Mantissa lengths of the Anda paper, from its savings of bit operations."""

from functools import lru_cache

import numpy as np

from tilewright.golden.params.llm import LlmShape
from tilewright.sim.workload import linear

MODULES = ("qkv", "o", "u", "d")
FP16_INT4_BITS = 16  # an fp16-int4 operation counts 64 = 16 * 4 bit operations, M-by-4 bits M * 4
PRINTED = 0.01  # the last printed digit: the paper cuts some savings and rounds others
SHORTEST, LONGEST = 4, 13  # range of the paper's search (Section III-C)


def module_shares(model: LlmShape) -> dict[str, float]:
    """Share of each module in the multiply-adds of a layer's projections."""
    macs = dict.fromkeys(MODULES, 0.0)
    for product in linear(model, 1):
        if product.module in macs:  # a router's activations keep their length
            macs[product.module] += product.macs
    total = sum(macs.values())
    return {name: count / total for name, count in macs.items()}


def saving(model: LlmShape, lengths: dict[str, int]) -> float:
    """Bit operations of fp16-int4 over those with these mantissas."""
    shares = module_shares(model)
    return FP16_INT4_BITS / sum(shares[name] * lengths[name] for name in MODULES)


@lru_cache(maxsize=64)
def _all_savings(model: LlmShape) -> tuple[np.ndarray, np.ndarray]:
    one = np.arange(SHORTEST, LONGEST + 1)
    tuples = np.stack(np.meshgrid(*[one] * len(MODULES), indexing="ij"), -1).reshape(-1, 4)
    shares = np.array([module_shares(model)[name] for name in MODULES])
    return tuples, FP16_INT4_BITS / (tuples @ shares)


def lengths_of_saving(model: LlmShape, printed: float) -> dict[str, int]:
    """Lengths by module whose saving is the printed one within ``PRINTED``.

    The paper prints savings and not lengths. From the tuples that agree, one is taken that does not
    grow from module to module, as the paper's Figure 14 describes, with the smallest spread and
    then the nearest saving; all have nearly the same mean length and so the same cycles.
    """
    tuples, savings = _all_savings(model)
    distance = np.abs(savings - printed)
    grows = (np.diff(tuples, axis=1) > 0).any(axis=1)
    spread = tuples.max(axis=1) - tuples.min(axis=1)
    best = np.lexsort((distance, spread, grows, distance > PRINTED))[0]
    return dict(zip(MODULES, tuples[best].tolist(), strict=True))
