"""Timing constraints of a block (SDC), with the assumptions of ``tilewright.synth.timing``."""

from tilewright.synth.emit import CLOCK, RESET
from tilewright.synth.fpga.harness import ports_of
from tilewright.synth.handover.design import Design

__all__ = ["sdc"]

_PS_PER = {"ps": 1.0, "ns": 1000.0}
_FF_PER = {"ps": 1.0, "ns": 1000.0}  # libraries in ns have loads in pF


def sdc(design: Design, unit: str = "ns") -> str:
    """Constraints in ``unit``, ps (with fF) or ns (with pF): that of the libraries of the flow."""
    technology = design.technology
    load = technology.output_load / _FF_PER[unit]
    period = f"{design.period / _PS_PER[unit]:.6g}"
    driver = technology.cells[technology.drive_cell]
    (pin,) = driver.outputs
    inputs = [
        port.name
        for port in ports_of(design.rtlil, design.name)
        if port.direction == "input" and port.bits and port.name not in (CLOCK, RESET)
    ]
    lines = [
        f"# {design.name}: one clock, on whose rising edge everything happens.",
        f"# Times in {unit}, loads in {'fF' if unit == 'ps' else 'pF'}.",
        f"current_design {design.name}",
    ]
    if design.clocked:
        lines += [
            f"create_clock -name {CLOCK} -period {period} [get_ports {CLOCK}]",
            "# Reset is synchronous. It must last two cycles or more, and no input may be",
            "# valid for as long after it; then no path from it limits the clock.",
            f"set_false_path -from [get_ports {RESET}]",
        ]
    else:
        lines += [
            "# The block has no registers: a clock that no port carries bounds its paths.",
            f"create_clock -name {CLOCK} -period {period}",
        ]
    return "\n".join(
        [
            *lines,
            f"set data_inputs [get_ports {{{' '.join(inputs)}}}]",
            "# Inputs come straight from registers, outputs go straight into them.",
            f"set_input_delay 0 -clock {CLOCK} $data_inputs",
            f"set_output_delay 0 -clock {CLOCK} [all_outputs]",
            f"set_driving_cell -lib_cell {driver.name} -pin {pin} $data_inputs",
            f"set_load {load:.6g} [all_outputs]",
            "",
        ]
    )
