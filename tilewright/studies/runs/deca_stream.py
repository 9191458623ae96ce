"""Streams of tiles on the simulated DECA, with a memory below it and a core beside it.

On ``deca_tepl`` the core starts tiles by TEPLs, on ``deca`` by stores and fences. Every event of
every tile is compared with the golden cycle model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.golden.deca.stream import StreamTimes, stream_by_stores, stream_by_tepls
from tilewright.golden.deca.tile_timing import tiles_in_order
from tilewright.golden.params.deca import DecaParams, DecaTeplParams
from tilewright.golden.params.resolve import resolve
from tilewright.studies.runs.simulation import DEFAULT, Simulation
from tilewright.verify.deca.stream_case import StreamCase, make_tiles

__all__ = ["StreamRun", "measure_streams", "model_stream"]

BENCH = "tilewright.verify.deca.stream"
EVENTS = ("started", "first_row", "last_row", "ended", "product_ends")
LONG = 50_000  # tiles that repay the time of an optimising compiler


@dataclass(frozen=True, kw_only=True)
class StreamRun:
    """One stream on the simulated Verilog, beside the golden model."""

    block: str
    case: StreamCase
    interval: float  # cycles between two products in the middle of the stream, measured
    model_interval: float
    equal_tiles: int  # tiles of which every event is in the model's cycle
    equal_requests: bool  # requests for lines: all in the model's cycles
    lines_read: int
    lines_missed: int  # of those, neither in the L2 nor on their way
    lines_prefetched: int
    prefetches_dropped: int
    times: dict[str, list[int]]  # measured: event -> cycle of each tile
    requests: list[list[int]]  # measured: cycle, line, and loader or -1 for a prefetch

    @property
    def equal(self) -> bool:
        """Whether model and measurement agree on everything."""
        return self.equal_tiles == self.case.tiles and self.equal_requests

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return vars(self) | {"case": self.case.as_dict()}


def model_stream(params: DecaParams, case: StreamCase) -> StreamTimes:
    """Return what the golden model says about a case."""
    tiles = tiles_in_order(params, make_tiles(case), case.base, case.alignment)
    run = stream_by_tepls if isinstance(params, DecaTeplParams) else stream_by_stores
    return run(params, tiles, case.memory, case.core, case.degree)


def measure_streams(
    block: str,
    cases: Sequence[StreamCase],
    *,
    simulation: Simulation = DEFAULT,
) -> list[StreamRun]:
    """Run the cases one after the other in one simulation, and the model beside it."""
    params = resolve(block)
    if not isinstance(params, DecaParams) or type(params) not in (DecaParams, DecaTeplParams):
        raise CommandError(f"deca.stream runs on a block deca or deca_tepl, not {params.block}")
    for case in cases:
        if not params.supports(case.config):
            raise CommandError(f"{params.slug} cannot scale groups of {case.config.group} elements")
    task = {"cases": [case.as_dict() for case in cases]}
    optimize = "-O1" if sum(case.tiles for case in cases) > LONG else "-O0"
    found = simulation.run(block, BENCH, task=task, optimize=optimize)["streams"]
    return [
        _compare(block, params, case, measured) for case, measured in zip(cases, found, strict=True)
    ]


def _compare(
    block: str, params: DecaParams, case: StreamCase, measured: dict[str, Any]
) -> StreamRun:
    model = model_stream(params, case)
    columns = zip(*(measured[name] for name in EVENTS), strict=True)
    expected = zip(*(getattr(model, name) for name in EVENTS), strict=True)
    times = StreamTimes(model.memory, product_ends=measured["product_ends"])
    return StreamRun(
        block=block,
        case=case,
        interval=times.interval,
        model_interval=model.interval,
        equal_tiles=sum(a == b for a, b in zip(columns, expected, strict=True)),
        equal_requests=measured["requests"] == [list(request) for request in model.requests],
        lines_read=measured["read"],
        lines_missed=measured["missed"],
        lines_prefetched=measured["prefetched"],
        prefetches_dropped=measured["dropped"],
        times={name: measured[name] for name in EVENTS},
        requests=measured["requests"],
    )
