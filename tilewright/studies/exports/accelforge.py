"""An accelerator as accelforge's architecture: memories, buffers and PEs with our figures."""

from tilewright.sim.accelerator import Accelerator

__all__ = ["accelforge_files"]


def accelforge_files(machine: Accelerator) -> dict[str, str]:
    """Return the file ``arch.yaml``; actions of memories are of a bit, energies in joules."""
    rate = machine.mac_rate * machine.clock / (machine.rows * machine.columns)  # of one PE
    watts = sum(machine.power.values()) / (machine.rows * machine.columns)
    buffer = machine.buffer_pj_per_bit * 1e-12
    memory = machine.memory_pj_per_bit * 1e-12
    rows = machine.rows * machine.group * machine.clock  # bits a second at one bit each
    feeds = machine.activation_bits(machine.lengths["qkv"]), machine.weight_bits
    per_group = machine.cycles(machine.lengths["qkv"])
    widths = (
        rows * feeds[0] / per_group,
        machine.columns * machine.group * machine.clock * feeds[1] / per_group,
    )
    text = f"""# {machine.name}, as tilewright models it: bits, bits a second, joules
arch:
  nodes:
  - !Memory
    name: MainMemory
    size: {8 * machine.capacity:.6g}
    leak_power: 0
    area: 0
    tensors: {{keep: ~Intermediates, may_keep: All}}
    actions:
    - {{name: read, energy: {memory:.6g}, throughput: {8 * machine.bandwidth:.6g}}}
    - {{name: write, energy: {memory:.6g}, throughput: {8 * machine.bandwidth:.6g}}}

  - !Memory
    name: ActivationBuffer
    size: {8 * machine.activation_buffer}
    leak_power: 0
    area: 0
    tensors: {{keep: input | output}}
    actions:
    - {{name: read, energy: {buffer:.6g}, throughput: {widths[0]:.6g}}}
    - {{name: write, energy: {buffer:.6g}, throughput: {widths[0]:.6g}}}

  - !Memory
    name: WeightBuffer
    size: {8 * machine.weight_buffer}
    leak_power: 0
    area: 0
    tensors: {{keep: weight}}
    actions:
    - {{name: read, energy: {buffer:.6g}, throughput: {widths[1]:.6g}}}
    - {{name: write, energy: {buffer:.6g}, throughput: {widths[1]:.6g}}}

  - !Container
    name: Array
    spatial:
    - {{name: rows, fanout: {machine.rows}, may_reuse: weight}}
    - {{name: columns, fanout: {machine.columns}, may_reuse: input}}

  - !Compute
    name: PE
    leak_power: 0
    area: 0
    actions:
    - {{name: compute, energy: {watts / rate:.6g}, throughput: {rate:.6g}}}
"""
    return {"arch.yaml": text}
