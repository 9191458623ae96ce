"""One planted error per unit of the catalogue: the simulator harness must catch every one."""

import pytest

from tests.support.drive import catalogued_units, simulate
from tests.support.mutate import mutant_of
from tilewright.golden.params.resolve import resolve

# Block, its parameters, and an expression of its source with what replaces it.
ERRORS = {
    "register_slice": ("register_slice", "word.eq(self.spare)", "word.eq(given)"),
    "queue": ("queue:tiny", "level != depth", "level <= depth"),
    "float_unpack": (
        "float_unpack",
        "operand.biased - fmt.bias - zeros",
        "operand.biased - fmt.bias",
    ),
    "float_round": ("float_round", "x.guard & either(", "x.guard | either("),
    "float_mul": ("float_mul", "a.sign ^ b.sign", "a.sign | b.sign"),
    "float_add": ("float_add", "total[-1] & ~x.subtract", "total[-1]"),
    "float_convert": ("float_convert", "nan=a.nan", "nan=None"),
    "int_to_float": ("int_to_float", "Mux(negative, -x.a, x.a)", "Mux(negative, ~x.a, x.a)"),
    "leading_zeros": ("leading_zeros", "Mux(high_empty, low, high)", "Mux(low_empty, high, low)"),
    "shifter": ("shifter", "sticky | lost", "lost"),
    "adder_tree": ("adder_tree", "import add", "import or_ as add"),
    "prefix_sum": ("prefix_sum", "(k + 1).bit_length()", "k.bit_length()"),
    "popcount": ("popcount", "import add", "import xor as add"),
    "expand": ("expand", "Mux(keep, word, 0)", "word"),
    "max_tree": ("max_tree", "a > b", "a >= 16"),
    "anda_vector": ("anda_vector", "Mux(s1_active, value, 0)", "value"),
    "pe_fp_fp": ("pe_fp_fp:small", "a.biased + w.biased", "a.biased | w.biased"),
    "pe_fp_int": ("pe_fp_int:small", "carried[bits:] | flags", "flags"),
    "pe_ifpu": ("pe_ifpu:small", "activation[-1] ^ (place == top)", "activation[-1]"),
    "pe_figna": ("pe_figna:small", "+ styled_sum(signs, adder)", ""),
    "pe_figna_c": ("pe_figna_c:small", "placed >> distance", "placed"),
    "pe_deca": ("pe_deca:small", "terms[0::2], terms[1::2]", "terms[0::2], terms[0::2]"),
    "harmonia_pe": ("harmonia_pe:small", "Mux(low, serial.total, 0)", "0"),
    "figna_aligner": ("figna_aligner:small", "full | filled", "filled"),
}


def test_every_unit_has_a_planted_error():
    assert set(ERRORS) == set(catalogued_units())


@pytest.mark.parametrize("block", ERRORS)
def test_planted_error_is_caught(block):
    text, old, new = ERRORS[block]
    params = resolve(text)
    with pytest.raises((AssertionError, TimeoutError)):
        simulate(params, cases=100, stalls=(0.0, 0.3), dut=mutant_of(params, old, new))


def test_a_wrong_value_after_reset_is_caught():
    """Words are there in the first cycle, which the bench on Verilog begins without any."""
    params = resolve("register_slice:tiny")
    wrong = mutant_of(params, "valid = Signal()", "valid = Signal(init=1)")
    with pytest.raises((AssertionError, TimeoutError)):
        simulate(params, cases=20, dut=wrong)
