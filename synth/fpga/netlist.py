"""Changes to a mapped netlist (JSON of Yosys) that nextpnr needs to route it."""

from collections import Counter
from typing import Any

__all__ = ["MOST_LOADS", "buffer_reset", "open_chain_starts"]

# A reset of more registers than this, over the wires between cells, takes the place of other nets:
# with 9,200 nextpnr had not routed a block after half an hour; with a buffer it took minutes.
MOST_LOADS = 8000


def open_chain_starts(design: dict[str, Any]) -> bool:
    """Leave the carry input of a chain's first cell open (Nexus).

    Yosys leaves that input open, as the cell ignores it, and ties it to a constant afterwards with
    everything else that is open. nextpnr takes an open one only.
    """
    for module in design["modules"].values():
        cells = module["cells"].values()
        drivers = (cell for cell in cells if cell["type"] in ("VLO", "VHI"))
        constant = {"0", "1", "x", *(bit for cell in drivers for bit in cell["connections"]["Z"])}
        for cell in cells:
            inputs = cell["connections"]
            if cell["type"] == "CCU2" and constant.issuperset(inputs.get("CIN", "-")):
                # Any other first cell would compute with it.
                assert cell["parameters"]["INIT1"] == "0x00AA", cell["parameters"]
                del inputs["CIN"], cell["port_directions"]["CIN"]
    return True


def buffer_reset(design: dict[str, Any]) -> bool:
    """Put a reset of very many registers behind a global buffer (ECP5); return whether one was.

    nextpnr chooses such buffers for clocks alone.
    """
    loads = [
        (count, net, module)
        for module in design["modules"].values()
        for net, count in _resets(module).items()
        if count > MOST_LOADS
    ]
    if not loads:
        return False
    _, net, module = max(loads, key=lambda found: found[0])
    buffered = _unused(module)
    for cell in module["cells"].values():
        for port, bits in cell["connections"].items():
            if cell["port_directions"].get(port) == "input":
                cell["connections"][port] = [buffered if bit == net else bit for bit in bits]
    module["cells"]["reset_buffer"] = {
        "hide_name": 0,
        "type": "DCCA",
        "parameters": {},
        "attributes": {},
        "port_directions": {"CLKI": "input", "CE": "input", "CLKO": "output"},
        "connections": {"CLKI": [net], "CE": ["1"], "CLKO": [buffered]},
    }
    module["netnames"]["reset_everywhere"] = {"hide_name": 0, "bits": [buffered], "attributes": {}}
    return True


def _resets(module: dict[str, Any]) -> Counter[int]:
    """By net that resets registers, how many; a constant is none."""
    given = (cell["connections"].get("LSR", ["0"])[0] for cell in module["cells"].values())
    return Counter(net for net in given if isinstance(net, int))


def _unused(module: dict[str, Any]) -> int:
    """A number that no net has."""
    cells = module["cells"].values()
    bits = (bit for cell in cells for port in cell["connections"].values() for bit in port)
    return 1 + max(bit for bit in bits if isinstance(bit, int))
