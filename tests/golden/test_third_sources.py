"""Every block's golden function has been compared with a source that is not ours.

A golden function without one can be wrong together with the RTL written after it. A source is
exact rational arithmetic, the arithmetic of numpy or ml_dtypes, Python's integers, a real
processor, or code so plain that it is a definition.
"""

from importlib import import_module
from inspect import isfunction

import pytest

from tilewright.golden.params.resolve import BLOCKS

INTEGER = "test_integer"
DECA = ("test_deca_decompress::test_bf16_scaling_equals_fractions",)
DECA += ("test_deca_scheme::test_nf4_is_quantiles_of_a_normal_distribution",)
STREAM = ("test_naive::test_streams_are_lists_of_integers",)
BFP = "test_bfp::test_encode_and_decode_exactly"  # fractions
PLANES = "test_planes::test_words_hold_sign_then_planes_from_the_top"

# Block -> the tests, module::function in tests/golden, that compare its golden function.
THIRD_SOURCES = {
    "register_slice": STREAM,
    "queue": STREAM,
    "fork": STREAM,
    "join": STREAM,
    "width_converter": STREAM,
    "arbiter": STREAM,
    "float_unpack": ("test_bits::test_unpack_is_normalised_and_exact",),
    "float_round": ("test_bits::test_round_pack_against_fractions",),
    "float_mul": ("test_arith::test_millions_of_pairs_of_fp32_as_numpy_does",),
    "float_add": ("test_arith::test_millions_of_pairs_of_fp32_as_numpy_does",),
    "float_fma": ("test_arith::test_fma_of_fp32_against_fractions",),
    "float_convert": ("test_arith::test_convert_every_pattern",),
    "int_to_float": ("test_arith::test_int_to_float",),
    "leading_zeros": (f"{INTEGER}::test_leading_zeros",),
    "shifter": (f"{INTEGER}::test_shift",),
    "adder_tree": (f"{INTEGER}::test_adder_tree_is_exact",),
    "prefix_sum": (f"{INTEGER}::test_popcount_and_prefix_sum_of_every_mask",),
    "popcount": (f"{INTEGER}::test_popcount_and_prefix_sum_of_every_mask",),
    "expand": (f"{INTEGER}::test_expand_of_every_mask",),
    "max_tree": (f"{INTEGER}::test_max_tree",),
    "deca": DECA,
    "deca_axi": DECA,
    "deca_tepl": DECA,
    "anda": (
        "test_anda_gemm::test_dot_equals_fractions",
        "test_anda_machine_programs::test_recipes_compute_what_they_are_called",
    ),
    "anda_axi": (
        "test_anda_gemm::test_dot_equals_fractions",
        "test_anda_machine_programs::test_recipes_compute_what_they_are_called",
    ),
    "anda_vector": (
        "test_program_vector::test_error_over_every_pattern",
        "test_program_vector::test_arithmetic_is_ieee",
    ),
    "anda_compressor": (BFP, PLANES),
    "anda_compressor_lane": (BFP, PLANES),
    "anda_apu": ("test_anda_gemm::test_dot_equals_fractions",),
    "anda_mxu": ("test_anda_gemm::test_dot_equals_fractions",),
    "pe_fp_fp": (
        "test_pe::test_fused_products_of_floats",
        "test_pe::test_discrete_products_of_floats_are_numpy_sums",
    ),
    "pe_fp_int": (
        "test_pe::test_exact_sums_of_floats_and_integers",
        "test_pe::test_products_of_floats_and_integers",
    ),
    "pe_ifpu": ("test_pe::test_aligned_groups",),
    "pe_figna": ("test_pe::test_aligned_groups",),
    "pe_figna_c": ("test_pe::test_chunked_groups",),
    "pe_deca": ("test_pe::test_deca_lanes_are_numpy_sums",),
    "figna_aligner": (BFP, "test_pe::test_alignment_is_that_of_block_floating_point"),
    "harmonia": (
        "test_harmonia_gemm::test_one_group_equals_exact_arithmetic",
        "test_naive::test_harmonia_array_in_numpy_floats",
        "test_program_vector::test_arithmetic_is_ieee",
    ),
    "harmonia_axi": (
        "test_harmonia_gemm::test_one_group_equals_exact_arithmetic",
        "test_naive::test_harmonia_array_in_numpy_floats",
        "test_program_vector::test_arithmetic_is_ieee",
    ),
    "harmonia_converter": (
        BFP,
        "test_harmonia_converter::test_rows_are_groups_in_time",
        "test_harmonia_converter::test_columns_are_groups_in_space",
    ),
    "harmonia_offset": ("test_naive::test_offsets_in_numpy_halves",),
    "harmonia_array": ("test_naive::test_harmonia_array_in_numpy_floats",),
    "int8_quantiser": (
        "test_int8_quantiser::test_codes_are_the_nearest_but_for_the_factors_last_bits",
    ),
    "harmonia_pe": ("test_naive::test_harmonia_pe_in_numpy_floats",),
}


def test_every_block_has_a_third_source():
    """A block that is missing here needs a test of its golden function in tests/golden."""
    assert set(THIRD_SOURCES) == set(BLOCKS)
    assert all(THIRD_SOURCES.values())


@pytest.mark.parametrize("name", sorted({n for names in THIRD_SOURCES.values() for n in names}))
def test_the_source_is_a_test_that_is_collected(name):
    module, _, function = name.partition("::")
    assert module.startswith("test_") and function.startswith("test_")
    found = getattr(import_module(f"tests.golden.{module}"), function)
    assert isfunction(found)
    # What runs in the long runs alone would not be seen to fail.
    assert "full" not in {mark.name for mark in getattr(found, "pytestmark", [])}
