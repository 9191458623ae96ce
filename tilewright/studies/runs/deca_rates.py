"""The rates of DECA that the performance model states, measured on its Verilog: a record.

Streams of each scheme with every line in the L2, Table 5 of the DECA paper (prefetchers) and
Figure 16 (how a core and its DECA work together), with the memory and the core of the model.
"""

from dataclasses import dataclass, replace
from typing import Any

from tilewright.base.console import progress
from tilewright.base.errors import CheckError
from tilewright.golden.deca.memory import MemoryParams
from tilewright.sim.deca_stream import Integration
from tilewright.sim.evaluations.deca import ABLATION, ABLATION_SCHEMES, HBM
from tilewright.sim.scheme import resolve_weight_scheme
from tilewright.studies.runs.deca_stream import StreamRun, measure_streams
from tilewright.studies.runs.simulation import DEFAULT, Simulation
from tilewright.verify.deca.stream_case import StreamCase

__all__ = ["RECORD", "Rate", "measure_rates", "rate_cases"]

RECORD = "deca_rates"
TILES = 120
SETTLING = 4  # times as many tiles where a prefetcher far ahead takes long to settle
PLAIN = ("bf8_5%", "bf8_10%", "bf8_20%", "bf8_30%", "bf8_50%", "bf8", "mxfp4", "bf16_50%")
PREFETCHERS = (("none", 0), ("l2", 0), ("deca", 1), ("deca", 5), ("deca", 15))


@dataclass(frozen=True, kw_only=True)
class Rate:
    """One stream, measured and by the model."""

    name: str  # table or figure, and which of its cases
    block: str
    scheme: str
    tiles: int
    cycles_per_tile: float  # between two products in the middle of the stream
    model_cycles_per_tile: float  # of these very tiles
    equal_tiles: int  # every event of the tile is in the model's cycle
    equal_requests: bool  # as is every request for a line
    lines_read: int
    lines_missed: int
    lines_prefetched: int


def rate_cases(tiles: int = TILES, seed: int = 1) -> dict[str, tuple[str, str, StreamCase]]:
    """Block, scheme and stream of every row of the record."""
    share = HBM.bytes_per_cycle(HBM.cores)

    def case(scheme: str, how: Integration) -> StreamCase:
        found = resolve_weight_scheme(scheme)
        return StreamCase(
            scheme=scheme.partition("_")[0],
            density=float(found.density) if found.density < 1 else None,
            tiles=SETTLING * tiles if how.tepl else tiles,
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
    for kind, degree in PREFETCHERS:
        how = Integration(prefetch=kind, degree=degree)  # type: ignore[arg-type]
        found[f"table5 {kind} {degree}"] = ("deca_tepl", "mxfp4", case("mxfp4", how))
    for scheme in ABLATION_SCHEMES:
        for step, how in enumerate(ABLATION):
            block = "deca_tepl" if how.tepl else "deca"
            found[f"fig16 {step} {scheme}"] = (block, scheme, case(scheme, how))
    return found


def measure_rates(tiles: int = TILES, simulation: Simulation = DEFAULT) -> tuple[Rate, ...]:
    """Measure every row; a row that is not the model's, event for event, is an error."""
    cases = rate_cases(tiles, simulation.seed)
    rates: dict[str, Rate] = {}
    blocks = sorted({block for block, _, _ in cases.values()})
    with progress("deca.rates", len(blocks)) as tick:
        for block in blocks:
            tick(block, steps=0)
            rows = {name: row for name, row in cases.items() if row[0] == block}
            runs = measure_streams(block, [row[2] for row in rows.values()], simulation=simulation)
            for (name, row), run in zip(rows.items(), runs, strict=True):
                rates[name] = _rate(name, row[1], run)
            tick()
    wrong = [r for r in rates.values() if r.equal_tiles < r.tiles or not r.equal_requests]
    if wrong:
        worst = wrong[0]
        raise CheckError(
            f"{len(wrong)} of {len(rates)} streams differ from the model; of {worst.name!r}"
            f" {worst.equal_tiles} of {worst.tiles} tiles are equal"
        )
    return tuple(rates[name] for name in cases)


def _rate(name: str, scheme: str, run: StreamRun) -> Rate:
    return Rate(
        name=name,
        block=run.block,
        scheme=scheme,
        tiles=run.case.tiles,
        cycles_per_tile=run.interval,
        model_cycles_per_tile=run.model_interval,
        equal_tiles=run.equal_tiles,
        equal_requests=run.equal_requests,
        lines_read=run.lines_read,
        lines_missed=run.lines_missed,
        lines_prefetched=run.lines_prefetched,
    )


def as_record(rates: tuple[Rate, ...], command: str, seed: int) -> dict[str, Any]:
    """Return what the record holds."""
    return {"command": command, "seed": seed, "rates": rates}
