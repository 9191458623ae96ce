"""On-chip memories beside the columns': activations in block floating point, and fp16 values."""

from amaranth import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import ACTIVATION_BITS
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.params.machine import EXPONENT_BYTE
from tilewright.hw.machine.banks import Banks, ReadPort, bank_signature
from tilewright.hw.shared import Shared
from tilewright.hw.sram import Sram

__all__ = ["ActivationBuffer", "HalvesBuffer", "MaskedWritePort", "activation_row", "halves_row"]


def activation_row(params: HarmoniaParams) -> data.StructLayout:
    """A group of every token of a tile."""
    return data.StructLayout(
        {
            "mantissas": data.ArrayLayout(params.group * ACTIVATION_BITS, params.rows),
            "signs": data.ArrayLayout(params.group, params.rows),
            "exponents": data.ArrayLayout(params.rows * EXPONENT_BYTE, 1),
        }
    )


def halves_row(params: HarmoniaParams) -> data.ArrayLayout:
    """``word_values`` fp16 values of every token of a tile."""
    return data.ArrayLayout(params.word_values * FP16.bits, params.rows)


class ActivationBuffer(wiring.Component):
    """Mantissas, signs and exponents under one address; each is written by itself.

    ``read_data`` is the row at ``read_row`` the cycle after ``read_enable``, and stays.
    """

    def __init__(self, params: HarmoniaParams):
        row = activation_row(params)
        self.memories = {
            name: Banks(params.activation_rows, field.shape.length, field.shape.elem_shape)
            for name, field in row
        }
        rows = range(params.activation_rows)
        super().__init__(
            {
                "read_enable": In(1),
                "read_row": In(rows),
                "read_data": Out(row),
                "write_enable": In(data.StructLayout({name: 1 for name, _ in row})),
                "write_row": In(rows),
                "write_data": In(row),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name, memory in self.memories.items():
            m.submodules[name] = memory
            m.d.comb += [
                memory.read.enable.eq(self.read_enable),
                memory.read.address.eq(self.read_row),
                self.read_data[name].eq(memory.read.data),
                memory.write.enable.eq(self.write_enable[name]),
                memory.write.address.eq(self.write_row),
                memory.write.data.eq(self.write_data[name]),
            ]
        return m


class MaskedWritePort(wiring.Signature):
    """Writes a row in those banks whose bit of ``lanes`` is set; the user's view."""

    def __init__(self, depth: int, layout: data.ArrayLayout):
        super().__init__(
            {
                "enable": Out(1),
                "lanes": Out(layout.length),
                "address": Out(range(depth)),
                "data": Out(layout),
            }
        )


class HalvesBuffer(wiring.Component):
    """fp16 values: a bank for every token of a tile."""

    def __init__(self, params: HarmoniaParams):
        self.params = params
        depth, row = params.halves_rows, halves_row(params)
        super().__init__(
            {"read": In(ReadPort(depth, row)), "write": In(MaskedWritePort(depth, row))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth, word = self.params.halves_rows, halves_row(self.params).elem_shape
        for r in range(self.params.rows):
            m.submodules[f"bank{r}"] = bank = Shared(
                f"bank_{depth}x{word}", bank_signature(depth, word), lambda: Sram(depth, word)
            )
            m.d.comb += [
                bank.read_enable.eq(self.read.enable),
                bank.read_address.eq(self.read.address),
                self.read.data[r].eq(bank.read_data),
                bank.write_enable.eq(self.write.enable & self.write.lanes[r]),
                bank.write_address.eq(self.write.address),
                bank.write_data.eq(self.write.data[r]),
            ]
        return m
