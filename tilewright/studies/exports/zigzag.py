"""An accelerator as ZigZag's YAML: its array, buffers and memory.

ZigZag's array has one multiply-add a cycle and place, so that a PE which takes ``cycles`` for a
group is as many places deep as it has multiply-adds a cycle, rounded down. JSON is YAML too.
"""

import json
from typing import Any

from tilewright.sim.accelerator import Accelerator

ACCUMULATOR_BITS = 32


def zigzag_hardware(machine: Accelerator) -> dict[str, Any]:
    """Return what ``hardware.yaml`` says."""
    deep = _sizes(machine)[2]
    return {
        "name": machine.name,
        "memories": {
            "accumulator": _memory(ACCUMULATOR_BITS, 0.0, ACCUMULATOR_BITS, ("O",), ["D3"]),
            "activation_buffer": _memory(
                8 * machine.activation_buffer,
                machine.buffer_pj_per_bit,
                machine.rows * deep * machine.activation_bits(machine.lengths["qkv"]),
                ("I1", "O"),
                ["D1", "D2", "D3"],
            ),
            "weight_buffer": _memory(
                8 * machine.weight_buffer,
                machine.buffer_pj_per_bit,
                machine.columns * deep * machine.weight_bits,
                ("I2",),
                ["D1", "D2", "D3"],
            ),
            "dram": _memory(
                8 * machine.capacity,
                machine.memory_pj_per_bit,
                8 * machine.bandwidth / machine.clock,
                ("I1", "I2", "O"),
                ["D1", "D2", "D3"],
                shared=True,
            ),
        },
        "operational_array": {
            "unit_energy": sum(machine.power.values()) / (machine.mac_rate * machine.clock) * 1e12,
            "unit_area": 1,
            "dimensions": ["D1", "D2", "D3"],
            "sizes": _sizes(machine),
        },
    }


def _sizes(machine: Accelerator) -> list[int]:
    deep = max(1, int(machine.group / machine.cycles(machine.lengths["qkv"])))
    return [machine.columns, machine.rows, deep]


def zigzag_files(machine: Accelerator) -> dict[str, str]:
    """Return the files ``hardware.yaml`` and ``mapping.yaml``."""
    sizes = _sizes(machine)
    mapping = [
        {
            "name": "default",
            "spatial_mapping": {
                dimension: [f"{loop}, {size}"]
                for dimension, loop, size in zip(("D1", "D2", "D3"), "KBC", sizes, strict=True)
            },
            "memory_operand_links": {"O": "O", "W": "I2", "I": "I1"},
        }
    ]
    return {
        "hardware.yaml": json.dumps(zigzag_hardware(machine), indent=2) + "\n",
        "mapping.yaml": json.dumps(mapping, indent=2) + "\n",
    }


def _memory(
    bits: float,
    pj_per_bit: float,
    width: float,
    operands: tuple[str, ...],
    served: list[str],
    *,
    shared: bool = False,
) -> dict[str, Any]:
    """One memory; a read or a write is of ``width`` bits, which is what a cycle moves."""
    wide = max(1, round(width))
    reading, writing = [], []
    for operand in operands:
        reading += [f"{operand}, tl"] + ([f"{operand}, th"] if operand == "O" else [])
        writing += [f"{operand}, fh"] + ([f"{operand}, fl"] if operand == "O" else [])
    ports = [("rw_port_1", "read_write", reading + writing)]
    if not shared:
        ports = [("r_port_1", "read", reading), ("w_port_1", "write", writing)]
    return {
        "size": int(bits),
        "r_cost": pj_per_bit * wide,
        "w_cost": pj_per_bit * wide,
        "area": 0,
        "latency": 1,
        "operands": list(operands),
        "ports": [
            {
                "name": name,
                "type": kind,
                "bandwidth_min": wide,
                "bandwidth_max": wide,
                "allocation": allocation,
            }
            for name, kind, allocation in ports
        ],
        "served_dimensions": served,
    }
