"""A large reset of an ECP5 goes through a global buffer, and nothing else changes."""

import pytest

from tilewright.synth.fpga import devices
from tilewright.synth.fpga.devices import buffer_reset

CLOCK, RESET, OTHER, ENABLE = 2, 3, 4, 5


def design_of(registers):
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
    return {"modules": {"top": {"cells": cells, "netnames": {}}}}


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(devices, "MOST_LOADS", 3)


@pytest.mark.usefixtures("few")
def test_all_that_the_reset_leads_to_is_behind_the_buffer():
    design, before = design_of(4), design_of(4)["modules"]["top"]["cells"]
    assert buffer_reset(design)
    module = design["modules"]["top"]
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
def test_a_reset_of_fewer_registers_is_as_it_was():
    design = design_of(3)
    assert not buffer_reset(design) and design == design_of(3)
