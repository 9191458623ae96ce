"""Models of a core that uses a DECA: it starts tiles and multiplies with each.

The cycle model and the benches use the same classes.
"""

from dataclasses import dataclass
from typing import Annotated

from tilewright.golden.params.block import Limited, at_least
from tilewright.golden.params.deca import TILE_REGISTER_BITS, TILE_ROWS

NEVER = 1 << 62


@dataclass(frozen=True, kw_only=True)
class CoreParams(Limited):
    """Cycles of a core's own."""

    matrix_cycles: Annotated[int, at_least(1)] = 16  # of the products that use one tile
    # Tile registers that TEPLs name in turn.
    registers: Annotated[int, at_least(1)] = 1 << TILE_REGISTER_BITS
    # A core that starts tiles by stores: one way of a store, one way of a load, and the delay from
    # a tile's result to the first cycle in which the load can read it.
    store_way: Annotated[int, at_least(1)] = 3
    load_way: Annotated[int, at_least(1)] = 3
    result_delay: Annotated[int, at_least(0)] = 0


class TeplCore:
    """Dispatches TEPLs in program order, each as soon as its tile register is free.

    Products follow each other in program order; each takes ``matrix_cycles`` from the cycle after
    its TEPL has completed, or after the product before, and frees the register.
    """

    def __init__(self, params: CoreParams, tiles: int):
        self.params, self.tiles = params, tiles
        self.dispatched = 0
        self.completed: set[int] = set()
        self.product_ends: list[int] = []  # of tiles in program order: the first cycle after

    def complete(self, cycle: int, tile: int) -> None:
        """The TEPL of ``tile`` has completed in ``cycle``."""
        self.completed.add(tile)
        while (n := len(self.product_ends)) in self.completed:
            self.completed.remove(n)
            before = self.product_ends[-1] if self.product_ends else 0
            # Tiles that completed out of order waited for this one, the latest.
            self.product_ends.append(max(before, cycle + 1) + self.params.matrix_cycles)

    def dispatches(self, cycle: int) -> bool:
        """Whether the next TEPL is on offer in ``cycle``."""
        n, registers = self.dispatched, self.params.registers
        if n >= self.tiles:
            return False
        before = n - registers
        return before < 0 or (
            before < len(self.product_ends) and self.product_ends[before] <= cycle
        )

    def next_event(self, cycle: int) -> int:
        """The first cycle after ``cycle`` in which the core can do anything by itself."""
        n = self.dispatched
        before = n - self.params.registers
        if n >= self.tiles or before >= len(self.product_ends):
            return NEVER
        return cycle + 1 if before < 0 else max(self.product_ends[before], cycle + 1)

    @property
    def finished(self) -> bool:
        """Whether every tile was used."""
        return len(self.product_ends) == self.tiles


class StoreCore:
    """Starts tiles by stores, with a fence before each load of sixteen rows.

    The metadata of a tile go in one store of 64 bytes, which leaves at the head of the reorder
    buffer: after the product before it. The fence waits for its answer, the load for the fence and
    for the tile, the product for the last row. Tiles alternate between the loaders, and the store
    for a loader follows the product of the tile that was there before.
    """

    def __init__(self, params: CoreParams, tiles: int, loaders: int = 2):
        self.params, self.tiles, self.loaders = params, tiles, loaders
        self.stored = self.loaded = 0  # tiles whose store was taken, whose load has ended
        self.store_at = params.store_way  # the next store is on offer from this cycle on
        self.load_at: int | None = None  # the load under way can be answered from this cycle on
        self.row = 0  # rows asked for
        self.done: dict[int, int] = {}  # tile -> cycle in which its result was taken
        self._results = list(range(loaders))  # the next tile of each loader
        self.product_ends: list[int] = []

    def store(self, cycle: int) -> int | None:
        """Return the tile whose store is on offer in ``cycle``."""
        if self.stored >= self.tiles or cycle < self.store_at:
            return None
        return self.stored

    def store_taken(self, cycle: int) -> None:
        """The store on offer was taken in ``cycle``."""
        self.stored += 1
        if self.stored < min(self.loaders, self.tiles):
            self.store_at = cycle + 1
            return
        self.store_at = NEVER
        # The fence waits for the answer, the load for the fence.
        self.load_at = cycle + self.params.store_way + self.params.load_way

    def result(self, cycle: int, loader: int) -> int:
        """The result of a loader's tile was taken in ``cycle``; return the tile."""
        tile = self._results[loader]
        self.done[tile] = cycle
        self._results[loader] += self.loaders
        return tile

    def read(self, cycle: int) -> tuple[int, int] | None:
        """Return tile and row of the request on offer in ``cycle``."""
        ready = self.done.get(self.loaded, cycle) + self.params.result_delay < cycle
        if self.load_at is None or cycle < self.load_at or not ready or self.row == TILE_ROWS:
            return None
        return self.loaded, self.row

    def row_asked(self, cycle: int) -> None:
        """The request on offer was taken in ``cycle``; its row follows in the next."""
        self.row += 1
        if self.row < TILE_ROWS:
            return
        end = cycle + 1 + self.params.load_way + self.params.matrix_cycles
        self.product_ends.append(end)
        self.row, self.load_at = 0, None
        self.loaded += 1
        if self.stored < self.tiles:
            self.store_at = end + self.params.store_way
        elif self.loaded < self.tiles:
            self.load_at = end + self.params.load_way  # no store, and no fence to wait for

    def next_event(self, cycle: int) -> int:
        """The first cycle after ``cycle`` in which the core can do anything by itself."""
        found = self.store_at if self.stored < self.tiles else NEVER
        if self.load_at is not None and self.loaded in self.done:
            readable = self.done[self.loaded] + self.params.result_delay + 1
            found = min(found, max(self.load_at, readable))
        return max(found, cycle + 1)

    @property
    def finished(self) -> bool:
        """Whether every tile was used."""
        return self.loaded == self.tiles
