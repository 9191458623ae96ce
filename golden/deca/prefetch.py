"""The lines that the DECA prefetcher requests."""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.params.deca import STRUCTURES, DecaParams
from tilewright.golden.payload import Columns


class _Run:
    """Tiles of one structure that follow each other at short steps upwards.

    Every line of [``low``, ``high``) was part of a tile, or prefetched, or skipped by a tile
    beyond it.
    """

    def __init__(self, base: int, length: int, line_bytes: int):
        self.base, self.line_bytes = base, line_bytes
        self.low, self.high = base // line_bytes, self.line_behind(base + length)

    def line_behind(self, byte: int) -> int:
        """The first line that starts at or after an address."""
        return -(-byte // self.line_bytes)


def predict_prefetches(
    params: DecaParams, commands: Columns, degree: int
) -> list[NDArray[np.uint64]]:
    """Lines prefetched after each command, ascending, when there is time for all of them.

    ``commands`` are columns of ``params.command_fields`` in the order in which the prefetcher sees
    them. With a prefetcher for each loader ``loader`` is one more column: each has runs of its own
    loader's tiles, whose next ``degree`` it expects.

    A structure's tile continues a run when its base lies 0 to ``params.max_prefetch_stride`` bytes
    above the one before; the next tiles, ``degree`` for each loader, are expected at the same
    distance and with the same length, and every line up to the end of the last of them is
    prefetched, those between the tiles too. Any other tile starts a run and prefetches nothing; a
    length of 0 ends the run. Within its run no structure prefetches a line that it, or another
    structure in the run that this one is in, has read or prefetched. Lines beyond the address
    space do not exist.
    """
    end_of_memory = 1 << params.line_address_bits
    runs: dict[tuple[int, str], _Run] = {}
    loaders = commands["loader"] if params.prefetchers > 1 else np.zeros_like(commands["data_base"])
    result = []
    for k, loader in enumerate(loaders.tolist()):
        wanted = {}
        for name in STRUCTURES:
            base, length = (int(commands[f"{name}_{field}"][k]) for field in ("base", "length"))
            tile = _Run(base, length, params.line_bytes)
            run = runs.pop((loader, name), None)
            if not length:
                continue
            stride = base - run.base if run else -1
            if run and 0 <= stride <= params.max_prefetch_stride:
                tile.low, tile.high = run.low, max(run.high, tile.high)
                tiles = params.tiles_per_degree * degree
                wanted[loader, name] = tile.line_behind(base + tiles * stride + length)
            runs[loader, name] = tile
        lines: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        for key, end in wanted.items():
            ahead = np.arange(runs[key].high, min(end, end_of_memory), dtype=np.uint64)
            for run in runs.values():
                ahead = ahead[(ahead < run.low) | (ahead >= run.high)]
            runs[key].high = max(runs[key].high, end)
            lines = np.union1d(lines, ahead)
        result.append(lines)
    return result
