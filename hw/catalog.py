"""Every component that can be built, by the block name of its parameter object."""

from importlib import import_module

from amaranth.lib import wiring

from tilewright.golden.params.block import BlockParams

# Names, not classes: a command about one block does not import all the others.
CATALOG = {
    "register_slice": "tilewright.hw.stream.register_slice:RegisterSliceBlock",
    "queue": "tilewright.hw.stream.queue:QueueBlock",
    "float_unpack": "tilewright.hw.arith.float_unpack:FloatUnpack",
    "float_round": "tilewright.hw.arith.float_round:FloatRound",
    "float_mul": "tilewright.hw.arith.float_mul:FloatMul",
    "float_add": "tilewright.hw.arith.float_add:FloatAdd",
    "float_convert": "tilewright.hw.arith.float_convert:FloatConvert",
    "int_to_float": "tilewright.hw.arith.int_to_float:IntToFloat",
    "leading_zeros": "tilewright.hw.arith.leading_zeros:LeadingZeros",
    "shifter": "tilewright.hw.arith.shifter:Shifter",
    "adder_tree": "tilewright.hw.arith.adder_tree:AdderTree",
    "prefix_sum": "tilewright.hw.arith.prefix_sum:PrefixSum",
    "popcount": "tilewright.hw.arith.popcount:Popcount",
    "expand": "tilewright.hw.arith.expand:Expand",
    "max_tree": "tilewright.hw.arith.max_tree:MaxTree",
    "deca": "tilewright.hw.deca.pe:DecaPE",
    "deca_axi": "tilewright.hw.deca.axi:DecaAxi",
    "deca_tepl": "tilewright.hw.deca.tepl_pe:DecaTepl",
    "anda": "tilewright.hw.anda_machine.top:Anda",
    "anda_axi": "tilewright.hw.machine.axi:MachineAxi",
    "harmonia_axi": "tilewright.hw.machine.axi:MachineAxi",
    "anda_vector": "tilewright.hw.machine.vector_unit:VectorUnit",
    "anda_compressor": "tilewright.hw.anda.compressor:Compressor",
    "anda_compressor_lane": "tilewright.hw.anda.compressor_lane:CompressorLane",
    "anda_apu": "tilewright.hw.anda.apu:Apu",
    "anda_mxu": "tilewright.hw.anda.mxu:Mxu",
    "pe_fp_fp": "tilewright.hw.pe.fp_fp:FpFp",
    "pe_fp_int": "tilewright.hw.pe.fp_int:FpInt",
    "pe_ifpu": "tilewright.hw.pe.ifpu:Ifpu",
    "pe_figna": "tilewright.hw.pe.figna:Figna",
    "pe_figna_c": "tilewright.hw.pe.figna_c:FignaChunk",
    "pe_deca": "tilewright.hw.pe.deca_lane:DecaLane",
    "pe_array": "tilewright.hw.pe.array:PeArray",
    "figna_aligner": "tilewright.hw.pe.aligner:FignaAligner",
    "harmonia": "tilewright.hw.harmonia_machine.top:Harmonia",
    "harmonia_converter": "tilewright.hw.harmonia.converter:Converter",
    "harmonia_offset": "tilewright.hw.harmonia.offset:OffsetGenerator",
    "harmonia_array": "tilewright.hw.harmonia.array:HarmoniaArray",
    "int8_quantiser": "tilewright.hw.harmonia.int8_quantiser:Int8Quantiser",
    "harmonia_pe": "tilewright.hw.harmonia.pe:HarmoniaPE",
}


def build(params: BlockParams) -> wiring.Component:
    """The component that ``params`` describes."""
    module, _, name = CATALOG[params.block].partition(":")
    return getattr(import_module(module), name)(params)


def register(block: str, component: type[wiring.Component]) -> None:
    """Give a block from outside the catalogue its component, which takes the parameter object."""
    CATALOG[block] = f"{component.__module__}:{component.__qualname__}"
