"""On-chip memories: activations with their exponents, weights with their scales."""

from types import SimpleNamespace
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from tilewright.golden.params.anda_machine import AndaParams, Memory
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.machine import EXPONENT_BYTE
from tilewright.hw.machine.banks import (
    Banks,
    BeatBanks,
    BeatWritePort,
    ReadPort,
    WritePort,
    one_row,
)
from tilewright.hw.machine.regions import connect_readers, connect_writers

# Units that read and write words, and bytes.
WORD_READERS = ("matrix", "vector", "vector_b", "store")
WORD_WRITERS = ("load", "vector", "collector")
VECTOR = ("vector", "vector_b")  # units that work on a beat
BYTE_READERS = ("matrix", "store")
BYTE_WRITERS = ("load", "collector")


class ActivationBuffer(wiring.Component):
    """A bank of words for every row of the matrix unit, with a byte for each word; in regions.

    The byte of a group's sign word is its exponent. Reads and writes of words and of bytes
    are independent of each other. A load may write a beat of words at once, and the vector unit
    reads and writes ``beat_words`` rows, from a multiple of it on.
    """

    def __init__(self, params: AndaParams):
        self.params = params
        depth, ways = params.activation_rows, params.ways(Memory.ACTIVATIONS)
        octets = data.ArrayLayout(params.rows * EXPONENT_BYTE, 1)

        def words(unit: str) -> data.ArrayLayout:
            group = params.vector.group if unit in VECTOR else params.group
            return data.ArrayLayout(group, params.rows)

        super().__init__(
            {
                **{f"read_{unit}": In(ReadPort(depth, words(unit))) for unit in WORD_READERS},
                **{f"write_{unit}": In(WritePort(depth, words(unit))) for unit in WORD_WRITERS},
                **(
                    {"write_load": In(BeatWritePort(depth, words("").size, ways))}
                    if ways > 1
                    else {}
                ),
                **{f"read_bytes_{unit}": In(ReadPort(depth, octets)) for unit in BYTE_READERS},
                **{f"write_bytes_{unit}": In(WritePort(depth, octets)) for unit in BYTE_WRITERS},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        depths = [max(2, depth) for depth in p.region_depths(Memory.ACTIVATIONS)]
        for prefix, readers, writers, shape in (
            ("", WORD_READERS, WORD_WRITERS, (p.rows, p.group)),
            ("bytes_", BYTE_READERS, BYTE_WRITERS, (1, p.rows * EXPONENT_BYTE)),
        ):
            ways = 1 if prefix else p.ways(Memory.ACTIVATIONS)
            if ways == 1:
                regions = [Banks(depth, *shape) for depth in depths]
            else:
                regions = [BeatBanks(depth, *shape, ways, p.beat_words) for depth in depths]
            for k, region in enumerate(regions):
                m.submodules[f"{prefix or 'words_'}{k}"] = region
            size = p.region_rows(Memory.ACTIVATIONS)
            ports = {unit: getattr(self, f"read_{prefix}{unit}") for unit in readers}
            if not prefix and p.beat_words > 1:
                rows = {k: self._one_of(m, k, x) for k, x in ports.items() if k not in VECTOR}
                ports |= rows
            reads = [region.read for region in regions]
            connect_readers(m, f"{prefix}read", size, reads, list(ports.values()))
            writes = [getattr(self, f"write_{prefix}{unit}") for unit in writers]
            if ways > 1:
                load, vector, collector = writes
                writes = [load, self._beat(vector, ways), one_row(collector, ways)]
            connect_writers(m, size // ways, [region.write for region in regions], writes)
        return m

    def _one_of(self, m: Module, unit: str, port: Any) -> SimpleNamespace:
        """Reads of a row among those that are read at once."""
        p = self.params
        beat = Signal(data.ArrayLayout(p.vector.group, p.rows), name=f"beat_{unit}")
        word = Signal(range(p.beat_words), name=f"word_{unit}")
        with m.If(port.enable):
            m.d.sync += word.eq(port.address[: len(word)])
        for own, words in zip(port.data, beat, strict=True):
            m.d.comb += own.eq(words.word_select(word, p.group))
        return SimpleNamespace(enable=port.enable, address=port.address, data=beat)

    def _beat(self, port: Any, ways: int) -> SimpleNamespace:
        """Writes of the rows of a beat among those that share a word."""
        p = self.params
        slot_bits, size = (ways - 1).bit_length(), p.beat_words
        rows = [Cat(words.word_select(k, p.group) for words in port.data) for k in range(size)]
        enabled = Const((1 << size) - 1, ways) << port.address[:slot_bits]
        return SimpleNamespace(
            enable=Mux(port.enable, enabled, 0)[:ways],
            address=port.address[slot_bits:],
            data=Cat(rows).replicate(ways // size),
        )


class WeightBuffer(wiring.Component):
    """Weight planes, ``planes_per_beat`` of every column in a row, and a memory of scales.

    A load writes as many rows at once as a beat of external memory holds. Loads alone write and
    gemms alone read, so that its regions need no ports of their own. With row groups the rows of
    ``beat_tiles`` tiles are read at once.
    """

    def __init__(self, params: AndaParams):
        planes, tiles = params.planes_per_beat * params.columns, params.beat_tiles
        rows = 1 if params.row_groups == 1 else tiles * params.mxu.weight_beats
        shapes = {
            Memory.WEIGHTS: ((params.weight_rows, planes, params.group), rows),
            Memory.SCALES: ((params.scale_rows, params.columns, FP16.bits), tiles),
        }
        self.planes, self.scales = (
            BeatBanks(*shape, params.ways(memory), together)
            for memory, (shape, together) in shapes.items()
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
