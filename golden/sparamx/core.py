"""The vector and tile instructions that the kernels are made of, and how often each is used.

Every method is one instruction of Intel's instruction set reference, applied to the same place of
many strips at once: leading axes are independent. One call counts once, whatever the axes, so
``counts`` holds the instructions of *one* strip. Instructions that the vector
ports do not execute (scalar loads, POPCNT, KMOV, address arithmetic) are not modelled.
"""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.amx import tdpbf16ps, tdpbssd, vdpbf16ps, vpdpbusd

MATRIX_INSTRUCTIONS = frozenset({"tdpbf16ps", "tdpbssd"})
TILE_MOVES = frozenset({"tileloadd", "tilestored"})


class Core:
    """Executes instructions and counts them by name."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    @property
    def vector_operations(self) -> int:
        """Instructions of the vector unit: all but tile moves and tile multiplications."""
        other = MATRIX_INSTRUCTIONS | TILE_MOVES
        return sum(n for name, n in self.counts.items() if name not in other)

    # --- 512-bit vectors; the last axis is the register

    def load(self, words: NDArray) -> NDArray:
        return self._did("load", words)

    def store(self, words: NDArray) -> NDArray:
        return self._did("store", words)

    def vpopcnt(self, words: NDArray) -> NDArray:
        """VPOPCNTD or VPOPCNTQ: set bits of each lane."""
        return self._did("vpopcnt", np.bitwise_count(words).astype(words.dtype))

    def valign(self, words: NDArray, lanes: int) -> NDArray:
        """VALIGND or VALIGNQ with a zero register: lanes moved up, zeros below them."""
        moved = np.zeros_like(words)
        moved[..., lanes:] = words[..., :-lanes]
        return self._did("valign", moved)

    def vpadd(self, a: NDArray, b: NDArray) -> NDArray:
        return self._did("vpadd", a + b)

    def vpexpandw(self, mask: NDArray, memory: NDArray, start: NDArray) -> NDArray:
        """Consecutive words of memory from ``start`` on into the lanes whose mask bit is set."""
        return self._did("vpexpandw", _expand(mask, 32, memory, start))

    def vpexpandb(self, mask: NDArray, memory: NDArray, start: NDArray) -> NDArray:
        """The same with 64 byte lanes."""
        return self._did("vpexpandb", _expand(mask, 64, memory, start))

    def vdpbf16ps(self, c: NDArray, a: NDArray, b: NDArray, *, registers: int = 1) -> NDArray:
        """Issue VDPBF16PS for ``registers`` registers c; the broadcast operand costs no load."""
        return self._did("vdpbf16ps", vdpbf16ps(c, a, b), registers)

    def vpdpbusd(self, c: NDArray, a: NDArray, b: NDArray, *, registers: int = 1) -> NDArray:
        """Issue VPDPBUSD for ``registers`` registers c."""
        return self._did("vpdpbusd", vpdpbusd(c, a, b), registers)

    # --- tiles; the last two axes are the register

    def tileloadd(self, tile: NDArray) -> NDArray:
        return self._did("tileloadd", tile)

    def tdpbf16ps(self, c: NDArray, a: NDArray, b: NDArray) -> NDArray:
        return self._did("tdpbf16ps", tdpbf16ps(c, a, b))

    def tdpbssd(self, c: NDArray, a: NDArray, b: NDArray) -> NDArray:
        return self._did("tdpbssd", tdpbssd(c, a, b))

    def _did(self, name: str, result: NDArray, times: int = 1) -> NDArray:
        self.counts[name] += times
        return result


def _expand(mask: NDArray, lanes: int, memory: NDArray, start: NDArray) -> NDArray:
    bits = mask[..., np.newaxis] >> np.arange(lanes, dtype=mask.dtype) & mask.dtype.type(1)
    chosen = bits.astype(np.bool_)
    rank = np.cumsum(chosen, axis=-1) - 1
    out = np.zeros(chosen.shape, memory.dtype)
    out[chosen] = memory[(start[..., np.newaxis] + rank)[chosen]]
    return out


def prefix_sum(core: Core, words: NDArray) -> NDArray:
    """Inclusive sums over the lanes of a register (SparAMX paper, Algorithm 1)."""
    total, lanes = words, 1
    while lanes < words.shape[-1]:
        total = core.vpadd(total, core.valign(total, lanes))
        lanes *= 2
    return total
