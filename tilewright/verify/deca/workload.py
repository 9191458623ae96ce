"""Tiles to decompress: every configuration, any bits, any place in memory."""

import json
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from itertools import product
from random import Random
from typing import Annotated, Any, Self

import numpy as np

from tilewright.golden.deca import (
    CompressedTiles,
    Tiles,
    decompress_tiles,
    encode_tiles,
    lay_out,
    resolve_scheme,
)
from tilewright.golden.deca.coding import mask_nonzeros
from tilewright.golden.deca.core import CoreParams
from tilewright.golden.deca.memory import MemoryParams
from tilewright.golden.params.block import Limit, Limited, within
from tilewright.golden.params.deca import (
    CODE_BITS,
    LOADER_STRIDE,
    LUT_ENTRIES,
    ROW_BYTES,
    STRUCTURES,
    TILE_ROWS,
    DecaParams,
    LoaderRegister,
    Register,
    ScaleKind,
    TileConfig,
    TileError,
)
from tilewright.verify.coverage import Coverage
from tilewright.verify.deca.memory import Store

# bf16 patterns where arithmetic is most likely to go wrong: zeros, subnormals, the ends of the
# normal range, infinities, NaNs, ones.
CORNER_PATTERNS = (
    *(0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x80FF, 0x7F7F, 0xFF7F),
    *(0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0xFFFF, 0x3F80, 0xBF80, 0x3FFF),
)
CORNER_EXPONENTS = (0, 1, 126, 127, 128, 253, 254, 255)

DENSE = "dense"
DENSITIES = {"0-10%": (0.0, 0.1), "10-30%": (0.1, 0.3), "30-60%": (0.3, 0.6), "60-100%": (0.6, 1)}
ALIGNMENTS = {
    "line": ROW_BYTES,
    "word": 8,
    "byte": 1,
}  # greatest of these the base is a multiple of


# Configurations.


def all_configs(params: DecaParams) -> list[TileConfig]:
    """Every combination of code width, sparsity and scaling that the PE supports."""
    configs = []
    for bits, sparse in product(CODE_BITS, (False, True)):
        configs.append(TileConfig(code_bits=bits, sparse=sparse))
        if bits != 16:
            configs.append(TileConfig(code_bits=bits, sparse=sparse, int8=True))
        for kind, group_log2 in product((ScaleKind.E8M0, ScaleKind.BF16), range(10)):
            config = TileConfig(code_bits=bits, sparse=sparse, scale=kind, group=1 << group_log2)
            if params.supports(config):
                configs.append(config)
    return configs


def format_of(config: TileConfig) -> str:
    """Width of a code and what happens to its value, as coverage names it."""
    kind = "int8" if config.int8 else config.scale.value
    return f"{config.code_bits} bit {kind}"


def formats() -> list[str]:
    """Every format, in the order of ``CODE_BITS``."""
    kinds = [*(kind.value for kind in ScaleKind), "int8"]
    names = [f"{bits} bit {kind}" for bits, kind in product(CODE_BITS, kinds)]
    return [name for name in names if name != "16 bit int8"]


def config_of(params: DecaParams, rng: Random, fmt: str, sparse: bool) -> TileConfig:
    """A configuration of a format; the group is any that the PE supports."""
    bits, _, kind = fmt.split()
    int8 = kind == "int8"
    scale = ScaleKind.NONE if int8 else ScaleKind(kind)
    options = [
        TileConfig(code_bits=int(bits), sparse=sparse, scale=scale, group=1 << k, int8=int8)
        for k in range(10)
    ]
    return rng.choice([config for config in options if params.supports(config)])


# Contents.


def random_table(rng: np.random.Generator, code_bits: int) -> np.ndarray:
    """A table of any 16-bit patterns with the corners among them, repeated as narrow codes need.

    It serves codes of ``code_bits`` and more.
    """
    entries = 1 << min(code_bits, 8)
    book = rng.integers(0, 1 << 16, entries, dtype=np.uint16)
    ordinary = rng.random(entries) < 0.6  # the rest may be NaN or far out of range
    book[ordinary] = (book[ordinary] & 0x87FF) | 0x3800
    corners = rng.random(entries) < 0.25
    book[corners] = rng.choice(np.array(CORNER_PATTERNS, np.uint16), int(corners.sum()))
    return np.tile(book, LUT_ENTRIES // entries)


def random_tiles(
    rng: np.random.Generator,
    config: TileConfig,
    count: int,
    density: float,
    *,
    clustered: float = 0.5,
) -> CompressedTiles:
    """Tiles of any codes and scales.

    In a share ``clustered`` of the tiles the nonzeros of some range are adjacent, so that vector
    operations are full or empty.
    """
    shape = (count, config.elements)
    mask = rng.random(shape) < density if config.sparse else np.ones(shape, bool)
    for tile in np.flatnonzero(rng.random(count) < clustered) if config.sparse else ():
        first, last = np.sort(rng.integers(0, config.elements, 2))
        mask[tile, first:last].sort()
    codes = rng.integers(0, 1 << config.code_bits, shape)
    groups = (count, config.elements // config.group if config.scale.bytes else 0)
    if config.scale is ScaleKind.BF16:
        scales = rng.integers(0, 1 << 16, groups)
        ordinary = rng.random(groups) < 0.7
        scales = np.where(ordinary, (scales & 0x87FF) | 0x3800, scales)
        corner = rng.choice(CORNER_PATTERNS, groups)
    else:
        scales = rng.integers(100, 156, groups)
        corner = rng.choice(CORNER_EXPONENTS, groups)
    scales = np.where(rng.random(groups) < 0.15, corner, scales)
    return encode_tiles(config, Tiles(mask, np.where(mask, codes, 0), scales))


def random_offset(rng: Random, alignment: str) -> int:
    """Bytes into a line, of exactly this alignment."""
    steps = [k for k in range(ROW_BYTES) if alignment_of(k) == alignment]
    return rng.choice(steps)


def alignment_of(address: int) -> str:
    return next(name for name, step in ALIGNMENTS.items() if address % step == 0)


def density_of(config: TileConfig, nonzeros: int) -> str:
    if not config.sparse:
        return DENSE
    share = nonzeros / config.elements
    return next(name for name, (_, most) in DENSITIES.items() if share <= most)


# Jobs.


def loader_register(k: int, register: LoaderRegister) -> int:
    """The address of a register of loader ``k``."""
    return Register.LOADER + k * LOADER_STRIDE + register


@dataclass
class TileJob:
    """One tile: its command, the registers it needs, and its expected result."""

    config_word: int
    fields: dict[str, int]  # of the command
    rows: list[int]  # expected rows; empty where the tile must fail
    lut: tuple[int, ...] | None = None  # None: any
    error: TileError = TileError.OK
    cycles: int | None = None  # that golden predicts
    traits: dict[str, str] | None = None  # the axes of coverage that the tile itself decides
    got_rows: dict[int, int] = field(default_factory=dict)
    result: TileError | None = None
    done_at: int = 0  # cycle, once it is done
    squashed: bool = False

    @property
    def table(self) -> tuple[int, ...]:
        """The table of a tile that needs one of its own."""
        if self.lut is None:
            raise ValueError("a tile that takes any table has none of its own")
        return self.lut

    def changed(self, error: TileError, **by: int) -> "TileJob":
        """The same tile with some fields of its command changed by so much, and how it ends."""
        fields = {name: value + by.get(name, 0) for name, value in self.fields.items()}
        return TileJob(self.config_word, fields, [], self.lut, error)

    def again(self) -> "TileJob":
        """The same tile, not yet run."""
        return replace(self, got_rows={}, result=None, done_at=0, squashed=False)

    def lines(self, line_bytes: int = ROW_BYTES) -> list[int]:
        """Lines that the tile needs, structure by structure."""
        found: list[int] = []
        for name in STRUCTURES:
            base, length = self.fields[f"{name}_base"], self.fields[f"{name}_length"]
            if length:
                found += range(base // line_bytes, (base + length - 1) // line_bytes + 1)
        return found


def scatter(
    tiles: CompressedTiles, store: Store, rng: Random, alignment: str | None = None
) -> list[dict[str, int]]:
    """Commands of tiles put into ``store``, each structure anywhere in lines of its own.

    ``alignment`` is that of the data, by default any.
    """
    commands = []
    ends = np.cumsum(tiles.data_lengths)
    for k, end in enumerate(ends):
        data = tiles.data[end - tiles.data_lengths[k] : end]
        contents = (part.tobytes() for part in (tiles.masks[k], tiles.scales[k], data))
        fields = {}
        for name, content in zip(STRUCTURES, contents, strict=True):
            chosen = alignment if name == "data" and alignment else rng.choice(list(ALIGNMENTS))
            fields[f"{name}_base"] = store.put(content, random_offset(rng, chosen))
            fields[f"{name}_length"] = len(content)
        commands.append(fields)
    return commands


def in_regions(tiles: CompressedTiles, store: Store, alignment: int = 1) -> list[dict[str, int]]:
    """Commands of tiles put into ``store`` as ``tilewright.golden.deca.lay_out`` does it."""
    image = lay_out(tiles, store.end, alignment)
    store.put(image.content.tobytes())
    columns = {name: column.tolist() for name, column in image.commands.items()}
    return [{name: column[k] for name, column in columns.items()} for k in range(len(tiles))]


def tile_jobs(
    tiles: CompressedTiles, lut: np.ndarray, commands: list[dict[str, int]]
) -> list[TileJob]:
    """Jobs of tiles that the commands fetch."""
    config = tiles.config
    dense = decompress_tiles(lut, tiles).astype("u1" if config.int8 else "<u2")
    rows = dense.view(np.uint8).reshape(len(tiles), TILE_ROWS, ROW_BYTES)
    table = None if config.code_bits == 16 else tuple(lut.tolist())
    nonzeros = mask_nonzeros(config, tiles.masks).tolist()
    jobs = []
    for k, fields in enumerate(commands):
        traits = {
            "format": format_of(config),
            "density": density_of(config, nonzeros[k]),
            "alignment": alignment_of(fields["data_base"]),
        }
        numbers = [int.from_bytes(row.tobytes(), "little") for row in rows[k]]
        jobs.append(TileJob(config.encode(), fields, numbers, table, traits=traits))
    return jobs


# Streams.


@dataclass(frozen=True, kw_only=True)
class StreamCase(Limited):
    """Tiles of one scheme, the memory below the PE and its core."""

    scheme: str = "bf8"  # as of ``tilewright pack``
    # Share of nonzero weights; None: all, below 0: random in each tile.
    density: Annotated[float | None, Limit("0..1", lambda d: d is None or d <= 1)] = None
    tiles: Annotated[int, within(1, 1 << 20)] = 200
    seed: int = 1
    # Tiles that the PE prefetches ahead.
    degree: Annotated[int, within(0, DecaParams.max_prefetch_degree)] = 5
    base: int = 1 << 32
    alignment: int = 1  # bytes
    memory: MemoryParams = field(default_factory=MemoryParams)
    core: CoreParams = field(default_factory=CoreParams)

    @property
    def config(self) -> TileConfig:
        """The configuration of the tiles, sparse where a density is given."""
        scheme = resolve_scheme(self.scheme)
        return scheme.config if self.density is None else scheme.sparsified.config

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data; a fraction is text."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return found

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Read what ``as_dict`` gives."""
        share = fields["memory"]["bytes_per_cycle"]
        share = {"bytes_per_cycle": None if share is None else Fraction(share)}
        memory, core = MemoryParams(**fields["memory"] | share), CoreParams(**fields["core"])
        return cls(**fields | {"memory": memory, "core": core})


def make_tiles(case: StreamCase) -> CompressedTiles:
    """The tiles of a case: any codes and scales, nonzeros anywhere."""
    rng = np.random.default_rng(case.seed)
    density: Any = 1.0 if case.density is None else case.density
    if density < 0:
        density = rng.random((case.tiles, 1))
    return random_tiles(rng, case.config, case.tiles, density, clustered=0)


# Coverage.


class Squash(StrEnum):
    """State of a tile when it was squashed, as the core sees it."""

    COMMAND = "command taken"  # and no line asked for yet
    FETCH = "lines due"
    DECOMPRESS = "lines here"  # all that were asked for
    RESULT = "result waits"
    ROWS = "rows are read"
    NONE = "undisturbed"


def stall_name(stall: float) -> str:
    return f"stall {stall:g}"


def tile_coverage(stalls: tuple[float, ...]) -> Coverage:
    """Return the coverage of tiles, with nothing hit yet."""
    return Coverage(
        {
            "format": formats(),
            "density": (DENSE, *DENSITIES),
            "alignment": tuple(ALIGNMENTS),
            "stall": [stall_name(stall) for stall in stalls],
            "squash": [squash.value for squash in Squash],
        }
    )
