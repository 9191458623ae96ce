"""Every component that can be built, by the block name of its parameter object."""

from importlib import import_module

from amaranth.lib import wiring

from golden.params.block import BlockParams

__all__ = ["CATALOG", "build"]

# Names, not classes: a command about one block does not import all the others.
CATALOG = {
    "register_slice": "hw.stream.register_slice:RegisterSlice",
    "queue": "hw.stream.queue:Queue",
    "fork": "hw.stream.fork:Fork",
    "join": "hw.stream.join:Join",
    "width_converter": "hw.stream.width_converter:WidthConverter",
    "arbiter": "hw.stream.arbiter:Arbiter",
    "float_unpack": "hw.arith.float_unpack:FloatUnpack",
    "float_round": "hw.arith.float_round:FloatRound",
    "float_mul": "hw.arith.float_mul:FloatMul",
    "float_add": "hw.arith.float_add:FloatAdd",
    "float_fma": "hw.arith.float_fma:FloatFma",
    "float_convert": "hw.arith.float_convert:FloatConvert",
    "int_to_float": "hw.arith.int_to_float:IntToFloat",
    "leading_zeros": "hw.arith.leading_zeros:LeadingZeros",
    "shifter": "hw.arith.shifter:Shifter",
    "adder_tree": "hw.arith.adder_tree:AdderTree",
    "prefix_sum": "hw.arith.prefix_sum:PrefixSum",
    "popcount": "hw.arith.popcount:Popcount",
    "expand": "hw.arith.expand:Expand",
    "max_tree": "hw.arith.max_tree:MaxTree",
    "deca": "hw.deca.pe:DecaPE",
    "deca_axi": "hw.deca.axi:DecaAxi",
    "deca_tepl": "hw.deca.tepl_element:DecaTepl",
    "anda": "hw.anda_system.top:Anda",
    "anda_vector": "hw.anda_system.vector_unit:VectorUnit",
    "anda_compressor": "hw.anda.compressor:Compressor",
    "anda_compressor_lane": "hw.anda.compressor_lane:CompressorLane",
    "anda_apu": "hw.anda.apu:Apu",
    "anda_mxu": "hw.anda.mxu:Mxu",
    "pe_fp_fp": "hw.pe.fp_fp:FpFp",
    "pe_fp_int": "hw.pe.fp_int:FpInt",
    "pe_ifpu": "hw.pe.ifpu:Ifpu",
    "pe_figna": "hw.pe.figna:Figna",
    "pe_figna_c": "hw.pe.figna_c:FignaChunk",
    "pe_deca": "hw.pe.deca_lane:DecaLane",
    "figna_aligner": "hw.pe.aligner:FignaAligner",
    "harmonia": "hw.harmonia_system.top:Harmonia",
    "harmonia_converter": "hw.harmonia.converter:Converter",
    "harmonia_offset": "hw.harmonia.offset:OffsetGenerator",
    "harmonia_array": "hw.harmonia.array:HarmoniaArray",
    "int8_quantiser": "hw.harmonia.int8_quantiser:Int8Quantiser",
    "harmonia_pe": "hw.harmonia.element:HarmoniaElement",
}


def build(params: BlockParams) -> wiring.Component:
    """The component that ``params`` describes."""
    module, _, name = CATALOG[params.block].partition(":")
    return getattr(import_module(module), name)(params)
