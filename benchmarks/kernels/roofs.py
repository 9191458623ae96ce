"""The three roofs of a machine, measured, and the Roof-Surface model's predictions from them.

The model is the DECA paper's (Section 4): tiles per second are at most the memory's bytes per
second over a tile's bytes (MBW), the vector unit's operations per second over a tile's operations
(VOS), and the matrix unit's multiplications per second (MOS).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from math import ceil

from benchmarks.kernels.contestants import reading
from benchmarks.race import race
from tilewright.golden.sparamx.core import MATRIX_INSTRUCTIONS, TILE_MOVES
from tilewright.kernels.library import Path, address, available_paths, library, weight_bytes

# Kinds of `operations` in src/avx512.cpp; those below 0 are of src/amx.cpp.
INSTRUCTIONS = (
    *("vpadd", "vpexpandw", "vpexpandb", "vdpbf16ps", "vpdpbusd", "store", "vpermw", "vpermi2w"),
    *("vpmovzxbw", "vptestmw", "vmovdqu16", "vpermb", "vpmultishiftqb", "load", "vpunpckbw"),
    *("vpsrlw", "vfmadd", "vpmovzxbd", "vpbroadcastw"),
)
PER_ROUND = 16
MATRIX_PER_ROUND = 4
SAME_COST = {"vpand": "vpadd", "vpopcnt": "vpadd", "valign": "vpermw", "vaddps": "vfmadd"}
# In parallel with the vector ports; loads of vectors and of tiles share theirs.
MEMORY_PORTS = {"load": "load", "tileloadd": "load", "store": "store"}
# A core has two ports for 512-bit vectors. Most instructions run on either; these on one of them
# (Intel's tables for this family of cores), where their measured rate is half of the others'.
FIRST_PORT = frozenset({"vdpbf16ps", "vpsrlw"})
SECOND_PORT = frozenset(
    {
        *("vpexpandw", "vpexpandb", "vpermw", "vpermi2w", "vpermb", "vpmovzxbw", "vpmovzxbd"),
        *("vptestmw", "vpmultishiftqb", "vpunpckbw", "vpbroadcastw", "valign"),
    }
)
EXPANSIONS = frozenset({"vpexpandw", "vpexpandb"})
# How a tile that was expanded reaches the matrix unit, and what of x is loaded with it: kinds of
# `operations` in src/amx.cpp.
RELOADS = {"one_row": -4, "from_l1": -5, "from_l2": -6}


@dataclass(frozen=True)
class Roofs:
    """Rates of a machine per second, of all its threads together."""

    threads: int
    read_bytes: float  # MBW
    instructions: dict[str, float]  # by name; VOS is that of a plain addition
    matrix: float | None  # MOS: TDPBF16PS on full tiles
    matrix_from_l2: float | None = None  # the same, each with a tile of x from that cache
    call_seconds: float = 0.0  # of a call that has nothing to do: its start and its end
    # Tiles that are stored row by row, loaded two tiles later and multiplied, by what else is read.
    reload: dict[str, float] = field(default_factory=dict)

    @property
    def vector(self) -> float:
        return self.instructions["vpadd"]


@dataclass(frozen=True)
class Prediction:
    """Tiles per second that each roof allows; the lowest counts."""

    memory: float
    vector: float
    matrix: float
    reload: float = float("inf")  # of tiles that pass through the first-level cache

    @property
    def rate(self) -> float:
        return min(self.memory, self.vector, self.matrix, self.reload)

    @property
    def bound(self) -> str:
        sides = asdict(self)
        return min(sides, key=sides.__getitem__)


def median_rate(amount: float, run: Callable[[], object], repeats: int) -> float:
    """``amount`` per second, by the median time of ``repeats`` runs after one that warms up."""
    return amount / race({"": run}, repeats)[""].seconds


def read_rate(threads: int, working_set: int, repeats: int) -> float:
    (read,) = reading(working_set, threads).calls
    return median_rate(working_set, read, repeats)


def measure_roofs(
    threads: int, working_set: int, repeats: int = 15, rounds: int = 2_000_000
) -> Roofs:
    """All roofs of this machine; no vector or matrix one where there are no such instructions."""

    def operations(kind: int, per_round: int) -> float:
        run = partial(library().tw_operations, kind, rounds, threads)
        return median_rate(per_round * rounds * threads, run, min(repeats, 5))

    paths = available_paths()
    instructions = {}
    if Path.AVX512 in paths:
        instructions = {name: operations(kind, PER_ROUND) for kind, name in enumerate(INSTRUCTIONS)}
    matrix = from_l2 = None
    reload: dict[str, float] = {}
    if Path.AMX in paths:
        matrix = operations(-1, MATRIX_PER_ROUND)
        instructions["tileloadd"] = operations(-2, MATRIX_PER_ROUND)
        from_l2 = operations(-3, MATRIX_PER_ROUND)
        reload = {n: operations(kind, MATRIX_PER_ROUND) for n, kind in RELOADS.items()}
    read_bytes = read_rate(threads, working_set, repeats)
    nothing = weight_bytes(256)
    empty = partial(library().tw_read, address(nothing), 256, threads)
    call_seconds = 1 / median_rate(1, empty, 200)
    return Roofs(threads, read_bytes, instructions, matrix, from_l2, call_seconds, reload)


def predict(
    roofs: Roofs,
    tile_bytes: float,
    counts: Counter[str],
    *,
    weighted: bool,
    reload: str | None = None,
    loads: float = 0,
    call_tiles: int | None = None,
) -> Prediction:
    """Rates of a kernel that reads ``tile_bytes`` and executes ``counts`` per tile.

    ``weighted``: instructions take the time measured for them on the port that they need, the other
    instructions whatever of the two ports is left, and loads and stores run in parallel; a kernel
    whose tiles are stored and loaded again names its kind of ``RELOADS``, and its other loads wait
    for the same ports. ``loads`` are those that the vector unit does not see: masks, activations
    and prefetches. With ``call_tiles``, the start and the end of a call are shared by so many
    tiles. Otherwise every vector instruction takes the time of an addition, as in the paper.
    """
    if weighted:
        vector = _port_seconds(roofs, counts + Counter({"load": ceil(loads)}))
    else:
        other = MATRIX_INSTRUCTIONS | TILE_MOVES
        vector = sum(n for name, n in counts.items() if name not in other) / roofs.vector
    matrix = sum(counts[name] for name in MATRIX_INSTRUCTIONS)
    start = roofs.call_seconds / call_tiles if weighted and call_tiles else 0.0

    def rate(amount: float, per_second: float) -> float:
        if not amount:
            return float("inf")
        return per_second / amount if not start else 1 / (amount / per_second + start)

    through = 0.0
    if weighted and reload:
        others = ceil(loads) + sum(counts[name] for name in EXPANSIONS)
        through = 1 / roofs.reload[reload] + (others and others / roofs.instructions["load"])
    return Prediction(
        memory=rate(tile_bytes, roofs.read_bytes),
        vector=rate(vector, 1.0),
        matrix=rate(matrix, roofs.matrix) if roofs.matrix else float("inf"),
        reload=rate(through, 1.0),
    )


def _port_seconds(roofs: Roofs, counts: Counter[str]) -> float:
    first = second = either = 0.0
    memory = {"load": 0.0, "store": 0.0}
    for name, count in counts.items():
        if name in MATRIX_INSTRUCTIONS or (name in TILE_MOVES and name not in MEMORY_PORTS):
            continue
        seconds = count / roofs.instructions[SAME_COST.get(name, name)]
        if name in EXPANSIONS:  # from memory
            memory["load"] += count / roofs.instructions["load"]
        if name in MEMORY_PORTS:
            memory[MEMORY_PORTS[name]] += seconds
        elif name in FIRST_PORT:
            first += seconds
        elif name in SECOND_PORT:
            second += seconds
        else:
            either += seconds  # of both ports together
    return max(first, second, (first + second) / 2 + either, *memory.values())
