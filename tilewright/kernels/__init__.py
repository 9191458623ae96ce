"""Compiled kernels: sparse and dense matrices times activations on AMX, AVX-512 or any machine.

``Matrix`` holds packed weights (``tilewright.golden.sparamx``), ``DecaMatrix`` compressed ones
(``tilewright.golden.deca``), ``CodedMatrix`` the same re-laid for vector registers, ``Cache``
pruned keys and values; each multiplies, and every path gives the bits of its golden model. The C++
sources in ``src`` are compiled on first use.
"""

from tilewright.kernels.attention import Cache
from tilewright.kernels.build import BuildError
from tilewright.kernels.compressed import CodedMatrix, DecaMatrix
from tilewright.kernels.library import Path, available_paths, default_threads
from tilewright.kernels.matrix import Matrix, multiply_all

__all__ = ["BuildError", "Cache", "CodedMatrix", "DecaMatrix", "Matrix", "Path"]
__all__ += ["available_paths", "default_threads", "multiply_all"]
