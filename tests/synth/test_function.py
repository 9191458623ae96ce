"""Boolean functions in Liberty's notation."""

import re

import pytest

from tilewright.synth.function import parse_function, truth_table

ABC = ("A", "B", "C")


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("A", 0b10101010),
        ("!A", 0b01010101),
        ("A'", 0b01010101),
        ("A B", 0b10001000),
        ("A * B + C", 0b11111000),
        ("A + B * C", 0b11101010),  # and binds tighter than or
        ("A & B ^ C", 0b00101000),  # xor binds tighter than and
        ("!A ^ B", 0b10011001),
        ("!(A | B | C)", 0b00000001),
        ("(A&!B&!C) | (!A&B&!C) | (!A&!B&C) | (A&B&C)", 0b10010110),
        ("(A + B)' C", 0b00010000),
        ("1", 0b11111111),
        ("0", 0),
        ("A & 1 | 0", 0b10101010),
    ],
)
def test_truth_table(text, table):
    assert truth_table(parse_function(text), ABC) == table


def test_verilog_keeps_the_structure():
    assert parse_function("!(A1 * A2) + B' C").verilog == "(~(A1 & A2) | (~B & C))"


def test_pins_in_order_of_appearance():
    assert parse_function("(C & A) | !C").pins == ("C", "A")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A +", "function 'A +' ends too early"),
        ("(A", "function '(A': missing )"),
        ("A ? B", "function 'A ? B': unexpected '?'"),
        ("A )", "function 'A )': unexpected ')'"),
        ("", "function '' ends too early"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_function(text)
