"""Anda: the format in memory, GEMM with every rounding step, cycles.

Encoding and decoding of values is :mod:`tilewright.golden.bfp`, of planes
:mod:`tilewright.golden.planes`, of weights :mod:`tilewright.golden.weights`; ``image`` places them
in memory, ``dot_products`` multiplies them and ``cycles`` has the time that takes.
"""

from tilewright.golden.anda.dot_products import accumulate, dot, gemm, group_sums, partial
from tilewright.golden.anda.image import TensorLayout, load, store, weight_planes, weight_scales
from tilewright.golden.weights import Weights, dequantise, quantise

__all__ = [
    "TensorLayout",
    "Weights",
    "accumulate",
    "dequantise",
    "dot",
    "gemm",
    "group_sums",
    "load",
    "partial",
    "quantise",
    "store",
    "weight_planes",
    "weight_scales",
]
