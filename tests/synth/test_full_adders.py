"""Polarity of full adders."""

import json
import os
import subprocess
import sys

import pytest
from amaranth.back import rtlil

from tilewright.synth.flow import Goal, synthesise
from tilewright.synth.full_adders import inverted_adders
from tilewright.synth.reference import REFERENCE_DESIGNS
from tilewright.synth.technology import load_technology


def design(*cells):
    """Full adders (name, operands, sum) and inverters (operand, inverse); carries go nowhere."""
    named = {}
    for k, cell in enumerate(cells):
        if len(cell) == 2:
            a, y = cell
            named[f"not{k}"] = {"type": "$_NOT_", "connections": {"A": [a], "Y": [y]}}
        else:
            name, operands, y = cell
            pins = {port: [bit] for port, bit in zip("ABC", operands, strict=True)}
            named[name] = {"type": "$fa", "connections": {**pins, "X": [1000 + k], "Y": [y]}}
    return json.dumps({"modules": {"top": {"cells": named}}})


@pytest.mark.parametrize(
    ("cells", "inverted"),
    [
        # From gates inverted operands are cheap; then they alternate.
        ([("a", (2, 3, 4), 5), ("b", (5, "0", "1"), 6), ("c", (6, "0", "0"), 7)], {"a", "c"}),
        # An inverter between two of them changes what the second one gets.
        ([("a", (2, 3, 4), 5), (5, 6), ("b", (6, "0", "0"), 7)], {"a", "b"}),
        # Two of three operands decide.
        ([("a", (2, 3, 4), 5), ("b", (2, 3, 8), 6), ("c", (5, 6, 9), 7)], {"a", "b"}),
        # An inverter that is there already costs nothing: behind a, for b.
        (
            [
                ("a", (2, 3, 4), 10),
                ("b", (10, 2, 3), 11),  # two gates outweigh one inverter, if only just
                ("c", (10, "0", 11), 12),
            ],
            {"a", "b"},
        ),
    ],
)
def test_form_of_each_adder(cells, inverted):
    assert inverted_adders(design(*cells)) == inverted
    assert inverted_adders(design(*reversed(cells))) == inverted


_PROGRAM = (
    "import sys; from tilewright.synth.full_adders import inverted_adders;"
    "print(*sorted(inverted_adders(sys.stdin.read())))"
)


def test_the_order_of_python_sets_does_not_matter():
    """That order is another in every process: eight adders of a prefix sum where it showed."""
    cells = design(
        ("a", (2, 3, 4), 6),
        ("b", (7, 8, 9), 11),
        ("c", (12, 13, 14), 7),
        ("d", (6, 7, 16), 18),
        ("e", (19, 20, 11), 22),
        ("f", (8, 20, 18), 24),
        ("g", (25, 26, 27), 8),
        ("h", (29, 30, 31), 20),
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            input=cells,
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(4)
    }
    assert len(answers) == 1


def test_few_inverters_are_left_in_a_multiplier():
    """ASAP7's full adder gives both results inverted: two inverters each, if nothing were done."""
    technology = load_technology("asap7")
    text = rtlil.convert(REFERENCE_DESIGNS["multiplier"](), name="multiplier", emit_src=False)
    netlist = synthesise(text, "multiplier", technology, Goal.AREA).netlist
    adders = [i for i in netlist.instances if i.cell.name.startswith("FA")]
    results = {i.pins[pin] for i in adders for pin in i.cell.outputs}
    inverters = [i for i in netlist.instances if i.cell.name.startswith("INV")]
    behind = sum(i.pins["A"] in results for i in inverters)
    assert len(adders) > 20
    assert behind < len(adders) / 2
