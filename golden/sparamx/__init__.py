"""SparAMX: the sparse format, the instructions its kernels are made of, the kernels, attention.

``packed`` is the format, ``core`` the instructions with their counts, ``linear`` the kernels of a
linear layer, ``attention`` the same over a pruned cache of keys and values.
"""

from tilewright.golden.sparamx.attention import SparseCache as SparseCache
from tilewright.golden.sparamx.attention import attend as attend
from tilewright.golden.sparamx.attention import prune_cache as prune_cache
from tilewright.golden.sparamx.core import Core as Core
from tilewright.golden.sparamx.linear import multiply as multiply
from tilewright.golden.sparamx.linear import tile_instructions as tile_instructions
from tilewright.golden.sparamx.packed import PackedWeights as PackedWeights
from tilewright.golden.sparamx.packed import pack as pack
from tilewright.golden.sparamx.packed import unpack as unpack
