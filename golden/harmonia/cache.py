"""The KV cache of one head, token by token, as the accelerator keeps it.

K tokens are converted once, along their channels, when they arrive; one that leaves the local
window loses the low half of its mantissas in place. V is converted along tokens, a group for each
channel: the newest, unfinished group is converted anew at every token from its fp16 values and
committed when full. Nothing but the residual V tokens is ever kept in fp16.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden import bfp
from tilewright.golden.bits import patterns
from tilewright.golden.harmonia.mixed import MixedBlocks
from tilewright.golden.harmonia.offset import offsets, subtract
from tilewright.golden.harmonia.precision import key_bits, value_bits
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import CacheParams


class KvCache:
    """Append tokens, read K and V in block floating point."""

    def __init__(self, params: CacheParams, channels: int):
        if channels < 1:
            raise ValueError(f"channels must be at least 1, not {channels!r}")
        self.params = params
        self.channels = channels
        self.tokens = 0
        self.offset: NDArray[np.uint16] | None = None  # set by the first tokens, then fixed
        groups = -(-channels // params.group)
        self._keys = _Store((groups, params.group))
        self._values = _Store((channels, params.group))
        self._residual = np.zeros((0, channels), np.uint16)

    def append(self, keys: ArrayLike, values: ArrayLike) -> None:
        """New tokens, fp16 patterns of shape (tokens, channels); the first call is the prompt."""
        k, v = (self._checked(name, x) for name, x in (("keys", keys), ("values", values)))
        if len(k) != len(v):
            raise ValueError(f"{len(k)} keys but {len(v)} values")
        if len(k) == 0:
            return
        if self.offset is None:
            self.offset = offsets(self.params, k)
        converted = bfp.encode(self.params.high, subtract(k, self.offset))
        self._keys.append(converted)
        self._append_values(v)
        self.tokens += len(k)
        self._age()

    def keys(self) -> MixedBlocks:
        """K of shape (tokens, groups, group)."""
        return self._keys.blocks(key_bits(self.params, self.tokens), self.channels)

    def values(self) -> MixedBlocks:
        """V of shape (channels, groups, group), the residual group zero-padded."""
        store = self._values
        if len(self._residual):
            store = store.copy()
            store.append(self._converted_values(self._residual))
        stored = store.blocks(value_bits(self.params, self.tokens), self.tokens)
        return MixedBlocks(
            stored.sign.swapaxes(0, 1),
            stored.mantissa.swapaxes(0, 1),
            stored.exponent.T,
            stored.bits.T,
            stored.length,
        )

    def _checked(self, name: str, bits: ArrayLike) -> NDArray[np.uint16]:
        words = patterns(FP16, bits).astype(np.uint16)
        if words.ndim != 2 or words.shape[1] != self.channels:
            raise ValueError(
                f"{name} must have the shape (tokens, {self.channels}), not {words.shape}"
            )
        return words

    def _append_values(self, values: NDArray[np.uint16]) -> None:
        pending = np.concatenate([self._residual, values])
        whole = len(pending) - len(pending) % self.params.group
        if whole:
            self._values.append(self._converted_values(pending[:whole]))
        self._residual = pending[whole:]

    def _converted_values(self, values: NDArray[np.uint16]) -> bfp.Blocks:
        """Groups of 32 tokens for every channel: (groups, channels, group)."""
        blocks = bfp.encode(self.params.high, values.T)
        return bfp.Blocks(
            blocks.sign.swapaxes(0, 1),
            blocks.mantissa.swapaxes(0, 1),
            blocks.exponent.T,
            blocks.length,
        )

    def _age(self) -> None:
        """Cut what has left the local window since the last call."""
        params = self.params
        self._keys.cut(key_bits(params, self.tokens), params)
        committed = self.tokens // params.group
        self._values.cut(value_bits(params, self.tokens)[:committed], params)


class _Store:
    """Rows of groups, each row at one mantissa length."""

    def __init__(self, shape: tuple[int, int]):
        self.sign = np.zeros((0, *shape), bool)
        self.mantissa = np.zeros((0, *shape), np.uint8)
        self.exponent = np.zeros((0, shape[0]), np.uint8)
        self.is_cut = np.zeros(0, bool)

    def copy(self) -> "_Store":
        twin = _Store(self.mantissa.shape[1:])
        twin.__dict__.update(self.__dict__)
        return twin

    def append(self, blocks: bfp.Blocks) -> None:
        self.sign = np.concatenate([self.sign, blocks.sign])
        self.mantissa = np.concatenate([self.mantissa, blocks.mantissa])
        self.exponent = np.concatenate([self.exponent, blocks.exponent])
        self.is_cut = np.concatenate([self.is_cut, np.zeros(len(blocks.sign), bool)])

    def cut(self, bits: NDArray[np.uint8], params: CacheParams) -> None:
        """Bring the rows to ``bits``; a row that was cut stays so."""
        leaving = (bits == params.low_bits) & ~self.is_cut
        self.mantissa = self.mantissa.copy()
        self.mantissa[leaving] >>= params.high_bits - params.low_bits
        self.is_cut = self.is_cut | leaving

    def blocks(self, bits: NDArray[np.uint8], length: int) -> MixedBlocks:
        per_group = np.broadcast_to(bits[:, np.newaxis], self.exponent.shape)
        return MixedBlocks(self.sign, self.mantissa, self.exponent, per_group, length)
