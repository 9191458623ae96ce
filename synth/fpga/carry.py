"""Starts of carry chains, as nextpnr wants them."""

import json

from tilewright.synth.fpga.devices import Device

__all__ = ["open_chain_starts"]


def open_chain_starts(netlist: str, device: Device) -> str:
    """The netlist (JSON of Yosys) with no constant at the carry input of a chain's first cell.

    Yosys leaves that input open, as the cell ignores it, and ties it to a constant afterwards with
    everything else that is open. nextpnr for Nexus takes an open one only.
    """
    start = device.family.chain_start
    if start is None:
        return netlist
    design = json.loads(netlist)
    for module in design["modules"].values():
        cells = module["cells"].values()
        drivers = (cell for cell in cells if cell["type"] in ("VLO", "VHI"))
        constant = {"0", "1", "x", *(bit for cell in drivers for bit in cell["connections"]["Z"])}
        for cell in cells:
            inputs = cell["connections"]
            if cell["type"] == start.cell and constant.issuperset(inputs.get(start.input, "-")):
                # Any other first cell would compute with it.
                assert cell["parameters"][start.parameter] == start.value, cell["parameters"]
                del inputs[start.input], cell["port_directions"][start.input]
    return json.dumps(design)
