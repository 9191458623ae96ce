"""A large reset of an ECP5 goes through a global buffer, and nothing else changes."""

import json

import pytest

from tilewright.synth.fpga import reset
from tilewright.synth.fpga.devices import find_device
from tilewright.synth.fpga.reset import buffer_reset

CLOCK, RESET, OTHER, ENABLE = 2, 3, 4, 5


def netlist(registers):
    """Registers that one net resets, one that another does, one that none does, and a LUT."""
    resets = [RESET] * registers + [OTHER, "0"]
    cells = {
        f"register{k}": {
            "type": "TRELLIS_FF",
            "port_directions": {"CLK": "input", "LSR": "input", "Q": "output"},
            "connections": {"CLK": [CLOCK], "LSR": [net], "Q": [10 + k]},
        }
        for k, net in enumerate(resets)
    }
    cells["lut"] = {
        "type": "LUT4",
        "port_directions": {"A": "input", "B": "input", "Z": "output"},
        "connections": {"A": [RESET], "B": [ENABLE], "Z": [OTHER]},
    }
    cells["driver"] = {
        "type": "TRELLIS_FF",
        "port_directions": {"CLK": "input", "LSR": "input", "Q": "output"},
        "connections": {"CLK": [CLOCK], "LSR": ["0"], "Q": [RESET]},
    }
    return json.dumps({"modules": {"top": {"cells": cells, "netnames": {}}}})


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(reset, "MOST_LOADS", 3)


@pytest.mark.usefixtures("few")
def test_all_that_the_reset_leads_to_is_behind_the_buffer():
    text = netlist(4)
    before = json.loads(text)["modules"]["top"]["cells"]
    module = json.loads(buffer_reset(text, find_device("ecp5-85k")))["modules"]["top"]
    cells = module["cells"]
    buffer = cells.pop("reset_buffer")
    assert buffer["type"] == "DCCA"
    (new,) = buffer["connections"]["CLKO"]
    assert buffer["connections"] == {"CLKI": [RESET], "CE": ["1"], "CLKO": [new]}
    assert module["netnames"]["reset_everywhere"]["bits"] == [new]
    driven = {
        bit for cell in before.values() for bits in cell["connections"].values() for bit in bits
    }
    assert new not in driven
    assert [name for name, cell in cells.items() if [new] in cell["connections"].values()] == [
        *(f"register{k}" for k in range(4)),
        "lut",
    ]
    for cell in cells.values():
        for port, bits in cell["connections"].items():
            if bits == [new]:
                cell["connections"][port] = [RESET]
    assert cells == before


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("registers", "device"), [(3, "ecp5-85k"), (4, "nexus-40k")])
def test_others_are_as_they_were(registers, device):
    """A reset of fewer registers, and one of a family where nobody asked for it."""
    text = netlist(registers)
    assert buffer_reset(text, find_device(device)) == text
