"""On-chip memories: activations with their exponents, weights with their scales."""

from amaranth import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from tilewright.golden.params.anda_machine import AndaParams, Memory
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import EXPONENT_BYTE
from tilewright.hw.machine.banks import Banks, BeatBanks, ReadPort, WritePort

__all__ = ["ActivationBuffer", "WeightBuffer"]


class ActivationBuffer(wiring.Component):
    """A bank of words for every row of the matrix unit, and beside each word a byte.

    The byte beside a group's sign word is its exponent. Reads and writes of words and of bytes
    are independent of each other.
    """

    def __init__(self, params: AndaParams):
        depth = params.activation_rows
        self.words = Banks(depth, params.rows, params.group)
        self.bytes = Banks(depth, 1, params.rows * EXPONENT_BYTE)
        words = data.ArrayLayout(params.group, params.rows)
        octets = data.ArrayLayout(params.rows * EXPONENT_BYTE, 1)
        super().__init__(
            {
                "read": In(ReadPort(depth, words)),
                "write": In(WritePort(depth, words)),
                "read_exponents": In(ReadPort(depth, octets)),
                "write_exponents": In(WritePort(depth, octets)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words, m.submodules.bytes = self.words, self.bytes
        wiring.connect(m, self.words.read, wiring.flipped(self.read))
        wiring.connect(m, self.words.write, wiring.flipped(self.write))
        wiring.connect(m, self.bytes.read, wiring.flipped(self.read_exponents))
        wiring.connect(m, self.bytes.write, wiring.flipped(self.write_exponents))
        return m


class WeightBuffer(wiring.Component):
    """Weight planes, ``planes_per_beat`` of every column in a row, and a memory of scales.

    A load writes as many rows at once as a beat of external memory holds.
    """

    def __init__(self, params: AndaParams):
        planes = params.planes_per_beat * params.columns
        shapes = {
            Memory.WEIGHTS: (params.weight_rows, planes, params.group),
            Memory.SCALES: (params.scale_rows, params.columns, FP16.bits),
        }
        self.planes, self.scales = (
            BeatBanks(*shape, params.ways(memory)) for memory, shape in shapes.items()
        )
        members = {}
        for suffix, banks in (("", self.planes), ("_scales", self.scales)):
            for name in ("read", "write"):
                members[f"{name}{suffix}"] = banks.signature.members[name]
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.planes, m.submodules.scales = self.planes, self.scales
        wiring.connect(m, self.planes.read, wiring.flipped(self.read))
        wiring.connect(m, self.planes.write, wiring.flipped(self.write))
        wiring.connect(m, self.scales.read, wiring.flipped(self.read_scales))
        wiring.connect(m, self.scales.write, wiring.flipped(self.write_scales))
        return m
