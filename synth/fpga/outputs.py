"""Whether a mapped netlist still has all that its block gives.

Apart from the flow, whose code is part of every record: a check does not change what was routed.
"""

import json

from tilewright.synth.fpga.harness import TAKEN, TOP
from tilewright.synth.fpga.route import Placement, _map
from tilewright.synth.yosys import SynthesisError

__all__ = ["require_outputs"]


def require_outputs(found: Placement) -> None:
    """Refuse a netlist that lost outputs of its block.

    Where an output is a word of a memory as it is read, Yosys makes the harness's register behind
    it the memory's own and removes both: what is left is no measure of the block.
    """
    netlist = json.loads(_map(found.rtlil, found.params.slug, found.device))
    taken = netlist["modules"][TOP]["netnames"].get(TAKEN, {"bits": []})
    if lost := taken["bits"].count("x"):
        raise SynthesisError(
            f"{found.spec}: {lost} bits of its outputs are read from memory in the same cycle, and"
            " Yosys removes those; put a register_slice behind it"
        )
