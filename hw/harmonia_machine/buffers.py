"""On-chip memories outside the columns: activations in block floating point, fp16 values."""

from amaranth import Module, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import ACTIVATION_BITS
from tilewright.golden.params.harmonia_machine import HarmoniaParams, Memory
from tilewright.golden.params.machine import EXPONENT_BYTE
from tilewright.hw.machine.banks import Banks, ReadPort
from tilewright.hw.machine.regions import connect_readers, connect_writers

# Units that read and write the fp16 memory.
READERS = ("store", "vector", "convert")
WRITERS = ("load", "matrix", "vector")


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


class ActivationWritePort(wiring.Signature):
    """Writes those of a row's three parts that are enabled; the user's view."""

    def __init__(self, depth: int, row: data.StructLayout):
        super().__init__(
            {
                "enable": Out(data.StructLayout({name: 1 for name, _ in row})),
                "address": Out(range(depth)),
                "data": Out(row),
            }
        )


class ActivationRegion(wiring.Component):
    """Mantissas, signs and exponents under one address; each is written by itself."""

    def __init__(self, depth: int, row: data.StructLayout):
        self.memories = {
            name: Banks(max(2, depth), field.shape.length, field.shape.elem_shape)
            for name, field in row
        }
        super().__init__(
            {"read": In(ReadPort(depth, row)), "write": In(ActivationWritePort(depth, row))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name, memory in self.memories.items():
            m.submodules[name] = memory
            m.d.comb += [
                memory.read.enable.eq(self.read.enable),
                memory.read.address.eq(self.read.address),
                self.read.data[name].eq(memory.read.data),
                memory.write.enable.eq(self.write.enable[name]),
                memory.write.address.eq(self.write.address),
                memory.write.data.eq(self.write.data[name]),
            ]
        return m


class ActivationBuffer(wiring.Component):
    """The activation memories in regions, for the units that read and write them."""

    def __init__(self, params: HarmoniaParams):
        self.params = params
        depth, row = params.activation_rows, activation_row(params)
        super().__init__(
            {
                "matrix": In(ReadPort(depth, row)),
                "store": In(ReadPort(depth, row)),
                "convert": In(ActivationWritePort(depth, row)),
                "load": In(ActivationWritePort(depth, row)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, row = self.params, activation_row(self.params)
        regions = []
        for k, depth in enumerate(p.region_depths(Memory.MANTISSAS)):
            m.submodules[f"region{k}"] = region = ActivationRegion(depth, row)
            regions.append(region)
        size = p.region_rows(Memory.MANTISSAS)
        connect_readers(m, "read", size, [r.read for r in regions], [self.matrix, self.store])
        connect_writers(m, size, [r.write for r in regions], [self.convert, self.load])
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


class HalvesRegion(Banks):
    """fp16 values: a bank for every token of a tile."""

    def __init__(self, depth: int, row: data.ArrayLayout):
        super().__init__(max(2, depth), row.length, row.elem_shape, MaskedWritePort(depth, row))

    def written(self, k: int) -> tuple[Value, Value]:
        return self.write.enable & self.write.lanes[k], self.write.data[k]


class HalvesBuffer(wiring.Component):
    """The fp16 memory in regions, for the units that read and write it."""

    def __init__(self, params: HarmoniaParams):
        self.params = params
        depth, row = params.halves_rows, halves_row(params)
        super().__init__(
            {
                **{f"read_{unit}": In(ReadPort(depth, row)) for unit in READERS},
                **{f"write_{unit}": In(MaskedWritePort(depth, row)) for unit in WRITERS},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, row = self.params, halves_row(self.params)
        regions = []
        for k, depth in enumerate(p.region_depths(Memory.FP16)):
            m.submodules[f"region{k}"] = region = HalvesRegion(depth, row)
            regions.append(region)
        size = p.region_rows(Memory.FP16)
        readers = [getattr(self, f"read_{unit}") for unit in READERS]
        writers = [getattr(self, f"write_{unit}") for unit in WRITERS]
        connect_readers(m, "read", size, [r.read for r in regions], readers)
        connect_writers(m, size, [r.write for r in regions], writers)
        return m
