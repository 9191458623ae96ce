"""The prefetcher against its golden model: the same lines, none twice, none that was read."""

import random
import sys

import numpy as np
import pytest

from tests.support.clocked import prepared, run
from tests.support.mutate import mutant, planted
from tilewright.golden.deca.prefetch import predict_prefetches
from tilewright.golden.params.deca import STRUCTURES, TILE_BYTES, DecaParams
from tilewright.hw.deca.prefetcher import Prefetcher

PARAMS = DecaParams()
EACH = DecaParams(prefetchers=2)  # one for each loader
LINE = PARAMS.line_bytes
Tile = dict[str, tuple[int, int]]  # structure -> base, length
LATENCY = 9  # from a command to its first line
SETTLED = 5  # until its own lines are known


def columns(tiles: list[Tile]) -> dict[str, np.ndarray]:
    return {
        f"{name}_{field}": np.array([tile[name][k] for tile in tiles], dtype=np.uint64)
        for name in STRUCTURES
        for k, field in enumerate(("base", "length"))
    }


def lines_read(tile: Tile) -> set[int]:
    return {byte // LINE for base, length in tile.values() for byte in range(base, base + length)}


def loader_of(number: int) -> int:
    """The loaders take turns, but for two tiles in a row now and then."""
    return number % 7 % 2


def golden(tiles: list[Tile], degree: int, params: DecaParams = PARAMS) -> list[list[int]]:
    commands = columns(tiles) | {"loader": np.array([loader_of(k) for k in range(len(tiles))])}
    return [list(map(int, p)) for p in predict_prefetches(params, commands, degree)]


def regions(rng: random.Random, count: int) -> list[Tile]:
    """Each structure in a region of its own, one right after the other; data of any length."""
    lengths = [rng.randrange(200, 400) for _ in range(count)]
    scale = rng.randrange(1 << 40)
    mask, data = scale - 64 * count, scale + 16 * count
    return [
        {
            "mask": (mask + 64 * k, 64),
            "scale": (scale + 16 * k, 16),
            "data": (data + sum(lengths[:k]), lengths[k]),
        }
        for k in range(count)
    ]


def records(rng: random.Random, count: int) -> list[Tile]:
    """The three structures of a tile side by side, tile after tile."""
    at, tiles = rng.randrange(1 << 40), []
    for _ in range(count):
        tile = {}
        for name, length in zip(STRUCTURES, (64, 16, rng.randrange(100, 900)), strict=True):
            tile[name] = at, length
            at += length
        tiles.append(tile)
    return tiles


def dense(rng: random.Random, count: int) -> list[Tile]:
    """Data alone, 512 bytes a tile."""
    at = rng.randrange(1 << 40)
    return [{"mask": (0, 0), "scale": (5, 0), "data": (at + 512 * k, 512)} for k in range(count)]


def wild(rng: random.Random, count: int) -> list[Tile]:
    """Anything: steps of all sizes around the limit, back too, lengths of 0, the end of memory."""
    top = 1 << PARAMS.address_bits
    places = {name: rng.randrange(top) for name in STRUCTURES}
    tiles = []
    for _ in range(count):
        tile = {}
        for name in STRUCTURES:
            length = rng.choice((0, 1, 64, rng.randrange(TILE_BYTES + 1), TILE_BYTES))
            step = rng.choice((0, 1, 300, 2047, 2048, 2049, -1, -5000, rng.randrange(4000)))
            place = rng.choice([places[name] + step] * 8 + [top - length, places["mask"]])
            places[name] = max(0, min(place, top - length))
            tile[name] = places[name], length
        tiles.append(tile)
    return tiles


def play(tiles, degree, *, gap, stall, seed=1, params=PARAMS):
    """Show the tiles; returns (cycle shown) of each and (cycle offered, line) of each request.

    ``gap(rng)`` is the pause before a tile in cycles; ``None`` waits until nothing is left.
    """
    unit = prepared(Prefetcher, params)
    dut = unit.dut
    rng = random.Random(seed)
    shown: list[int] = []
    requests: list[tuple[int, int]] = []

    async def bench(ctx):
        ctx.set(dut.degree, degree)
        cycle = quiet = 0
        pause = 0
        offered = None
        # The longest that structures can go through lines that others have.
        silence = LATENCY + 3 * params.prefetchers * max(map(len, golden(tiles, degree)))
        while len(shown) < len(tiles) or quiet <= silence:
            show = len(shown) < len(tiles) and (quiet > silence if pause is None else pause == 0)
            ctx.set(dut.observe.valid, show)
            if show:
                if params.prefetchers > 1:
                    ctx.set(dut.observe.loader, loader_of(len(shown)))
                for name, (base, length) in tiles[len(shown)].items():
                    ctx.set(dut.observe.command[name].base, base)
                    ctx.set(dut.observe.command[name].length, length)
            ready = rng.random() >= stall
            ctx.set(dut.request.ready, ready)
            _, _, valid, *request = await ctx.tick().sample(
                dut.request.valid,
                dut.request.payload.line,
                dut.request.payload.tag,
                dut.request.payload.prefetch,
            )
            assert offered is None or (valid, request[0]) == (1, offered[1]), f"cycle {cycle}"
            if valid:
                assert request[1:] == [0, 1]
                offered = offered or (cycle, request[0])
                if ready:
                    requests.append(offered)
                    offered = None
            if show:
                shown.append(cycle)
                pause = gap(rng)
            elif pause:
                pause -= 1
            quiet = 0 if valid or show else quiet + 1
            cycle += 1

    run(unit, bench)
    return shown, requests


def drained(_):
    return None


@pytest.mark.parametrize(
    ("layout", "degree", "params"),
    # One that is shared is in every run of the element's bench, too.
    [(wild, 3, PARAMS), (regions, 3, EACH), (wild, 1, EACH)],
)
def test_lines_are_those_of_the_golden_model(layout, degree, params):
    compare_with_golden(layout, degree, count=12, seed=degree, params=params)


@pytest.mark.full
@pytest.mark.parametrize("params", [PARAMS, EACH], ids=["shared", "each"])
@pytest.mark.parametrize("degree", range(16))
@pytest.mark.parametrize("layout", [regions, records, wild])
def test_lines_are_those_of_the_golden_model_at_every_degree(layout, degree, params):
    count = 25 if degree < 15 else 12
    compare_with_golden(layout, degree, count=count, seed=100 + degree, params=params)


def compare_with_golden(layout, degree, *, count, seed, params):
    tiles = layout(random.Random(seed), count)
    shown, requests = play(tiles, degree, gap=drained, stall=0.2, params=params)
    got = [[] for _ in tiles]
    for cycle, line in requests:
        got[np.searchsorted(shown, cycle) - 1].append(line)
    assert [sorted(lines) for lines in got] == golden(tiles, degree, params)


ERRORS = [
    ("shown.valid & (shown.loader == loader) if own else shown.valid", "shown.valid"),
    ("(fours << 2)) * p.tiles_per_degree", "(fours << 2)) * p.loaders"),
    ("(held & ~asked_source).any()", "(held & ~asked_source)[:3].any()"),
]


@pytest.mark.parametrize(("old", "new"), planted(ERRORS))
def test_planted_errors_of_two_prefetchers_are_found(old, new, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "Prefetcher", mutant(Prefetcher, old, new))
    with pytest.raises(AssertionError):
        compare_with_golden(regions, 3, count=12, seed=3, params=EACH)


@pytest.mark.parametrize(
    ("layout", "stall", "params"),
    [(records, 0.0, PARAMS), (regions, 0.7, EACH)],
)
def test_without_time_for_all_a_line_is_still_never_asked_for_twice(layout, stall, params):
    """Tiles come at any distance, also in consecutive cycles, faster than lines can leave."""
    tiles = layout(random.Random(7), 60)
    pause = (0, 0, 1, 3, 10, 40)
    shown, requests = play(tiles, 4, gap=lambda rng: rng.choice(pause), stall=stall, params=params)
    lines = [line for _, line in requests]
    assert len(set(lines)) == len(lines) > 30
    assert set(lines) <= {line for part in golden(tiles, 4, params) for line in part}
    for tile, cycle in zip(tiles, shown, strict=True):
        # One line may be between its run and the port when the tile becomes known.
        later = [line for offered, line in requests if offered > cycle + SETTLED][1:]
        assert lines_read(tile).isdisjoint(later)


@pytest.mark.parametrize("layout", [regions, records, dense])
def test_everything_but_the_first_two_tiles_is_prefetched(layout):
    """By the golden model, whose lines are the RTL's."""
    tiles = layout(random.Random(8), 20)
    read = set().union(*(lines_read(tile) for tile in tiles))
    first = set().union(*(lines_read(tile) for tile in tiles[:2]))
    assert read - first <= {line for lines in golden(tiles, 3) for line in lines}


def test_first_line_after_nine_cycles_then_one_a_cycle():
    tiles = dense(random.Random(9), 2)
    shown, requests = play(tiles, 2, gap=drained, stall=0.0)
    cycles = [cycle for cycle, _ in requests]
    assert cycles == list(range(shown[1] + LATENCY, shown[1] + LATENCY + len(cycles)))


def test_structures_take_turns():
    """Each of three waiting structures has one line in every three."""
    tiles = [
        {name: (k * (1 << 20) + 1024 * n, 1024) for k, name in enumerate(STRUCTURES)}
        for n in range(2)
    ]
    _, requests = play(tiles, 2, gap=drained, stall=0.0)
    sources = [line * LINE >> 20 for _, line in requests]
    assert len(sources) == 3 * 64
    assert all(sorted(sources[k : k + 3]) == [0, 1, 2] for k in range(0, len(sources), 3))


def test_the_lowest_address_does_not_follow_the_highest():
    top = 1 << PARAMS.address_bits
    tiles = [
        {"mask": (0, 0), "scale": (0, 0), "data": (base, 64)} for base in (top - 256, 0, 64, 192)
    ]
    _, requests = play(tiles, 1, gap=drained, stall=0.0)
    assert [line for _, line in requests] == [line for lines in golden(tiles, 1) for line in lines]
