"""Counted loops: where a program goes back, and the index registers that move addresses."""

from collections.abc import Iterable, Mapping
from typing import Any

from amaranth import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.block import Field
from tilewright.golden.params.machine import (
    INDEX_SUFFIX,
    INDICES,
    LINE_FIELD,
    LOOP_FIELDS,
    LOOP_LEVELS,
    NUMBER_BITS,
    OPCODE_BITS,
    STRIDE_BITS,
)
from tilewright.hw.unit import field_shape

LOOP = data.StructLayout({f.name: field_shape(f) for f in LOOP_FIELDS})
_REGISTERS = data.ArrayLayout(LINE_FIELD, INDICES)
_LEVEL = data.StructLayout(
    {
        "left": LOOP["count"].shape,  # iterations left
        "start": NUMBER_BITS,  # the first instruction of the body
        "end": NUMBER_BITS,  # the one after its last
        "strides": data.ArrayLayout(STRIDE_BITS, INDICES),
        "before": _REGISTERS,  # index registers, as they were
    }
)


class Loops(wiring.Component):
    """The loops that run, the innermost last, and the index registers.

    ``enter`` begins ``loop``, whose own number is ``number``, unless it is ``refused``; ``loop``
    and ``number`` are there a cycle before. ``ends`` says that ``number`` is after the last
    instruction of the innermost loop; then ``turn`` makes it go back, or ends it, in one cycle,
    and ``following`` is the number from where the program goes on. ``clear`` forgets all loops.

    Members
    -------
    base : Out
        The first instruction that may still be fetched.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "clear": In(1),
                "number": In(NUMBER_BITS),
                "loop": In(LOOP),
                "enter": In(1),
                "refused": Out(1),
                "ends": Out(1),
                "turn": In(1),
                "following": Out(NUMBER_BITS),
                "base": Out(NUMBER_BITS),
                "indices": Out(_REGISTERS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = Signal(range(LOOP_LEVELS + 1))
        levels = Array(Signal(_LEVEL, name=f"level{k}") for k in range(LOOP_LEVELS))
        top = Signal(_LEVEL)  # of the innermost loop
        end = Signal(NUMBER_BITS)  # of ``loop``
        body = (self.number + 1)[:NUMBER_BITS]
        m.d.sync += end.eq(body + self.loop.body)
        for k in range(LOOP_LEVELS):
            with m.If(depth == k + 1):
                m.d.comb += top.eq(levels[k])
        m.d.comb += [
            self.refused.eq((depth == LOOP_LEVELS) | (depth.any() & (end > top.end))),
            self.ends.eq(depth.any() & (self.number == top.end)),
            self.following.eq(Mux(top.left.any(), top.start, self.number)),
            self.base.eq(Mux(depth.any(), levels[0].start, self.number)),
        ]
        moved = Cat(
            (i + s.as_signed())[:LINE_FIELD] for i, s in zip(self.indices, top.strides, strict=True)
        )
        with m.If(self.turn):
            m.d.sync += self.indices.eq(Mux(top.left.any(), moved, top.before.as_value()))
            with m.If(~top.left.any()):
                m.d.sync += depth.eq(depth - 1)
        for k in range(LOOP_LEVELS):
            with m.If(self.turn & (depth == k + 1)):
                m.d.sync += levels[k].left.eq(levels[k].left - 1)
            with m.If(self.enter & (depth == k)):
                m.d.sync += [
                    levels[k].left.eq(self.loop.count - 1),
                    levels[k].start.eq(body),
                    levels[k].end.eq(end),
                    levels[k].before.eq(self.indices),
                    *(levels[k].strides[i].eq(self.loop[f"stride{i + 1}"]) for i in range(INDICES)),
                ]
        with m.If(self.enter):
            m.d.sync += depth.eq(depth + 1)
        with m.If(self.clear):
            m.d.sync += [depth.eq(0), self.indices.eq(0)]
        return m


def add_indices(
    m: Module, fields: Mapping[Any, Iterable[Field]], word: Value, indices: data.View
) -> Signal:
    """``word``, an instruction with these ``fields`` by opcode, with its addresses moved."""
    moved = Signal(len(word), name="moved")
    registers = Array([0, *indices])
    m.d.comb += moved.eq(word)
    with m.Switch(word[:OPCODE_BITS]):
        for opcode, declared in fields.items():
            places, at = {}, OPCODE_BITS
            for f in declared:
                places[f.name] = slice(at, at + f.bits)
                at += f.bits
            addresses = [name for name in places if f"{name}{INDEX_SUFFIX}" in places]
            if not addresses:
                continue
            with m.Case(opcode):
                for name in addresses:
                    value = word[places[name]]
                    index = registers[word[places[f"{name}{INDEX_SUFFIX}"]]]
                    m.d.comb += moved[places[name]].eq((value + index)[: len(value)])
    return moved
