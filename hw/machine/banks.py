"""Ports of on-chip memories, and memories of several banks."""

from types import SimpleNamespace
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.machine import MachineMemory, MachineParams
from tilewright.hw.shared import Shared
from tilewright.hw.sram import Sram


class ReadPort(wiring.Signature):
    """``data`` is the row at ``address`` the cycle after ``enable``, and stays; the user's view."""

    def __init__(self, depth: int, layout: data.ArrayLayout):
        super().__init__({"enable": Out(1), "address": Out(range(depth)), "data": In(layout)})


class WritePort(wiring.Signature):
    """Writes a whole row; the user's view."""

    def __init__(self, depth: int, layout: data.ArrayLayout):
        super().__init__({"enable": Out(1), "address": Out(range(depth)), "data": Out(layout)})


class Banks(wiring.Component):
    """``banks`` memories of words side by side under one address.

    Of each, ``together`` words are read at once, from a multiple of it on.
    """

    def __init__(
        self,
        depth: int,
        banks: int,
        word: int,
        write: wiring.Signature | None = None,
        together: int = 1,
    ):
        self.depth, self.banks, self.word, self.together = depth, banks, word, together
        read, layout = (data.ArrayLayout(n * word, banks) for n in (together, 1))
        super().__init__(
            {"read": In(ReadPort(depth, read)), "write": In(write or WritePort(depth, layout))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for k in range(self.banks):
            m.submodules[f"bank{k}"] = bank = self.bank()
            enable, content = self.written(k)
            m.d.comb += [
                bank.read_enable.eq(self.read.enable),
                bank.read_address.eq(self.read.address),
                self.read.data[k].eq(bank.read_data),
                bank.write_enable.eq(enable),
                bank.write_address.eq(self.write.address),
                bank.write_data.eq(content),
            ]
        return m

    def bank(self) -> Shared:
        """One of the memories."""
        depth, word = self.depth, self.word
        name, signature = f"bank_{depth}x{word}", bank_signature(depth, word)
        return Shared(name, signature, lambda: Sram(depth, word))

    def written(self, k: int) -> tuple[Value, Value]:
        """Whether a bank is written, and with what."""
        return self.write.enable, self.write.data[k]


class BeatWritePort(wiring.Signature):
    """Writes those of ``ways`` rows that share a word whose bit of ``enable`` is set.

    Row r lies in word r // ``ways``, which ``address`` names. The user's view.
    """

    def __init__(self, depth: int, row_bits: int, ways: int):
        super().__init__(
            {
                "enable": Out(ways),
                "address": Out(range(words_of(depth, ways))),
                "data": Out(data.ArrayLayout(row_bits, ways)),
            }
        )


def one_row(port: Any, ways: int) -> SimpleNamespace:
    """Writes of single rows to a memory of which ``ways`` share a word."""
    slot_bits = (ways - 1).bit_length()
    return SimpleNamespace(
        enable=Mux(port.enable, Const(1, ways) << port.address[:slot_bits], 0)[:ways],
        address=port.address[slot_bits:],
        data=port.data.as_value().replicate(ways),
    )


def write_load(
    m: Module, params: MachineParams, written: data.View, memory: MachineMemory, port: Any
) -> None:
    """Rows of ``memory`` that a load writes, one or a beat of them, go to its port."""
    ways, bits = params.ways(memory), params.row_bits(memory)
    slot_bits = (ways - 1).bit_length()
    one = Cat(written.row[:slot_bits] == k for k in range(ways))
    rows = Mux(written.beat, Cat(written.ways[k] for k in range(ways)), one)
    with m.If(written.valid & (written.memory == memory)):
        m.d.comb += port.enable.eq(rows)
    m.d.comb += port.address.eq(written.row >> slot_bits)
    for k in range(ways):
        own = written.data.word_select(k, bits)
        m.d.comb += port.data[k].eq(Mux(written.beat, own, written.data[:bits]))


class WaySram(wiring.Component):
    """``depth`` words of ``width`` bits, of which ``ways`` can be written at once.

    ``read_data`` is the word at ``read_address`` one cycle after ``read_enable``, and stays; where
    ``together`` is not 1, those of so many addresses, from a multiple of it on, that it is among.
    """

    def __init__(self, depth: int, width: int, ways: int, together: int = 1):
        self.depth, self.width, self.ways, self.together = depth, width, ways, together
        super().__init__(bank_signature(depth, width, ways, together))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words, ways = words_of(self.depth, self.ways), self.ways
        slot_bits = (ways - 1).bit_length()
        m.submodules.memory = memory = Sram(
            max(2, words), ways * self.width, self.width if ways > 1 else None
        )
        slot = Signal(range(max(2, ways)))
        with m.If(self.read_enable):
            m.d.sync += slot.eq(self.read_address[:slot_bits])
        m.d.comb += [
            memory.write_enable.eq(self.write_enable),
            memory.write_address.eq(self.write_address),
            memory.write_data.eq(self.write_data),
            memory.read_enable.eq(self.read_enable),
            memory.read_address.eq(self.read_address >> slot_bits),
        ]
        chosen, width = slot[(self.together - 1).bit_length() :], self.together * self.width
        data = memory.read_data
        m.d.comb += self.read_data.eq(data.word_select(chosen, width) if len(chosen) else data)
        return m


class BeatBanks(Banks):
    """``banks`` memories of words side by side, of which a load writes ``ways`` rows at once."""

    def __init__(self, depth: int, banks: int, word: int, ways: int, together: int = 1):
        self.ways = ways
        super().__init__(depth, banks, word, BeatWritePort(depth, banks * word, ways), together)

    def bank(self) -> Shared:
        size = self.depth, self.word, self.ways, self.together
        name = f"bank_{self.depth}x{self.word}_{self.ways}_ways"
        name += f"_{self.together}_together" if self.together > 1 else ""
        return Shared(name, bank_signature(*size), lambda: WaySram(*size))

    def written(self, k: int) -> tuple[Value, Value]:
        rows = self.write.data
        return self.write.enable, Cat(row.word_select(k, self.word) for row in rows)


def words_of(depth: int, ways: int) -> int:
    """Words that hold ``depth`` rows, ``ways`` in each."""
    return -(-depth // ways)


def bank_signature(depth: int, word: int, ways: int = 1, together: int = 1) -> wiring.Signature:
    """The ports of an ``Sram`` of which ``ways`` words are written at once, where enabled."""
    return wiring.Signature(
        {
            "write_enable": In(ways),
            "write_address": In(range(words_of(depth, ways))),
            "write_data": In(ways * word),
            "read_enable": In(1),
            "read_address": In(range(depth)),
            "read_data": Out(together * word),
        }
    )
