"""Operand memories of the array's columns: weights, keys or values, and the array around them."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.block import Port
from tilewright.golden.params.formats import FP16
from tilewright.golden.params.harmonia import OPERAND_BITS, Mode
from tilewright.golden.params.harmonia_machine import HarmoniaParams, Memory
from tilewright.golden.params.machine import EXPONENT_BYTE
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.harmonia.array import HarmoniaArray
from tilewright.hw.machine.banks import BeatWritePort, WaySram
from tilewright.hw.machine.regions import connect_readers, connect_writers
from tilewright.hw.shared import Shared
from tilewright.hw.unit import payload_layout


def operand_address(params: HarmoniaParams) -> data.StructLayout:
    """Rows that one sum reads: of the operands, and of signs, exponents and scales."""
    rows = range(params.operand_rows)
    return data.StructLayout({"operands": rows, "facts": rows})


def column_word(params: HarmoniaParams) -> data.StructLayout:
    """A column's word of every operand memory."""
    return data.StructLayout(
        {
            "operands": params.group * OPERAND_BITS,
            "signs": params.group,
            "exponent": EXPONENT_BYTE,
            "scale": FP16.bits,
        }
    )


def write_layout(params: HarmoniaParams) -> data.StructLayout:
    """A row of any of the memories: ``enable`` has a bit for every column of each."""
    return data.StructLayout(
        {
            "enable": data.StructLayout({name: params.columns for name, _ in column_word(params)}),
            "row": operand_address(params),
            "data": data.ArrayLayout(column_word(params), params.columns),
        }
    )


def sums_layout(params: HarmoniaParams) -> data.StructLayout:
    """A sum as ``HarmoniaArrayParams`` has it, with two addresses."""
    _, sums = params.array.inputs
    members = {name: field.shape for name, field in payload_layout(sums)}
    if params.row_groups > 1:
        members["shared"] = 1  # every row group takes a row of its own, from that of the address on
    return data.StructLayout(members | {"address": operand_address(params)})


# The memories of a column by the name of their words.
MEMORIES = {
    "operands": Memory.OPERANDS,
    "signs": Memory.OPERAND_SIGNS,
    "exponent": Memory.OPERAND_EXPONENTS,
    "scale": Memory.SCALES,
}


def load_ports(params: HarmoniaParams) -> dict[str, BeatWritePort]:
    """How loads write rows of each memory, one or as many as a beat holds."""
    return {
        name: BeatWritePort(params.operand_rows, params.row_bits(memory), params.ways(memory))
        for name, memory in MEMORIES.items()
    }


class OperandColumn(wiring.Component):
    """The memories of one column, in regions.

    The converter writes words of one row, loads those of one or several; sums and stores read
    rows. Units that run at the same time use different regions.

    ``read_data`` is valid the cycle after ``read_enable``, ``stored`` after ``store_enable``.
    ``operands`` is ``read_data`` as the elements take it: signs and magnitudes, also for
    ``integers``, 4 bits in two's complement. With row groups it is an array, of one for each: all
    take the same row, or each one of its own where ``shared``.
    """

    def __init__(self, params: HarmoniaParams):
        self.params = params
        super().__init__(column_signature(params))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        rows = {name: self._regions(m, name) for name, _ in column_word(p)}
        word = self.read_data
        if p.row_groups == 1:
            self._give(m, self.operands, word.operands, word.scale)
            return m
        for k, given in enumerate(self.operands):
            own = (
                wire(m, f"own_{name}_{k}", Mux(self.shared, rows[name][k], word[name]))
                for name in ("operands", "scale")
            )
            self._give(m, given, *own)
        return m

    def _give(self, m: Module, given: data.View, operands: Value, scale: Value) -> None:
        """Operands of a group as elements take them."""
        word = self.read_data
        for lane in range(self.params.group):
            value = operands.word_select(lane, OPERAND_BITS)
            negative = value[-1]
            m.d.comb += [
                given.b_signs[lane].eq(Mux(self.integers, negative, word.signs[lane])),
                given.b[lane].eq(Mux(self.integers & negative, -value, value)),
            ]
        m.d.comb += [given.b_exponent.eq(word.exponent), given.scale.eq(scale)]

    def _regions(self, m: Module, name: str) -> Any:
        """The regions of one memory; with row groups, the rows of all that a sum reads."""
        p, memory, width = self.params, MEMORIES[name], column_word(self.params)[name].width
        ways, size = p.ways(memory), p.region_rows(memory)
        slot_bits = (ways - 1).bit_length()
        own = "operands" if name == "operands" else "facts"
        row, load = self.write_row[own], getattr(self, f"load_{name}")
        reads, writes = [], []
        for k, depth in enumerate(p.region_depths(memory)):
            m.submodules[f"{name}{k}"] = region = WaySram(depth, width, ways, p.row_groups)
            reads.append(
                SimpleNamespace(
                    enable=region.read_enable, address=region.read_address, data=region.read_data
                )
            )
            writes.append(
                SimpleNamespace(
                    enable=region.write_enable, address=region.write_address, data=region.write_data
                )
            )
        readers = [
            SimpleNamespace(enable=enable, address=rows[own], data=word[name])
            for enable, rows, word in (
                (self.read_enable, self.read_row, self.read_data),
                (self.store_enable, self.store_row, self.stored),
            )
        ]
        one = Mux(self.write_enable[name], Const(1, ways) << row[:slot_bits], 0)
        writers = [
            SimpleNamespace(enable=load.enable, address=load.address, data=load.data),
            SimpleNamespace(
                enable=one[:ways],
                address=row[slot_bits:],
                data=self.write_data[name].replicate(ways),
            ),
        ]
        found = self._together(m, name, readers) if p.row_groups > 1 else None
        connect_readers(m, name, size, reads, readers)
        connect_writers(m, size // ways, writes, writers)
        return found

    def _together(self, m: Module, name: str, readers: list[SimpleNamespace]) -> data.View:
        """Readers that take one of several rows read together; all that the first reads."""
        count, found = self.params.row_groups, []
        for j, reader in enumerate(readers):
            rows = Signal(data.ArrayLayout(len(reader.data), count), name=f"{name}_rows{j}")
            place = Signal(range(count), name=f"{name}_place{j}")
            with m.If(reader.enable):
                m.d.sync += place.eq(reader.address[: len(place)])
            m.d.comb += reader.data.eq(rows[place])
            reader.data = rows.as_value()
            found.append(rows)
        return found[0]


def column_signature(params: HarmoniaParams) -> wiring.Signature:
    word = column_word(params)
    operands = Out(payload_layout(Port("operands", params.array.operand_fields)))
    more = {"shared": In(1)} if params.row_groups > 1 else {}
    return wiring.Signature(
        {
            "write_enable": In(data.StructLayout({name: 1 for name, _ in word})),
            "write_row": In(operand_address(params)),
            "write_data": In(word),
            **{
                f"load_{name}": In(
                    BeatWritePort(params.operand_rows, field.width, params.ways(MEMORIES[name]))
                )
                for name, field in word
            },
            "read_enable": In(1),
            "read_row": In(operand_address(params)),
            "read_data": Out(word),
            "store_enable": In(1),
            "store_row": In(operand_address(params)),
            "stored": Out(word),
            "integers": In(1),
            "operands": operands.array(params.row_groups) if more else operands,
            **more,
        }
    )


class OperandArray(HarmoniaArray):
    """The array, whose columns hold whole operand memories: rows of all columns at a time.

    Numerics and timing of the sums are those of ``HarmoniaArray``.

    Members
    -------
    write : In
        A row of one or several memories, in the columns that are enabled.
    load_operands, load_signs, load_exponent, load_scale : In
        Rows of one memory that come from external memory.
    read : In
        Asks for a row of all columns, whose words are ``read_data`` in the next cycle.

    Writes of one cycle go to different regions.
    """

    def __init__(self, params: HarmoniaParams):
        self.system, self.params = params, params.array
        (results,) = params.array.outputs
        words = data.ArrayLayout(column_word(params), params.columns)
        wiring.Component.__init__(
            self,
            {
                "write": In(write_layout(params)),
                **{f"load_{name}": In(port) for name, port in load_ports(params).items()},
                "read": In(data.StructLayout({"enable": 1, "row": operand_address(params)})),
                "read_data": Out(words),
                "i": In(stream.Signature(sums_layout(params))),
                "o": Out(stream.Signature(payload_layout(results))),
            },
        )

    def _memories(self, m: Module) -> list[SimpleNamespace]:
        """Connect the reads of one column of the array, and those of whole rows."""
        p = self.system
        memories, self._held = [], []
        for c in range(p.columns):
            m.submodules[f"operands_{c}"] = column = Shared(
                f"harmonia_column_{p.operand_rows}x{p.group}_{p.regions}_regions"
                f"_{p.ways(Memory.OPERANDS)}_ways"
                + (f"_{p.row_groups}_row_groups" if p.row_groups > 1 else ""),
                column_signature(p),
                lambda: OperandColumn(p),
            )
            asked = SimpleNamespace(
                read_enable=Signal(name=f"sum_reads_{c}"),
                read_address=Signal(operand_address(p), name=f"sum_row_{c}"),
                read_data=column.read_data.as_value(),
            )
            m.d.comb += [
                *(
                    column.write_enable[name].eq(self.write.enable[name][c])
                    for name, _ in column_word(p)
                ),
                column.write_row.eq(self.write.row),
                column.write_data.eq(self.write.data[c]),
                column.read_enable.eq(asked.read_enable),
                column.read_row.eq(asked.read_address),
                column.store_enable.eq(self.read.enable),
                column.store_row.eq(self.read.row),
                self.read_data[c].eq(column.stored),
            ]
            for name, field in column_word(p):
                load, own = (getattr(unit, f"load_{name}") for unit in (self, column))
                m.d.comb += [
                    own.enable.eq(load.enable),
                    own.address.eq(load.address),
                    own.data.eq(Cat(row.word_select(c, field.width) for row in load.data)),
                ]
            self._held.append(column)
            memories.append(asked)
        return memories

    def _column(
        self, m: Module, c: int, valid: Value, beat: data.View, operand_bits: Sequence[Value]
    ) -> tuple:
        """The sums' operands are the column's words as signs and magnitudes."""
        column, given = self._held[c], [self._held[c].operands]
        m.d.comb += column.integers.eq(beat.mode == Mode.M8W4.code)
        if self.system.row_groups > 1:
            m.d.comb += column.shared.eq(beat.shared)
            given = list(column.operands)
        return super()._column(m, c, valid, beat, [x.as_value() for x in given])
