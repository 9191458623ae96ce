"""The rates of DECA that the performance model states, measured on its Verilog: a record.

Streams of each scheme with every line in the L2, Table 5 of the DECA paper (prefetchers) and
Figure 16 (how a core and its DECA work together), with the memory and the core of the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.base.console import progress
from tilewright.base.errors import CheckError, CommandError
from tilewright.claims.deca import ABLATION, ABLATION_SCHEMES, HBM
from tilewright.golden.deca.memory import MemoryParams
from tilewright.golden.deca.stream import StreamTimes, stream_by_stores, stream_by_tepls
from tilewright.golden.deca.tile_timing import tiles_in_order
from tilewright.golden.params.deca import DecaParams, DecaTeplParams
from tilewright.golden.params.resolve import resolve
from tilewright.sim.deca_stream import LONG, Integration
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.studies.runs.simulation import DEFAULT, Simulation
from tilewright.verify.deca.workload import StreamCase, make_tiles

BENCH = "tilewright.verify.deca.stream"
MANY = 50_000  # tiles that repay the time of an optimising compiler


@dataclass(frozen=True, kw_only=True)
class StreamRun:
    """One stream on the simulated Verilog and on the golden model."""

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
    """Return the golden model's times for a case."""
    tiles = tiles_in_order(params, make_tiles(case), case.base, case.alignment)
    run = stream_by_tepls if isinstance(params, DecaTeplParams) else stream_by_stores
    return run(params, tiles, case.memory, case.core, case.degree)


def measure_streams(
    block: str, cases: Sequence[StreamCase], *, simulation: Simulation = DEFAULT
) -> list[StreamRun]:
    """Run the cases one after the other in one simulation, and on the model."""
    params = resolve(block)
    if not isinstance(params, DecaParams) or type(params) not in (DecaParams, DecaTeplParams):
        raise CommandError(f"deca.stream runs on a block deca or deca_tepl, not {params.block}")
    for case in cases:
        if not params.supports(case.config):
            raise CommandError(f"{params.slug} cannot scale groups of {case.config.group} elements")
    task = {"cases": [case.as_dict() for case in cases]}
    optimize = "-O1" if sum(case.tiles for case in cases) > MANY else "-O0"
    found = simulation.run(block, BENCH, task=task, optimize=optimize)["streams"]
    return [
        _compare(block, params, case, measured) for case, measured in zip(cases, found, strict=True)
    ]


def _compare(
    block: str, params: DecaParams, case: StreamCase, measured: dict[str, Any]
) -> StreamRun:
    model, times = model_stream(params, case), measured["times"]
    got = zip(*times.values(), strict=True)
    expected = zip(*(getattr(model, event) for event in times), strict=True)
    return StreamRun(
        block=block,
        case=case,
        interval=StreamTimes(model.memory, product_ends=times["product_ends"]).interval,
        model_interval=model.interval,
        equal_tiles=sum(a == b for a, b in zip(got, expected, strict=True)),
        equal_requests=measured["requests"] == [list(request) for request in model.requests],
        **measured,
    )


TILES = 120
SETTLING = 4  # times as many tiles where a prefetcher far ahead takes long to settle
DEEP = 12  # entries of a TEPL queue that hides the memory's latency from tiles of 16 cycles
PLAIN = ("bf8_5%", "bf8_10%", "bf8_20%", "bf8_30%", "bf8_50%", "bf8", "mxfp4", "bf16_50%")
DROPPING = ("hbm bf16_50%", "table5 deca 15")
PREFETCHERS = (("none", 0), ("l2", 0), ("deca", 1), ("deca", 5), ("deca", 15))


def rate_cases(tiles: int = TILES, seed: int = 1) -> dict[str, tuple[str, str, StreamCase]]:
    """Block, scheme and stream of every row of the record.

    Streams with every line in the L2 have that many ``tiles``, all others as many as they need to
    settle, or fewer: those of ``DROPPING``, in which prefetches are dropped, the most.
    """
    share = HBM.bytes_per_cycle(HBM.cores)
    fewer = min(tiles, TILES)

    def case(scheme: str, how: Integration) -> StreamCase:
        found = resolve_weight_scheme(scheme)
        return StreamCase(
            scheme=scheme.partition("_")[0],
            density=float(found.density) if found.density < 1 else None,
            tiles=SETTLING * fewer if how.tepl else fewer,
            seed=seed,
            degree=how.degree if how.prefetch == "deca" else 0,
            memory=how.memory(share),
            core=how.core(16),
        )

    near = MemoryParams(latency=0)
    found = {
        f"l2 {scheme}": (
            "deca_tepl",
            scheme,
            replace(case(scheme, Integration(degree=0)), memory=near, tiles=tiles),
        )
        for scheme in PLAIN
    }
    for scheme in PLAIN:
        found[f"hbm {scheme}"] = ("deca_tepl", scheme, case(scheme, Integration()))
    for scheme in PLAIN[:2]:  # those whose tiles outpace the lookahead of the paper's queue
        stream = case(scheme, Integration())
        stream = replace(stream, core=replace(stream.core, registers=DEEP))
        found[f"hbm deep {scheme}"] = (f"deca_tepl,tepl_entries={DEEP}", scheme, stream)
    for kind, degree in PREFETCHERS:
        how = Integration(prefetch=kind, degree=degree)  # type: ignore[arg-type]
        row = f"table5 {kind} {degree}"
        found[row] = ("deca_tepl", "mxfp4", case("mxfp4", how))
        found[f"{row} as_published"] = ("deca_tepl:as_published", *found[row][1:])
    for scheme in ABLATION_SCHEMES:
        for step, how in enumerate(ABLATION):
            block = "deca_tepl" if how.tepl else "deca"
            found[f"fig16 {step} {scheme}"] = (block, scheme, case(scheme, how))
    for row in DROPPING if tiles >= TILES else ():
        block, scheme, stream = found[row]
        found[row] = (block, scheme, replace(stream, tiles=LONG))
    return found


def measure_rates(
    tiles: int = TILES, simulation: Simulation = DEFAULT
) -> tuple[dict[str, Any], ...]:
    """Measure every row of the record; one that is not the model's, event for event, is an error.

    A row has the name of its table or figure, block and scheme, the cycles between two tiles as
    measured and by the model, and the lines that the stream has read.
    """
    cases = rate_cases(tiles, simulation.seed)
    blocks = sorted({block for block, _, _ in cases.values()})
    rows: dict[str, dict[str, Any]] = {}
    with progress("deca.rates", len(blocks)) as tick:
        for block in blocks:
            tick(block, steps=0)
            names = [name for name, (of, _, _) in cases.items() if of == block]
            runs = measure_streams(block, [cases[n][2] for n in names], simulation=simulation)
            for name, run in zip(names, runs, strict=True):
                rows[name] = _row(name, cases[name][1], run)
            tick()
    wrong = [r for r in rows.values() if r["equal_tiles"] < r["tiles"] or not r["equal_requests"]]
    if wrong:
        worst = wrong[0]
        raise CheckError(
            f"{len(wrong)} of {len(rows)} streams differ from the model; of {worst['name']!r}"
            f" {worst['equal_tiles']} of {worst['tiles']} tiles are equal"
        )
    return tuple(rows[name] for name in cases)


def _row(name: str, scheme: str, run: StreamRun) -> dict[str, Any]:
    same = "equal_tiles", "equal_requests", "lines_read", "lines_missed", "lines_prefetched"
    return {
        **{"name": name, "block": run.block, "scheme": scheme, "tiles": run.case.tiles},
        "cycles_per_tile": run.interval,
        "model_cycles_per_tile": run.model_interval,
        **{key: getattr(run, key) for key in same},
    }
