"""A stream of tiles that a bench and the golden model run alike."""

from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np

from tilewright.golden.deca import CompressedTiles, resolve_scheme
from tilewright.golden.deca.core import CoreParams
from tilewright.golden.deca.memory import MemoryParams
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import DecaParams, TileConfig
from tilewright.verify.deca.workload import random_tiles


@dataclass(frozen=True, kw_only=True)
class StreamCase:
    """Tiles of one scheme, the memory below the PE and its core."""

    scheme: str = "bf8"  # as of ``tilewright pack``
    density: float | None = None  # share of weights kept, None: all, below 0: random in each tile
    tiles: int = 200
    seed: int = 1
    degree: int = 5  # tiles that the PE prefetches ahead
    base: int = 1 << 32
    alignment: int = 1  # bytes
    memory: MemoryParams = field(default_factory=MemoryParams)
    core: CoreParams = field(default_factory=CoreParams)

    def __post_init__(self) -> None:
        require(1 <= self.tiles <= 1 << 20, f"tiles must be 1..{1 << 20}, not {self.tiles!r}")
        most = DecaParams.max_prefetch_degree
        require(0 <= self.degree <= most, f"degree must be 0..{most}, not {self.degree!r}")
        require(
            self.density is None or self.density <= 1, f"density must be 0..1, not {self.density!r}"
        )

    @property
    def config(self) -> TileConfig:
        """The configuration of the tiles, sparse where a density is given."""
        scheme = resolve_scheme(self.scheme)
        return scheme.config if self.density is None else scheme.sparsified.config

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        found = asdict(self)
        share = self.memory.bytes_per_cycle
        found["memory"]["bytes_per_cycle"] = None if share is None else str(share)
        return found

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Read what ``as_dict`` gives."""
        memory = dict(fields["memory"])
        if memory["bytes_per_cycle"] is not None:
            memory["bytes_per_cycle"] = Fraction(memory["bytes_per_cycle"])
        parts = {"memory": MemoryParams(**memory), "core": CoreParams(**fields["core"])}
        return cls(**fields | parts)


def make_tiles(case: StreamCase) -> CompressedTiles:
    """The tiles of a case: any codes and scales, nonzeros anywhere."""
    rng = np.random.default_rng(case.seed)
    density: Any = 1.0 if case.density is None else case.density
    if density < 0:
        density = rng.random((case.tiles, 1))
    return random_tiles(rng, case.config, case.tiles, density, clustered=0)
