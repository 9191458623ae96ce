"""Ports of on-chip memories, and memories of several banks."""

from amaranth import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.hw.shared import Shared
from tilewright.hw.sram import Sram

__all__ = ["Banks", "ReadPort", "WritePort", "bank_signature"]


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

    def elaborate(self, platform: object) -> Module:
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

    def _bank(self) -> Sram:
        return Sram(self.depth, self.word)


def bank_signature(depth: int, word: int) -> wiring.Signature:
    """The ports of an ``Sram``."""
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
