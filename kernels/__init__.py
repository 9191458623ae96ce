"""Compiled kernels: sparse and dense matrices times activations on AMX, AVX-512 or any machine.

``Matrix`` holds packed weights (``golden.sparamx``), ``DecaMatrix`` compressed ones
(``golden.deca``), ``Cache`` pruned keys and values; each multiplies, and every path gives the bits
of its golden model. The C++ sources in ``src`` are compiled on first use.
"""

from kernels.attention import Cache
from kernels.build import BuildError
from kernels.deca import DecaMatrix
from kernels.library import Path, available_paths, default_threads
from kernels.matrix import Matrix, multiply_all

__all__ = [
    "BuildError",
    "Cache",
    "DecaMatrix",
    "Matrix",
    "Path",
    "available_paths",
    "default_threads",
    "multiply_all",
]
