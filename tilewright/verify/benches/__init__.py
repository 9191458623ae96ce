"""Benches of blocks, one file per family, and the table that finds the bench of a block."""

from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

from tilewright.golden.params.block import BlockParams
from tilewright.verify.bench import Bench, StreamBench

__all__ = ["BENCHES", "bench_of", "cocotb_tests", "register", "stream_bench_of"]

P = TypeVar("P", bound=BlockParams)

# Memories have what earlier tests left: programs of errors store unwritten rows, and so
# run before whole models.
_PROGRAMS = tuple(f"machine.{name}" for name in ("errors", "registers", "streams", "models"))
# Modules, not benches: a simulation of one block does not import the benches of all the others.
_FAMILIES = {
    "arith": (
        *("register_slice", "queue", "leading_zeros", "shifter", "adder_tree", "prefix_sum"),
        *("popcount", "expand", "max_tree", "float_unpack", "float_round", "float_mul"),
        *("float_add", "float_convert", "int_to_float"),
    ),
    "anda": ("anda_compressor", "anda_compressor_lane", "anda_apu", "anda_mxu", "anda_vector"),
    "pe": (
        *("pe_fp_fp", "pe_fp_int", "pe_ifpu", "pe_figna", "pe_figna_c", "pe_deca"),
        *("pe_array", "figna_aligner"),
    ),
    "harmonia": (
        *("harmonia_converter", "harmonia_offset", "harmonia_array", "harmonia_pe"),
        "int8_quantiser",
    ),
}
BENCHES: dict[str, str | Bench] = {
    **{block: family for family, blocks in _FAMILIES.items() for block in blocks},
    "deca": Bench(
        *("deca.tiles", "deca.combinations", "deca.cycles", "deca.control"),
        exhaustible=True,  # every combination of tilewright.verify.deca.workload
    ),
    "deca_axi": Bench("deca.axi"),
    "deca_tepl": Bench("deca.tepl"),
    "anda": Bench("machine.programs", "anda_machine.tests", *_PROGRAMS),
    "anda_axi": Bench("machine.axi"),
    "harmonia": Bench("machine.programs", "harmonia_machine.tests", *_PROGRAMS),
    "harmonia_axi": Bench("machine.axi"),
}


def bench_of(params: BlockParams) -> Bench:
    """Return the bench of a block; a block without one is refused."""
    found = BENCHES.get(params.block)
    if found is None:
        raise ValueError(f"block {params.block} has no bench; see tilewright/verify/benches")
    if isinstance(found, str):
        benches: dict[str, Bench] = import_module(f"{__name__}.{found}").BENCHES
        return benches[params.block]
    return found


def stream_bench_of(params: P) -> StreamBench[P]:
    """Return the bench of a block that is driven by streams alone; others are refused."""
    bench = bench_of(params)
    if not isinstance(bench, StreamBench):
        raise ValueError(f"the bench of {params.block} has more than streams around the block")
    return bench


def cocotb_tests(params: BlockParams) -> str:
    """Return the modules with the cocotb tests of a block, separated by commas."""
    return ",".join(bench_of(params).tests)


def register(block: str, bench: Callable[[], Bench]) -> None:
    """Give a block from outside the catalogue its bench."""
    BENCHES[block] = bench()
