"""The cost of a weight tile to a core with a DECA, from the golden cycle model of both.

``tilewright.golden.deca.stream`` follows a stream of tiles through core, processing element and
memory; tests hold it against the RTL, event for event. All cores do the same, so that the memory is
one core's share of the bandwidth.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import Literal

from tilewright.base.cache import content_key, sources_of, with_imports
from tilewright.golden.deca.core import CoreParams
from tilewright.golden.deca.memory import MemoryParams
from tilewright.golden.deca.stream import stream_by_stores, stream_by_tepls
from tilewright.golden.deca.tile_timing import even_tiles
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import DecaParams
from tilewright.sim.calibration import cached, constant, measured
from tilewright.sim.model_answers import get_or_compute
from tilewright.sim.scheme import WeightScheme

Prefetch = Literal["none", "l2", "deca"]
TILES = 160  # of a stream; the rate is that of its middle
LONG = 8 * TILES  # where prefetches are dropped: two doublings change the rate by at most 1% each
MOST_PARTS = 1000  # the share of the bandwidth is a fraction with at most this denominator


@dataclass(frozen=True, kw_only=True)
class Integration:
    """How a core and its DECA work together."""

    tepl: bool = True  # else stores, fences and loads, as in the paper's Figure 8
    tout: bool = True  # else the tile goes through the L2
    through_l2: bool = True  # else compressed tiles come from the last-level cache
    prefetch: Prefetch = "deca"
    degree: int = 5  # tiles ahead

    def __post_init__(self) -> None:
        require(0 <= self.degree <= 15, f"degree must be 0..15, not {self.degree!r}")

    def memory(self, bytes_per_cycle: float, clocks: float = 1.0) -> MemoryParams:
        """The memory below a DECA that has this share of the bandwidth, in cycles of that DECA.

        ``clocks``: of the core for each one of the DECA, to which its share refers too.
        """
        near = constant("l2_latency") if self.through_l2 else constant("llc_latency")
        found = MemoryParams(
            l2_latency=max(1, round(near / clocks)),
            latency=max(0, round((constant("memory_latency") - near) / clocks)),
            bytes_per_cycle=Fraction(bytes_per_cycle).limit_denominator(MOST_PARTS),
            prefetch_lines=round(constant("prefetch_lines")),
        )
        if self.prefetch != "l2":
            return found
        return replace(
            found,
            l2_prefetch=True,
            page_lines=round(constant("page_bytes")) // 64,
            training_lines=round(constant("l2_training_lines")),
            ahead_lines=round(constant("l2_ahead_lines")),
        )

    def core(self, matrix_cycles: float, clocks: float = 1.0) -> CoreParams:
        """The core of the DECA, whose products of one tile take so many of its own cycles."""
        way = round(constant("store_cycles") / clocks)
        l2 = round(constant("l2_latency") / clocks)
        return CoreParams(
            matrix_cycles=max(1, round(matrix_cycles / clocks)),
            store_way=way,
            load_way=way if self.tout else l2,
            result_delay=0 if self.tout else l2,
        )


@dataclass(frozen=True, kw_only=True)
class TileRate:
    """The cost of a tile in the steady state, in core cycles, and how its lines arrived."""

    cycles: float
    missed: float  # share of lines that were neither in the L2 nor on their way


@cached(1 << 14)
def tile_rate(
    params: DecaParams,
    scheme: WeightScheme,
    *,
    bytes_per_cycle: float,
    matrix_cycles: float,
    integration: Integration,
    clocks: float = 1.0,
) -> TileRate:
    """The rate of a stream of tiles in ``scheme``; ``clocks`` of the core for one of its DECA."""
    require(bytes_per_cycle > 0, f"bytes_per_cycle must be above 0, not {bytes_per_cycle!r}")
    degree = integration.degree if integration.prefetch == "deca" else 0
    # More cycles of its RTL are the same as a clock slower than the core's.
    clocks = clocks * measured("deca.cycles")
    rate = _stream(
        params,
        scheme,
        integration.memory(bytes_per_cycle * clocks, clocks),
        integration.core(matrix_cycles, clocks),
        degree,
        integration.tepl,
    )
    return replace(rate, cycles=rate.cycles * clocks)


@lru_cache(maxsize=4096)
def _stream(
    params: DecaParams,
    scheme: WeightScheme,
    memory: MemoryParams,
    core: CoreParams,
    degree: int,
    tepl: bool,
) -> TileRate:
    """Follows from its arguments alone, so that it stays cached when a constant changes.

    Cached by the sources of the cycle model: claims and pages ask for some two hundred streams.
    """

    def make() -> dict[str, float]:
        run = stream_by_tepls if tepl else stream_by_stores
        for count in (TILES, LONG):
            tiles = even_tiles(params, scheme.config, scheme.density, count)
            times = run(params, tiles, memory, core, degree)
            if not times.memory.dropped:
                break
        settled = times.product_ends[count // 3]
        lines = {line for at, line, loader in times.requests if loader >= 0 and at > settled}
        missed = sum(at > settled for at in times.memory.misses)
        return {"cycles": times.interval, "missed": missed / len(lines)}

    asked = map(repr, (params, scheme, memory, core, degree, tepl, TILES, LONG))
    return TileRate(**get_or_compute(("rate of a stream", *asked, _model()), make))


@cache
def _model() -> str:
    """Sources of the cycle model; they do not change under a running process."""
    golden = ("tilewright.golden.deca.stream", "tilewright.golden.deca.tile_timing")
    return content_key(sources_of(*with_imports(*golden, "tilewright.sim.scheme"), __name__))
