"""On-chip memories: activations with their exponents, weights with their scales."""

from amaranth import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from golden.params.anda_system import EXPONENT_BYTE, AndaParams
from golden.params.formats import FP16
from hw.shared import Shared
from hw.sram import Sram

__all__ = ["ActivationBuffer", "Banks", "ReadPort", "WeightBuffer", "WritePort", "bank_signature"]


class ReadPort(wiring.Signature):
    """``data`` is the row at ``address`` the cycle after ``enable``, and stays; the user's view."""

    def __init__(self, depth: int, layout: data.ArrayLayout):
        super().__init__({"enable": Out(1), "address": Out(range(depth)), "data": In(layout)})


class WritePort(wiring.Signature):
    """Writes a whole row; the user's view."""

    def __init__(self, depth: int, layout: data.ArrayLayout):
        super().__init__({"enable": Out(1), "address": Out(range(depth)), "data": Out(layout)})


class Banks(wiring.Component):
    """``banks`` memories of words side by side under one address."""

    def __init__(self, depth: int, banks: int, word: int):
        self.depth, self.banks, self.word = depth, banks, word
        layout = data.ArrayLayout(word, banks)
        super().__init__(
            {"read": In(ReadPort(depth, layout)), "write": In(WritePort(depth, layout))}
        )

    def elaborate(self, platform):
        m = Module()
        name, signature = f"bank_{self.depth}x{self.word}", bank_signature(self.depth, self.word)
        for k in range(self.banks):
            m.submodules[f"bank{k}"] = bank = Shared(name, signature, self._bank)
            m.d.comb += [
                bank.read_enable.eq(self.read.enable),
                bank.read_address.eq(self.read.address),
                self.read.data[k].eq(bank.read_data),
                bank.write_enable.eq(self.write.enable),
                bank.write_address.eq(self.write.address),
                bank.write_data.eq(self.write.data[k]),
            ]
        return m

    def _bank(self):
        return Sram(self.depth, self.word)


def bank_signature(depth: int, word: int) -> wiring.Signature:
    """The ports of an :class:`Sram`."""
    return wiring.Signature(
        {
            "write_enable": In(1),
            "write_address": In(range(depth)),
            "write_data": In(word),
            "read_enable": In(1),
            "read_address": In(range(depth)),
            "read_data": Out(word),
        }
    )


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

    def elaborate(self, platform):
        m = Module()
        m.submodules.words, m.submodules.bytes = self.words, self.bytes
        wiring.connect(m, self.words.read, wiring.flipped(self.read))
        wiring.connect(m, self.words.write, wiring.flipped(self.write))
        wiring.connect(m, self.bytes.read, wiring.flipped(self.read_exponents))
        wiring.connect(m, self.bytes.write, wiring.flipped(self.write_exponents))
        return m


class WeightBuffer(wiring.Component):
    """Weight planes, ``planes_per_beat`` of every column in a row, and a memory of scales."""

    def __init__(self, params: AndaParams):
        planes = params.planes_per_beat * params.columns
        self.planes = Banks(params.weight_rows, planes, params.group)
        self.scales = Banks(params.scale_rows, params.columns, FP16.bits)
        planes_row = data.ArrayLayout(params.group, planes)
        scales_row = data.ArrayLayout(FP16.bits, params.columns)
        super().__init__(
            {
                "read": In(ReadPort(params.weight_rows, planes_row)),
                "write": In(WritePort(params.weight_rows, planes_row)),
                "read_scales": In(ReadPort(params.scale_rows, scales_row)),
                "write_scales": In(WritePort(params.scale_rows, scales_row)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.planes, m.submodules.scales = self.planes, self.scales
        wiring.connect(m, self.planes.read, wiring.flipped(self.read))
        wiring.connect(m, self.planes.write, wiring.flipped(self.write))
        wiring.connect(m, self.scales.read, wiring.flipped(self.read_scales))
        wiring.connect(m, self.scales.write, wiring.flipped(self.write_scales))
        return m
