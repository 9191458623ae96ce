"""Weights on their way to the columns of APUs, double-buffered."""

from collections.abc import Sequence

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.anda import AndaMxuParams
from tilewright.golden.params.formats import FP16
from tilewright.hw.unit import payload_layout


class WeightDispatcher(wiring.Component):
    """Collects a group's weight planes beat by beat while the array uses the group before.

    ``valid``: ``weights`` are those of the present group, for each row group those of its columns;
    ``take`` says that the group is over. ``scales`` are those of the last group that is over.
    """

    def __init__(self, params: AndaMxuParams):
        self.params = params
        weights = data.ArrayLayout(params.weight_bits, params.group)
        weights = data.ArrayLayout(weights, params.columns)
        scales = data.ArrayLayout(FP16.bits, params.columns)
        super().__init__(
            {
                "i": In(stream.Signature(payload_layout(params.inputs[1]))),
                "take": In(1),
                "valid": Out(1),
                "weights": Out(_of_each(weights, params.row_groups)),
                "scales": Out(_of_each(scales, params.row_groups)),
            }
        )

    def of(self, given: data.View, row_group: int) -> data.View:
        """Weights or scales of a row group."""
        return given if self.params.row_groups == 1 else given[row_group]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        if p.row_groups > 1:
            return self._row_groups(m)
        beats = range(p.weight_beats)
        beat = self.i.p.planes.shape()
        coming = [Signal(beat, name=f"coming{k}", reset_less=True) for k in beats]
        present = [Signal(beat, name=f"present{k}", reset_less=True) for k in beats]
        coming_scales, present_scales, last_scales = (
            Signal(self.scales.shape(), name=f"{name}_scales", reset_less=True)
            for name in ("coming", "present", "last")
        )
        count = Signal(range(p.weight_beats + 1))  # beats of the next group
        complete, moves = Signal(), Signal()
        m.d.comb += [
            complete.eq(count == p.weight_beats),
            moves.eq(complete & (~self.valid | self.take)),
            self.i.ready.eq(~complete | moves),
            self.scales.eq(last_scales),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                old.eq(new) for old, new in zip(coming, [*coming[1:], self.i.p.planes], strict=True)
            ]
            with m.If(complete | (count == 0)):
                m.d.sync += [coming_scales.eq(self.i.p.scales), count.eq(1)]
            with m.Else():
                m.d.sync += count.eq(count + 1)
        with m.Elif(moves):
            m.d.sync += count.eq(0)
        with m.If(moves):
            m.d.sync += [new.eq(old) for old, new in zip(coming, present, strict=True)]
            m.d.sync += [present_scales.eq(coming_scales), self.valid.eq(1)]
        with m.Elif(self.take):
            m.d.sync += self.valid.eq(0)
        with m.If(self.take):
            m.d.sync += last_scales.eq(present_scales)
        # Planes in order of arrival, the sign plane first: (beat, plane of the beat, column).
        self._give(m, 0, [plane for held in present for plane in held])
        return m

    def _give(self, m: Module, row_group: int, planes: Sequence[Value]) -> None:
        """Planes of the columns of a row group as weights."""
        p = self.params
        for column in range(p.columns):
            own = planes[column :: p.columns][::-1]
            weights = self.of(self.weights, row_group)[column]
            m.d.comb += [weights[k].eq(Cat(plane[k] for plane in own)) for k in range(p.group)]

    def _row_groups(self, m: Module) -> Module:
        """Every row group holds the weights of a tile."""
        p, i = self.params, self.i
        tiles = i.p.planes.as_value(), i.p.scales.as_value()
        beats = p.row_groups // p.beat_tiles
        place = Signal(range(max(2, beats)))  # of the next beat
        complete, moves, takes = Signal(), Signal(), Signal()
        m.d.comb += [
            moves.eq(complete & (~self.valid | self.take)),
            i.ready.eq(~complete | moves),
            takes.eq(i.valid & i.ready),
        ]
        with m.If(takes):
            m.d.sync += [complete.eq(i.p.last), place.eq(Mux(i.p.last, 0, place + 1))]
        with m.Elif(moves):
            m.d.sync += complete.eq(0)
        with m.If(moves):
            m.d.sync += self.valid.eq(1)
        with m.Elif(self.take):
            m.d.sync += self.valid.eq(0)
        for k in range(p.row_groups):
            own = Signal(range(p.row_groups), name=f"tile{k}")
            with m.Switch(i.p.span):
                for span in p.spans:
                    with m.Case(span):
                        m.d.comb += own.eq(k >> span)
            slot_bits = (p.beat_tiles - 1).bit_length()
            for name, all_given, held in zip(
                ("planes", "scales"), tiles, (None, self.scales[k]), strict=True
            ):
                width = len(all_given) // p.beat_tiles
                coming, present = (
                    Signal(width, name=f"{when}_{name}{k}", reset_less=True)
                    for when in ("coming", "present")
                )
                with m.If(takes & (own[slot_bits:] == place)):
                    m.d.sync += coming.eq(all_given.word_select(own[:slot_bits], width))
                with m.If(moves):
                    m.d.sync += present.eq(coming)
                if held is None:
                    words = [present.word_select(n, p.group) for n in range(width // p.group)]
                    self._give(m, k, words)
                    continue
                last = Signal(width, name=f"last_scales{k}", reset_less=True)
                with m.If(self.take):
                    m.d.sync += last.eq(present)
                m.d.comb += held.eq(last)
        return m


def _of_each(layout: data.Layout, row_groups: int) -> data.Layout:
    """One for all rows, or one for each row group."""
    return layout if row_groups == 1 else data.ArrayLayout(layout, row_groups)
