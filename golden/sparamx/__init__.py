"""SparAMX: the sparse format, the instructions its kernels are made of, the kernels, attention.

``packed`` is the format, ``core`` the instructions with their counts, ``linear`` the kernels of a
linear layer, ``attention`` the same over a pruned cache of keys and values.
"""

from tilewright.golden.sparamx.attention import SparseCache, attend, prune_cache
from tilewright.golden.sparamx.core import Core
from tilewright.golden.sparamx.linear import multiply, tile_instructions
from tilewright.golden.sparamx.packed import PackedWeights, pack, unpack

__all__ = [
    "Core",
    "PackedWeights",
    "SparseCache",
    "attend",
    "multiply",
    "pack",
    "prune_cache",
    "tile_instructions",
    "unpack",
]
