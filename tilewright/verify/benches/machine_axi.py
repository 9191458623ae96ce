"""Bench of the accelerators behind AXI."""

from tilewright.verify.bench import Bench


class MachineAxiBench(Bench):
    """AXI models that are not ours around it: a processor, and the channels of memory."""

    tests = ("tilewright.verify.machine.axi",)
