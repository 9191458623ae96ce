"""An accelerator as Stream's YAML: a core, which is ZigZag's, and the memory outside behind a link.

Stream is a package of its own, from version 1 on with this form of its inputs.
"""

import json
from typing import Any

from tilewright.sim.accelerator import Accelerator
from tilewright.studies.exports.zigzag import zigzag_hardware

__all__ = ["stream_files"]


def stream_files(machine: Accelerator) -> dict[str, str]:
    """Return the files ``accelerator.yaml``, ``core.yaml`` and ``offchip.yaml``."""
    whole = zigzag_hardware(machine)
    memories: dict[str, Any] = whole["memories"]
    array: dict[str, Any] = whole["operational_array"]
    core = whole | {
        "type": "zigzag.compute",
        "memories": {name: memory for name, memory in memories.items() if name != "dram"},
    }
    offchip = {
        "name": "offchip",
        "type": "zigzag.offchip",
        "memories": {"dram": memories["dram"]},
        "operational_array": array | {"unit_energy": 0, "unit_area": 0, "sizes": [0, 0, 0]},
    }
    # Not JSON, whose keys would be texts: cores have numbers. Energy is that of the memory itself.
    text = f"""# {machine.name}, as tilewright models it: bits and pJ
name: {machine.name}
cores:
  0: core.yaml
  1: offchip.yaml
offchip_core_id: 1
unit_energy_cost: 0
core_connectivity:
- type: link
  cores: [0, 1]
  bandwidth: {8 * machine.bandwidth / machine.clock:.6g}
"""
    return {
        "accelerator.yaml": text,
        "core.yaml": json.dumps(core, indent=2) + "\n",
        "offchip.yaml": json.dumps(offchip, indent=2) + "\n",
    }
