"""A stream of tiles through core, processing element and memory: the cycle of every event."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.golden.deca.core import NEVER, CoreParams, StoreCore, TeplCore
from tilewright.golden.deca.machine import PE
from tilewright.golden.deca.memory import L2Memory, MemoryParams
from tilewright.golden.deca.tepl import TeplUnit
from tilewright.golden.deca.tile_timing import Tile
from tilewright.golden.params.deca import TILE_ROWS, DecaParams


@dataclass
class StreamTimes:
    """Cycles of every tile's events, in program order, and what the memory was asked for."""

    memory: L2Memory
    started: list[int] = field(default_factory=list)  # its TEPL, or its store, was taken
    first_row: list[int] = field(default_factory=list)  # is at the core
    last_row: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)  # its TEPL completed, or its result was taken
    product_ends: list[int] = field(default_factory=list)  # the first cycle after its product
    requests: list[tuple[int, int, int]] = field(default_factory=list)  # cycle, line, loader or -1

    @property
    def interval(self) -> float:
        """Mean cycles between products, of the stream without its first third and last eighth.

        In the last tiles nothing that follows takes bandwidth any more.
        """
        tiles = len(self.product_ends)
        first, last = tiles // 3, tiles - 1 - tiles // 8
        return (self.product_ends[last] - self.product_ends[first]) / (last - first)


def stream_by_stores(
    params: DecaParams,
    tiles: Sequence[Tile],
    memory: MemoryParams,
    core: CoreParams,
    degree: int = 0,
) -> StreamTimes:
    """Tiles that stores start, with a fence and a load of sixteen rows each."""
    pe = PE(params, L2Memory(memory), degree)
    host = StoreCore(core, len(tiles), params.loaders)
    times = StreamTimes(pe.memory, requests=pe.requests, product_ends=host.product_ends)
    times.ended = [0] * len(tiles)
    cycle = 0
    while not host.finished:
        store, read = host.store(cycle), host.read(cycle)
        commands = []
        if store is not None and pe.open(store % params.loaders):
            commands.append((store % params.loaders, tiles[store]))
        results = [k for k, done in enumerate(pe.done) if done]
        reads = [] if read is None else [(read[0] % params.loaders, read[1])]
        pe.step(cycle, commands, results, reads, commands)
        for k in results:
            times.ended[host.result(cycle, k)] = cycle
        if commands:
            times.started.append(cycle)
            host.store_taken(cycle)
        if read is not None:
            row = read[1]
            if row == 0:
                times.first_row.append(cycle + 1)
            if row == TILE_ROWS - 1:
                times.last_row.append(cycle + 1)
            host.row_asked(cycle)
        cycle = max(cycle + 1, min(pe.next_event(cycle), host.next_event(cycle)))
        assert cycle < NEVER or host.finished, "the stream waits for nothing"
    return times


def stream_by_tepls(
    params: DecaParams,
    tiles: Sequence[Tile],
    memory: MemoryParams,
    core: CoreParams,
    degree: int = 0,
) -> StreamTimes:
    """Tiles that TEPLs start."""
    pe = PE(params, L2Memory(memory), degree)
    unit = TeplUnit(params, pe)
    host = TeplCore(core, len(tiles))
    times = StreamTimes(pe.memory, requests=pe.requests, product_ends=host.product_ends)
    times.ended = [0] * len(tiles)
    cycle = 1  # the first cycle in which the core offers anything
    while not host.finished:
        dispatched = None
        if unit.ready and host.dispatches(cycle):
            number = host.dispatched
            dispatched = (number, tiles[number])
            host.dispatched += 1
            times.started.append(cycle)
        completed = unit.step(cycle, dispatched)
        if completed is not None:
            times.ended[completed] = cycle
            host.complete(cycle, completed)
        cycle = max(cycle + 1, min(unit.next_event(cycle), host.next_event(cycle)))
        assert cycle < NEVER or host.finished, "the stream waits for nothing"
    times.first_row = [unit.first_row[n] for n in range(len(tiles))]
    times.last_row = [unit.last_row[n] for n in range(len(tiles))]
    return times
