"""Benches of blocks, one file per family, and the table that finds the bench of a block."""

from importlib import import_module
from typing import TypeVar

from tilewright.golden.params.block import BlockParams
from tilewright.verify.bench import Bench, StreamBench, SystemBench

__all__ = ["BENCHES", "bench_of", "cocotb_tests", "register", "stream_bench_of"]

P = TypeVar("P", bound=BlockParams)

# Memories have what earlier tests left: programs of errors store unwritten rows, and so
# run before whole models.
_PROGRAMS = tuple(f"machine.{name}" for name in ("errors", "registers", "streams", "models"))
# Names, not classes: a simulation of one block does not import the benches of all the others.
_HERE = "tilewright.verify.benches"
BENCHES: dict[str, str | Bench] = {
    "register_slice": f"{_HERE}.stream:RegisterSliceBench",
    "queue": f"{_HERE}.stream:QueueBench",
    "float_unpack": f"{_HERE}.arith:FloatUnpackBench",
    "float_round": f"{_HERE}.arith:FloatRoundBench",
    "float_mul": f"{_HERE}.arith:FloatMulBench",
    "float_add": f"{_HERE}.arith:FloatAddBench",
    "float_convert": f"{_HERE}.arith:FloatConvertBench",
    "int_to_float": f"{_HERE}.arith:IntToFloatBench",
    "leading_zeros": f"{_HERE}.arith:LeadingZerosBench",
    "shifter": f"{_HERE}.arith:ShifterBench",
    "adder_tree": f"{_HERE}.arith:AdderTreeBench",
    "prefix_sum": f"{_HERE}.arith:PrefixSumBench",
    "popcount": f"{_HERE}.arith:PopcountBench",
    "expand": f"{_HERE}.arith:ExpandBench",
    "max_tree": f"{_HERE}.arith:MaxTreeBench",
    "deca": SystemBench(
        *("deca.results", "deca.combinations", "deca.cycles", "deca.errors", "deca.squash"),
        *("deca.registers", "deca.prefetch"),
        exhaustible=True,  # every combination of tilewright.verify.deca.workload
    ),
    "deca_axi": SystemBench("deca.axi"),
    "deca_tepl": SystemBench("deca.tepl"),
    "anda": SystemBench("machine.programs", "anda_machine.tests", *_PROGRAMS),
    "anda_axi": SystemBench("machine.axi"),
    "harmonia_axi": SystemBench("machine.axi"),
    "anda_vector": f"{_HERE}.vector:VectorBench",
    "anda_compressor": f"{_HERE}.anda:AndaCompressorBench",
    "anda_compressor_lane": f"{_HERE}.anda:AndaCompressorLaneBench",
    "anda_apu": f"{_HERE}.anda:AndaApuBench",
    "anda_mxu": f"{_HERE}.anda:AndaMxuBench",
    "pe_fp_fp": f"{_HERE}.pe:FpFpBench",
    "pe_fp_int": f"{_HERE}.pe:FpIntBench",
    "pe_ifpu": f"{_HERE}.pe:IfpuBench",
    "pe_figna": f"{_HERE}.pe:FignaBench",
    "pe_figna_c": f"{_HERE}.pe:FignaChunkBench",
    "pe_deca": f"{_HERE}.pe:DecaLaneBench",
    "figna_aligner": f"{_HERE}.pe:FignaAlignerBench",
    "harmonia": SystemBench("machine.programs", "harmonia_machine.tests", *_PROGRAMS),
    "harmonia_converter": f"{_HERE}.harmonia:HarmoniaConverterBench",
    "harmonia_offset": f"{_HERE}.harmonia:HarmoniaOffsetBench",
    "harmonia_array": f"{_HERE}.harmonia:HarmoniaArrayBench",
    "int8_quantiser": f"{_HERE}.harmonia:Int8QuantiserBench",
    "harmonia_pe": f"{_HERE}.harmonia:HarmoniaPeBench",
}


def bench_of(params: BlockParams) -> Bench:
    """Return the bench of a block; a block without one is refused."""
    place = BENCHES.get(params.block)
    if place is None:
        raise ValueError(f"block {params.block} has no bench; see tilewright/verify/benches")
    if isinstance(place, Bench):
        return place
    module, _, name = place.partition(":")
    bench: Bench = getattr(import_module(module), name)()
    return bench


def stream_bench_of(params: P) -> StreamBench[P]:
    """Return the bench of a block that is driven by streams alone; others are refused."""
    bench = bench_of(params)
    if not isinstance(bench, StreamBench):
        raise ValueError(f"the bench of {params.block} has more than streams around the block")
    return bench


def cocotb_tests(params: BlockParams) -> str:
    """Return the modules with the cocotb tests of a block, separated by commas."""
    return ",".join(bench_of(params).tests)


def register(block: str, bench: type[Bench]) -> None:
    """Give a block from outside the catalogue its bench."""
    BENCHES[block] = f"{bench.__module__}:{bench.__qualname__}"
