"""Anda: the format in memory, weights, GeMM with every rounding step, the compressor, cycles.

Encoding and decoding of values is :mod:`golden.bfp`, of planes :mod:`golden.planes`; ``image``
places them in memory, ``weights`` has the integer side, ``gemm`` the dot product, ``aligner`` the
compressor's steps and ``cycles`` how long everything takes.
"""

from golden.anda.aligner import aligned_planes, compress_group
from golden.anda.gemm import accumulate, dot, gemm, group_sums, partial
from golden.anda.image import TensorLayout, load, store, weight_planes, weight_scales
from golden.anda.weights import Weights, dequantise, quantise

__all__ = [
    "TensorLayout",
    "Weights",
    "accumulate",
    "aligned_planes",
    "compress_group",
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
