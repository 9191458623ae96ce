"""Schemes of the user's own: the codes of a format class through DECA's table and scaler.

A DECA gives ``book[code] * scale`` with a bf16 number for each code and a bf16 number or a power of
two for each group. A class whose ``decode`` has that form is a scheme, and its ``encode`` chooses
codes and scales; numbers and scales that are no bf16 numbers are rounded to them.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import lcm

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.bits import decode, encode
from tilewright.golden.deca.scheme import Scheme
from tilewright.golden.deca.tiles import Tiles, from_tiles, grid, tile_columns, to_tiles
from tilewright.golden.formats import NumberFormat, resolve_format
from tilewright.golden.params.arith import FloatRules
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import TILE_ROWS, ScaleKind, TileConfig
from tilewright.golden.params.formats import BF16, E8M0, Overflow

TABLE_BITS = 8  # codes of more bits have no entry each
ROW = tile_columns(TileConfig())  # weights of a matrix row in a tile, which share a scale at most
CLOSE = 2.0**-8  # relative: both a number and a scale may have been rounded to bf16
_SATURATE = FloatRules(overflow=Overflow.SATURATE)


@dataclass(frozen=True, kw_only=True)
class OwnScheme(Scheme):
    """A scheme whose codes and scales a class chooses."""

    own: NumberFormat = field(repr=False)

    @cached_property
    def _reference(self) -> int:
        """The code whose number is the largest, from which a scale is found."""
        numbers = np.where(np.isfinite(self.values), np.abs(self.values), 0)
        return int(numbers.argmax())

    def factors(self, scales: NDArray) -> NDArray[np.float64]:
        """Return the numbers that the class's scales stand for."""
        decoded = _decoded(self.own, scales)[:, self._reference]
        return decoded / self.values[self._reference]

    def quantise(
        self, weights: NDArray[np.float32], mask: NDArray[np.bool_], shape: tuple[int, int]
    ) -> Tiles:
        """Return the tiles of a whole matrix of ``shape``; see :func:`quantise.quantise`."""
        down, along = grid(self.config, shape)
        padded = down * TILE_ROWS, along * ROW
        kept = np.where(mask, weights, np.float32(0)) if self.config.sparse else weights
        matrix = from_tiles(self.config, padded, kept).astype(np.float64)
        right = -padded[1] % lcm(self.own.group, ROW)
        codes, scales = self.own.encode(np.pad(matrix, ((0, 0), (0, right))))
        expected = self.own.decode(codes, scales)
        found = self.values[codes]
        scale_tiles = np.zeros((len(kept), 0), np.uint8)
        if self.own.scale_bits:
            distinct, places = np.unique(scales, return_inverse=True)
            factors = self.factors(distinct)
            each = np.repeat(places.reshape(scales.shape), self.own.group, axis=-1)
            found = found * factors[each]
            patterns = self._patterns(factors)[each[:, : padded[1]]]
            scale_tiles = to_tiles(self.config, patterns)[:, :: self.config.group]
        require(
            expected.shape == found.shape
            and bool((np.abs(expected - found) <= CLOSE * np.abs(expected)).all()),
            f"{self.name} decodes a code to other values than its number times the scale of its"
            " group, and DECA's table and scaler give no others",
        )
        tiles = to_tiles(self.config, codes[:, : padded[1]]).astype(np.uint8)
        return Tiles(mask, np.where(mask, tiles, 0), scale_tiles)

    def _patterns(self, factors: NDArray[np.float64]) -> NDArray:
        if self.config.scale is ScaleKind.BF16:
            return encode(BF16, factors, _SATURATE)
        _, exponents = np.frexp(factors)
        bytes_ = np.where(factors > 0, exponents - 1 + E8M0.bias, 0)
        return np.clip(bytes_, 0, E8M0.nan_bits - 1).astype(np.uint8)


def own_scheme(name: str) -> OwnScheme:
    """Return the scheme of the class ``FILE.py:CLASS``; one that DECA cannot read is refused."""
    return scheme_of(resolve_format(name), name)


def scheme_of(own: NumberFormat, name: str) -> OwnScheme:
    """Return the scheme of a format under a name of its own."""
    try:
        return _scheme_of(own, name)
    except ValueError:
        raise
    except Exception as error:
        # Somebody else's class: whatever it raises is about that class.
        raise ValueError(f"{name} cannot be used: {type(error).__name__}: {error}") from None


def _scheme_of(own: NumberFormat, name: str) -> OwnScheme:
    require(
        own.bits <= TABLE_BITS,
        f"{name}: DECA looks up codes of 1..{TABLE_BITS} bits, not {own.bits}",
    )
    fits = own.group % ROW == 0 or own.group in {1 << k for k in range(ROW.bit_length())}
    require(
        not own.scale_bits or fits,
        f"{name}: a scale of DECA is that of 1, 2, 4, 8, 16 or a multiple of {ROW} weights of a"
        f" row, not of {own.group}",
    )
    if not own.scale_bits:
        book = _decoded(own, np.zeros(1, np.int64))[0]
        return _scheme(name, own, book, ScaleKind.NONE)
    ramp = np.linspace(-1, 1, own.group) if own.group > 1 else np.ones(1)
    _, scales = own.encode(ramp[np.newaxis])
    numbers = _decoded(own, scales.ravel())[0]
    return _scheme(name, own, numbers / _unit(numbers), _kind(own))


def _scheme(
    name: str, own: NumberFormat, numbers: NDArray[np.float64], scale: ScaleKind
) -> OwnScheme:
    config = TileConfig(code_bits=own.bits, scale=scale, group=min(own.group, ROW))
    if scale is ScaleKind.NONE:
        config = TileConfig(code_bits=own.bits)
    return OwnScheme(name=name, config=config, book=tuple(encode(BF16, numbers).tolist()), own=own)


def _decoded(own: NumberFormat, scales: NDArray) -> NDArray[np.float64]:
    """Return the value of every code with each of ``scales``, a row for each."""
    count = 1 << own.bits
    codes = np.tile(np.arange(count + -count % own.group) % count, (len(scales), 1))
    each = np.repeat(scales[:, np.newaxis], codes.shape[1] // own.group, axis=1)
    return own.decode(codes, each)[:, :count]


def _unit(numbers: NDArray[np.float64]) -> float:
    """Return the magnitude by which the numbers are divided to be bf16 numbers, if there is one.

    Powers of two come first, so that scales that are powers of two remain so.
    """
    sizes = np.unique(np.abs(numbers[np.isfinite(numbers) & (numbers != 0)]))
    if not len(sizes):
        return 1.0
    for unit in sorted(sizes, key=lambda size: (np.frexp(size)[0] != 0.5, size)):
        quotients = numbers / unit
        exact = decode(BF16, encode(BF16, quotients))
        if np.allclose(exact, quotients, rtol=1e-9, atol=0, equal_nan=True):
            return float(unit)
    return float(sizes[-1])


def _kind(own: NumberFormat) -> ScaleKind:
    """Return how DECA holds the scales: as a byte where all of them are powers of two."""
    if own.scale_bits > E8M0.bits:
        return ScaleKind.BF16
    numbers = _decoded(own, np.arange(1 << own.scale_bits))
    sizes = np.abs(np.where(np.isfinite(numbers), numbers, 0)).max(-1)
    fractions, _ = np.frexp(sizes[sizes > 0])
    return ScaleKind.E8M0 if len(set(fractions.tolist())) == 1 else ScaleKind.BF16
