"""Configuration of LibreLane, for its flow ``Classic`` and the PDK sky130A."""

import json
from typing import Any

from tilewright.synth.emit import CLOCK
from tilewright.synth.handover.design import Design
from tilewright.synth.handover.orfs import UTILISATION

__all__ = ["config_json"]


def config_json(design: Design) -> str:
    """``config.json``: run ``librelane config.json`` in its folder."""
    constraints = f"dir::{design.name}.sdc"
    config: dict[str, Any] = {
        "meta": {"version": 2, "flow": "Classic"},
        "DESIGN_NAME": design.name,
        "VERILOG_FILES": [f"dir::{design.name}.v"],
        "CLOCK_PORT": CLOCK if design.clocked else None,
        "CLOCK_PERIOD": round(design.period / 1000, 6),
        "PNR_SDC_FILE": constraints,
        "SIGNOFF_SDC_FILE": constraints,
        "FP_CORE_UTIL": UTILISATION,
    }
    if design.macros:
        config["EXTRA_VERILOG_MODELS"] = ["dir::macros.v"]
        config["MACROS"] = {
            macro.name: {
                "gds": [f"dir::{macro.name}.gds"],
                "lef": [f"dir::{macro.name}.lef"],
                "lib": {"*": [f"dir::{macro.name}.lib"]},
            }
            for macro in design.macros
        }
    return json.dumps(config, indent=2) + "\n"
