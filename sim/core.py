"""A core and its DECA, tile by tile: what limits them when weights stream through.

The model keeps times in core cycles. Memory is this core's share of the machine's bandwidth: a
queue that serves one tile after the other, and a latency behind it. Its other parts are the
two loaders, the vector pipeline with the cycles of ``tilewright.golden.deca.cycles``, the way of
the tile to the core, and the matrix unit, which takes tiles in program order. All cores do the
same.
"""

from dataclasses import dataclass, replace
from typing import Literal, Self

from tilewright.golden.params.block import require
from tilewright.sim.calibration import cached, constant

__all__ = ["CoreModel", "Prefetch", "TileRate", "simulate"]

Prefetch = Literal["none", "l2", "deca"]
TILES = 600  # simulated; the rate is that of the second half, when every queue has settled
LINE_BYTES = 64
PAGE_BYTES = 4096  # the L2's own prefetcher sees physical addresses and stops at a page's end
TRAINING_TILES = 2  # that it watches in a new page before it asks for anything


@dataclass(frozen=True, kw_only=True)
class CoreModel:
    """One core with a DECA, its share of the memory, and how the two work together."""

    tile_bytes: float
    tile_cycles: float  # of the vector pipeline
    matrix_cycles: float  # of the matrix unit, for all uses of the tile
    bytes_per_cycle: float  # this core's share of the memory's bandwidth
    tepl: bool = True  # else stores, fences and loads, as in the paper's Figure 8
    tout: bool = True  # else the tile goes through the L2
    through_l2: bool = True  # else compressed tiles come from the last-level cache
    prefetch: Prefetch = "deca"
    degree: int = 5  # tiles ahead
    loaders: int = 2
    queue: int = 8  # entries of the TEPL queue
    pipeline_depth: int = 3  # stages behind the first: a tile's last chunk is that much later

    def __post_init__(self) -> None:
        for name in ("tile_bytes", "tile_cycles", "matrix_cycles", "bytes_per_cycle"):
            value = getattr(self, name)
            require(value > 0, f"{name} must be above 0, not {value!r}")
        require(0 <= self.degree <= 15, f"degree must be 0..15, not {self.degree!r}")

    def but(self, **changes: object) -> Self:
        """Return the same core with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class TileRate:
    """What a tile costs in the steady state, in core cycles, and how its lines arrived."""

    cycles: float
    missed: float  # share of tiles whose lines were neither in the L2 nor on their way


@cached(4096)
def simulate(core: CoreModel) -> TileRate:
    """Run ``TILES`` tiles of equal size and take the rate of the second half."""
    run = _Run(core)
    for tile in range(TILES):
        run.step(tile)
    half = TILES // 2
    cycles = (run.done[-1] - run.done[half - 1]) / half
    return TileRate(cycles=cycles, missed=sum(run.missed[half:]) / half)


class _Run:
    """Times of the tiles so far."""

    def __init__(self, core: CoreModel):
        self.core = core
        self.l2 = constant("l2_latency")
        self.way = constant("core_deca_latency")
        self.latency = constant("memory_latency")
        self.near = self.l2 if core.through_l2 else constant("llc_latency")
        self.store = constant("store_cycles")
        self.load = constant("tile_load_cycles")
        self.transfer = core.tile_bytes / core.bytes_per_cycle
        self.buffers = constant("prefetch_lines") * LINE_BYTES / core.tile_bytes  # in tiles
        self.memory_free = 0.0
        self.arrival: dict[int, float] = {}  # tiles that prefetches bring to the L2
        self.planned: dict[int, float] = {}  # prefetches that are sent at these times
        self.known: set[int] = set()  # tiles that were planned once; none is asked for twice
        self.pipeline_free = 0.0
        self.returned: list[float] = []  # the tile is in a tile register, or readable by the core
        self.done: list[float] = []  # the matrix unit has used it
        self.missed: list[bool] = []

    def step(self, tile: int) -> None:
        """Follow one more tile."""
        asked = self._ask(tile)
        data = self._fetch(tile, asked + self.way)
        start = max(data, self.pipeline_free)
        self.pipeline_free = start + self.core.tile_cycles
        ready = self.pipeline_free + self.core.pipeline_depth
        if not self.core.tout:
            ready += self.l2  # its rows are written to the L2
        self.returned.append(ready + self.way if self.core.tepl else ready)
        self._use(tile)

    def _ask(self, tile: int) -> float:
        """When the core sends the tile's command."""
        if self.core.tepl:
            free = self.returned[tile - self.core.loaders] if tile >= self.core.loaders else 0.0
            entry = self.done[tile - self.core.queue] if tile >= self.core.queue else 0.0
            return max(free, entry)
        # The store waits at the head of the reorder buffer for everything before it: the product
        # of the tile that used this loader last.
        free = self.done[tile - self.core.loaders] if tile >= self.core.loaders else 0.0
        return free + self.store

    def _use(self, tile: int) -> None:
        """The matrix unit takes the tile, in program order."""
        before = self.done[-1] if self.done else 0.0
        start = max(before, self.returned[tile])
        if not self.core.tepl:
            # A load of sixteen rows between a fence and the dependent product: nothing overlaps.
            path = self.way if self.core.tout else self.l2
            start += 2 * path + self.load + self.store
        self.done.append(start + self.core.matrix_cycles)

    def _fetch(self, tile: int, time: float) -> float:
        """When the tile's lines are in the loader."""
        self._send_prefetches(time)
        self.planned.pop(tile, None)  # too late to be of use
        arrived = self.arrival.pop(tile, None)
        self.missed.append(arrived is None)
        if arrived is None:
            arrived = self._read(time)
        received = max(time, arrived) + self.near
        self._plan_prefetches(tile, time, received)
        return received

    def _read(self, time: float) -> float:
        self.memory_free = max(self.memory_free, time) + self.transfer
        return self.memory_free + self.latency

    def _plan_prefetches(self, tile: int, asked: float, received: float) -> None:
        """A loader's prefetcher asks for its own next tiles once it has its lines; the L2's own
        follows every request that it has looked up with the tile behind it."""
        if self.core.prefetch == "deca":
            step = self.core.loaders
            ahead = range(tile + step, tile + step * self.core.degree + 1, step)
            self.planned |= {t: received for t in ahead if t not in self.known}
            self.known.update(ahead)
        elif self.core.prefetch == "l2" and not self._in_training(tile + 1):
            self.planned[tile + 1] = asked + self.l2

    def _send_prefetches(self, now: float) -> None:
        for time, tile in sorted((time, tile) for tile, time in self.planned.items()):
            if time > now:
                break
            del self.planned[tile]
            outstanding = sum(arrived > time for arrived in self.arrival.values())
            if outstanding + 1 <= self.buffers:  # else there is no buffer left: dropped
                self.arrival[tile] = self._read(time)

    def _in_training(self, tile: int) -> bool:
        per_page = max(1, int(PAGE_BYTES // self.core.tile_bytes))
        return tile % per_page < TRAINING_TILES
