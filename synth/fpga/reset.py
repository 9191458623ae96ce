"""A reset of very many registers, on the wires that reach all of a device."""

import json
from collections import Counter
from typing import Any

from tilewright.synth.fpga.devices import Device

__all__ = ["MOST_LOADS", "buffer_reset"]

# A reset of more registers than this, over the wires between cells, takes the place of other nets:
# with 9,200 nextpnr had not routed a block after half an hour; with a buffer it took minutes.
MOST_LOADS = 8000


def buffer_reset(netlist: str, device: Device) -> str:
    """The netlist (JSON of Yosys) with its reset behind a global buffer, if that has many loads.

    nextpnr chooses such buffers for clocks alone.
    """
    buffer = device.family.global_buffer
    if buffer is None:
        return netlist
    design = json.loads(netlist)
    loads = [
        (count, net, module)
        for module in design["modules"].values()
        for net, count in _resets(module, buffer.reset).items()
        if count > MOST_LOADS
    ]
    if not loads:
        return netlist
    _, net, module = max(loads, key=lambda found: found[0])
    buffered = _unused(module)
    for cell in module["cells"].values():
        for port, bits in cell["connections"].items():
            if cell["port_directions"].get(port) == "input":
                cell["connections"][port] = [buffered if bit == net else bit for bit in bits]
    module["cells"]["reset_buffer"] = buffer.cell(net, buffered)
    module["netnames"]["reset_everywhere"] = {"hide_name": 0, "bits": [buffered], "attributes": {}}
    return json.dumps(design)


def _resets(module: dict[str, Any], port: str) -> Counter[int]:
    """By net that resets registers, how many; a constant is none."""
    given = (cell["connections"].get(port, ["0"])[0] for cell in module["cells"].values())
    return Counter(net for net in given if isinstance(net, int))


def _unused(module: dict[str, Any]) -> int:
    """A number that no net has."""
    cells = module["cells"].values()
    bits = (bit for cell in cells for port in cell["connections"].values() for bit in port)
    return 1 + max(bit for bit in bits if isinstance(bit, int))
