"""The workloads of DECA that ``tilewright simulate`` runs: ``deca.gemm`` and others."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.base.table import Column, Table, cell
from tilewright.cli.options import option
from tilewright.cli.workloads import UPDATE, Outcome, add_simulation, finish, simulation_of


@dataclass(frozen=True)
class Workload:
    """A command, with what the module of a command has."""

    NAME: str
    HELP: str
    EXAMPLE: str
    work: Callable[[argparse.Namespace], Outcome]
    block: str  # on which it runs by default
    options: Sequence[tuple[Any, ...]] = ()  # words, help, default, type

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of the workload."""
        for declared in self.options:
            words, text, *rest = declared
            option(parser, words, text, **dict(zip(("default", "type"), rest, strict=False)))
        add_simulation(parser, self.block)

    def run(self, args: argparse.Namespace) -> int:
        """Print the outcome and write it down if asked to; return the exit code."""
        return finish(args, self.NAME, self.work(args))


def _values(record: Any, columns: Mapping[str, Column]) -> Table:
    """A row for each value of one record."""
    return Table(
        ("", "VALUE"), [(title, cell(record, column)) for title, column in columns.items()]
    )


def _gemm(args: argparse.Namespace) -> Outcome:
    from tilewright.studies.runs.deca_gemm import DecaMemory, gemm_on_deca

    done = gemm_on_deca(
        args.block or "deca",
        m=args.m,
        k=args.k,
        n=args.n,
        scheme=args.scheme,
        density=args.density,
        memory=DecaMemory(args.latency, args.prefetch, args.near),
        simulation=simulation_of(args),
    )
    m, k, n = done.shape
    verdict = "equals golden's" if done.equal else f"differs in {done.wrong} values"
    density = "" if done.density is None else f" at density {done.density:g}"
    columns = {
        "tiles": "tiles:,",
        "bytes": "bytes:,",
        "cycles": "cycles:,",
        "cycles/tile": "cycles_per_tile:.2f",
        "vector operations/tile": "vector_operations_per_tile:.2f",
        "bubbles/tile": "bubbles_per_tile:.2f",
        "lines read": "lines_read:,",
        "lines prefetched": "lines_prefetched:,",
        "of these read later": "prefetch_accuracy:.1%",
        "reads that found a prefetched line": "read_after_prefetch:.1%",
    }
    heading = f"{m}x{k} {done.scheme}{density} times {k}x{n} on {done.block}: {verdict}"
    return Outcome(done, _values(done, columns), heading, done.equal)


def _layer(args: argparse.Namespace) -> Outcome:
    from tilewright.studies.runs.deca_gemm import DecaMemory, layer_on_deca

    done = layer_on_deca(
        args.block or "deca",
        model=args.model,
        layer=args.layer,
        schemes=args.schemes.split(","),
        memory=DecaMemory(args.latency),
        simulation=simulation_of(args),
    )
    columns = {
        "matrix": "matrix",
        "shape": "shape",
        "scheme": "scheme",
        "density": "density:g",
        "tiles": "tiles:,",
        "bytes": "bytes:,",
        "cycles": "cycles:,",
        "cycles/tile": "cycles_per_tile:.2f",
        "equal": "equal",
    }
    rows = [vars(m) | {"shape": "x".join(map(str, m.shape[:2]))} for m in done.matrices]
    verdict = "equal golden's" if done.equal else "DIFFER from golden's"
    heading = f"layer {done.layer} of {done.model} on {done.block}: GEMMs {verdict}"
    options = f"--schemes {args.schemes} "
    return Outcome(done, Table.of(rows, columns), heading, done.equal, vars(done), options)


def _stream(args: argparse.Namespace) -> Outcome:
    from tilewright.golden.deca.core import CoreParams
    from tilewright.golden.deca.memory import MemoryParams
    from tilewright.studies.runs.deca_rates import measure_streams
    from tilewright.verify.deca.workload import StreamCase

    if args.l2_prefetch and args.degree:
        raise CommandError("--l2-prefetch takes --degree 0: one prefetcher at a time")
    if args.density is not None and not 0 <= args.density <= 1:
        raise CommandError(f"--density must be 0..1, not {args.density:g}")
    memory = MemoryParams(
        l2_latency=args.near,
        latency=args.latency,
        bytes_per_cycle=_share(args.bandwidth),
        l2_prefetch=args.l2_prefetch,
    )
    case = StreamCase(
        scheme=args.scheme,
        density=args.density,
        tiles=args.tiles,
        seed=args.seed,
        degree=args.degree,
        memory=memory,
        core=CoreParams(matrix_cycles=args.matrix),
    )
    (done,) = measure_streams(args.block or "deca_tepl", [case], simulation=simulation_of(args))
    columns = {
        "tiles": "tiles:,",
        "cycles between two tiles": "interval:.2f",
        "the same in the model": "model_interval:.2f",
        "tiles whose every event is in the model's cycle": "equal_tiles:,",
        "requests for lines in the model's cycles": "equal_requests",
        "lines read": "lines_read:,",
        "of these missed": "lines_missed:,",
        "lines prefetched": "lines_prefetched:,",
        "prefetches dropped": "prefetches_dropped:,",
    }
    table = _values(vars(done) | {"tiles": case.tiles}, columns)
    return Outcome(done.as_dict(), table, equal=done.equal)


def _share(text: str | None) -> Fraction | None:
    try:
        return None if text is None else Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise CommandError(f"--bandwidth is a number such as 5.74, not {text!r}") from None


def _rates(args: argparse.Namespace) -> Outcome:
    from tilewright.studies.runs.deca_rates import measure_rates

    if args.block:
        raise CommandError("deca.rates runs on deca_tepl and deca of the paper: leave out --block")
    data = {"seed": args.seed, "rates": measure_rates(args.tiles, simulation_of(args))}
    columns = {
        "stream": "name",
        "block": "block",
        "scheme": "scheme",
        "tiles": "tiles",
        "cycles/tile": "cycles_per_tile:.2f",
        "model": "model_cycles_per_tile:.2f",
        "lines": "lines_read",
        "missed": "lines_missed",
    }
    table = Table.of(data["rates"], columns)
    return Outcome(data, table, record=data, options=f"--tiles {args.tiles} ")


def _cycles(args: argparse.Namespace) -> Outcome:
    from tilewright.studies.runs.deca_tiles import measure_cycles

    _require_every_preset(args)
    tables = measure_cycles(args.block, cases=args.cases, simulation=simulation_of(args))
    columns = {
        "block": "block",
        "code bits": "code_bits",
        "scale": "scale",
        "tile": "tile",
        "density": "density:g",
        "tiles": "tiles",
        "measured": "measured:.4f",
        "model": "model:.4f",
        "formula": "formula:.4f",
    }
    rows = [
        row | {"block": block, "tile": "int8" if row["int8"] else "bf16"}
        for block, table in tables.items()
        for row in table
    ]
    return Outcome(
        {"seed": args.seed, "cycles_by_block": tables},
        Table.of(rows, columns),
        record={"seed": args.seed, "blocks": tables},
        options=f"--cases {args.cases} ",
    )


def _coverage(args: argparse.Namespace) -> Outcome:
    from tilewright.studies.runs.deca_tiles import cover_tiles

    _require_every_preset(args)
    found = cover_tiles(args.block, simulation=simulation_of(args))
    columns = {
        "block": "block",
        "combinations seen": "seen:,",
        "of": "all:,",
        "tiles": "cases:,",
    }
    rows = [
        one | {"block": block, "seen": sum(map(bool, one["hits"])), "all": len(one["hits"])}
        for block, one in found.items()
    ]
    return Outcome(
        {"seed": args.seed, "coverage_by_block": found},
        Table.of(rows, columns),
        record={"seed": args.seed, "blocks": found},
    )


def _require_every_preset(args: argparse.Namespace) -> None:
    if args.update_record and args.block:
        raise CommandError("--update-record measures every preset: leave out --block")


LATENCY = ("--latency CYCLES", "latency of the memory", 100)
SCHEME = ("--scheme SCHEME", "weight format, as for tilewright pack", "bf8")
DENSITY = ("--density D", "share of nonzero weights [all]", None, float)


WORKLOADS = (
    Workload(
        "deca.coverage",
        "functional coverage of DECA: combinations of properties of tiles, a hole fails",
        "tilewright simulate deca.coverage --block deca:small",
        _coverage,
        "every preset",
        [UPDATE],
    ),
    Workload(
        "deca.cycles",
        "cycles per tile of DECA with data there",
        "tilewright simulate deca.cycles --block deca:small --cases 70",
        _cycles,
        "every preset",
        [("--cases N", "tiles", 1000), UPDATE],
    ),
    Workload(
        "deca.gemm",
        "a compressed matrix multiplication on DECA",
        "tilewright simulate deca.gemm --block deca:small --m 40 --k 200 --n 5",
        _gemm,
        "deca",
        [
            ("--m M", "rows of weights", 256),
            ("--k K", "columns of weights", 1024),
            ("--n N", "activation vectors", 16),
            SCHEME,
            DENSITY,
            ("--prefetch DEGREE", "tiles ahead, 0..15", 8),
            ("--near CYCLES", "latency of a prefetched line", 14),
            LATENCY,
        ],
    ),
    Workload(
        "deca.layer",
        "the weights of a real decoder layer on DECA",
        "tilewright simulate deca.layer --model tiny-llama --block deca:small --schemes bf8@0.5",
        _layer,
        "deca",
        [
            (
                "--schemes NAME[@DENSITY],...",
                "weight formats, as for tilewright pack; each stores all weights",
                "mxfp4,bf8@0.5",
            ),
            ("--model MODEL", "GGUF file, Hugging Face folder or name", "smollm2"),
            ("--layer L", "layer of the model", 0),
            LATENCY,
            UPDATE,
        ],
    ),
    Workload(
        "deca.rates",
        "rates of DECA with core and memory: schemes, prefetchers, integration",
        "tilewright simulate deca.rates --tiles 30",
        _rates,
        "deca_tepl and deca",
        [("--tiles N", "tiles of a stream with every line in the L2", 120), UPDATE],
    ),
    Workload(
        "deca.stream",
        "a stream of tiles through core, DECA and memory, cycle by cycle",
        "tilewright simulate deca.stream --block deca --scheme bf8 --density 0.2 --tiles 40",
        _stream,
        "deca_tepl",
        [
            SCHEME,
            DENSITY,
            ("--tiles N", "length of the stream", 200),
            ("--degree D", "tiles prefetched ahead, 0..15", 5),
            ("--near CYCLES", "latency of a line in the L2", 14),
            ("--latency CYCLES", "extra latency of an L2 miss", 261),
            ("--bandwidth BYTES", "bytes per cycle of memory for this core [no limit]"),
            ("--matrix CYCLES", "cycles of the matrix unit per tile", 16),
            ("--l2-prefetch", "the L2's own prefetcher instead, --degree 0"),
        ],
    ),
)
