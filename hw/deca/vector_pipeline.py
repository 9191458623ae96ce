"""The shared pipeline: dequantisation, expansion and scaling, one chunk a cycle."""

from functools import reduce
from operator import or_
from types import SimpleNamespace
from typing import NamedTuple

from amaranth import Cat, Const, Module, Mux, ShapeLike, Signal, Value, ValueCastable
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.deca import (
    CODE_BITS,
    ERROR_BITS,
    LUT_ENTRIES,
    DecaParams,
    ScaleKind,
    TileError,
)
from tilewright.hw.arith.expand import move_up
from tilewright.hw.arith.shifter import shift_right_sticky
from tilewright.hw.deca.layout import SHIFT_WORD_BITS, chunk_index_bits, scale_bits, step_layout
from tilewright.hw.deca.lut_array import LutArray
from tilewright.hw.deca.scaler import SCALE, Scaler, group_sizes, spread_scales
from tilewright.hw.deca.used_bits import Segment, used_codes, used_scales

LOOKED_UP = [q for q in CODE_BITS if q <= 8]  # wider elements are the values themselves


class VectorPipeline(wiring.Component):
    """Turns steps into chunks of a tile; used by one loader at a time, a whole tile each.

    A step that enters is never held up: the loaders offer it only when its row of TOut is free.
    ``kill[k]`` makes everything of loader k vanish from every stage.

    Timing: ``latency`` cycles from the last step of a vector operation to its chunk at ``o``.
    Registers: step; aligned codes; LUT; SD; DD; those of the scaler. A register is loaded only with
    a step, and only those of its bits that the step's configuration uses.
    """

    latency = 5 + Scaler.latency

    def __init__(self, params: DecaParams):
        self.params = params
        out = data.StructLayout(
            {
                "chunk": chunk_index_bits(params),
                "int8": 1,
                "elements": data.ArrayLayout(16, params.lanes),
                "write": 1,  # the chunk is good
                "final": 1,  # the tile ends with it
                "error": ERROR_BITS,
            }
        )
        super().__init__(
            {
                "valid": In(1),
                "loader": In(range(params.loaders)),
                "step": In(step_layout(params)),
                "kill": In(params.loaders),
                "o_valid": Out(params.loaders),
                "o": Out(out),
                "busy": Out(1),
                "lut_write": In(1),
                "lut_read": In(1),  # only while the pipeline is empty
                "lut_address": In(range(LUT_ENTRIES)),
                "lut_write_value": In(16),
                "lut_read_value": Out(16),  # a cycle after lut_read
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self.stages: list[Value] = []
        m.submodules.lut = lut = LutArray(self.params)
        m.submodules.scaler = scaler = Scaler(self.params)
        aligned = self._align(m, self._choose(m))
        window, sd = self._pack(m, lut, self._look_up(m, lut, aligned))
        spread, e_powers = self._spread(m, window, sd)
        self._give(m, *self._scale(m, scaler, spread, e_powers))
        return m

    def _registered(
        self, m: Module, name: str, stage: "_Stage", used: dict[str, list[Segment]] | None = None
    ) -> "_Stage":
        """The stage after ``stage``.

        Only those segments of a value in ``used`` that are used now are loaded. The bitmask and
        the distances of a dense tile are always the same: they are loaded once for many.
        """
        valid, loader, values = stage.valid, stage.loader, vars(stage.values)
        v = Signal(name=f"{name}_valid")
        k = Signal.like(loader, name=f"{name}_loader")
        held = {
            n: Signal(_shape(x), name=f"{name}_{n}", reset_less=n != "dense")
            for n, x in values.items()
        }
        used = dict(used or {})
        for n in ("distance", "mask"):
            if n in values:
                used[n] = [(slice(None), ~(values["dense"] & held["dense"]))]
        m.d.sync += v.eq(valid & ~self.kill.bit_select(loader, 1))
        with m.If(valid):
            m.d.sync += k.eq(loader)
            m.d.sync += [held[n].eq(x) for n, x in values.items() if n not in used]
        for n, segments in used.items():
            for bits, wanted in segments:
                with m.If(valid & wanted):
                    m.d.sync += Value.cast(held[n])[bits].eq(Value.cast(values[n])[bits])
        self.stages.append(v)
        return _stage(v, k, held)

    def _choose(self, m: Module) -> "_Stage":
        """s: the step, chosen from those of the loaders."""
        p = self.params
        config = self.step.config
        fields = {name: self.step[name] for name in step_layout(p).members}
        # A step that only carries an error has any bitmask.
        fields["dense"] = ~config.sparse & (self.step.error == TileError.OK)
        stage = _stage(self.valid, self.loader, fields)
        used = {
            "codes": used_codes(p, config, SHIFT_WORD_BITS),
            "scales": used_scales(p, config, SHIFT_WORD_BITS),
        }
        return self._registered(m, "s", stage, used)

    def _align(self, m: Module, stage: "_Stage") -> "_Stage":
        """a: codes aligned to a bit."""
        p, s = self.params, stage.values
        codes, _ = shift_right_sticky(s.codes, s.offset)
        scales, _ = shift_right_sticky(s.scales, Cat(Const(0, 3), s.scale_offset))
        values = {
            "config": s.config,
            "last": s.last,
            "final": s.final,
            "chunk": s.chunk,
            "dense": s.dense,
            "mask": s.mask,
            "distance": s.distance,
            "scales": scales[: scale_bits(p)],
            "error": s.error,
            # One bit per width of codes that are looked up: chooses between them at once.
            "width": Cat(s.config.code_bits == q for q in LOOKED_UP),
            "step": s.step,
            "codes": codes[: p.line_bits],
        }
        used = {"codes": used_codes(p, s.config), "scales": used_scales(p, s.config)}
        return self._registered(m, "a", _stage(stage.valid, stage.loader, values), used)

    def _look_up(self, m: Module, lut: LutArray, stage: "_Stage") -> "_Stage":
        """l: lookup; elements of 16 bits go on as they are."""
        p, a = self.params, stage.values
        a_plain = a.config.code_bits == 16
        for j, code in enumerate(lut.codes):
            by_width = (
                Mux(chosen, a.codes.word_select(j, q), 0)
                for chosen, q in zip(a.width, LOOKED_UP, strict=True)
                if j < p.lookups(q)
            )
            m.d.comb += code.eq(reduce(or_, by_width))
        with m.If(self.lut_read):
            m.d.comb += lut.codes[0].eq(self.lut_address)
        m.d.comb += [
            lut.eight.eq(a.width[LOOKED_UP.index(8)] | self.lut_read),
            lut.seven.eq(a.width[LOOKED_UP.index(7)]),
            lut.enable.eq((stage.valid & ~a_plain) | self.lut_read),
            lut.write.eq(self.lut_write),
            lut.write_address.eq(self.lut_address),
            lut.write_value.eq(self.lut_write_value),
            self.lut_read_value.eq(lut.values[0]),
        ]
        config = stage.values.config
        used = {"codes": [(slice(None), config.code_bits == 16)], "scales": used_scales(p, config)}
        return self._registered(m, "l", stage, used)

    def _pack(self, m: Module, lut: LutArray, stage: "_Stage") -> tuple["_Stage", list[Signal]]:
        """sd: the window's values, packed, lane by lane as their step arrives."""
        p, x = self.params, stage.values
        sd = [Signal(16, name=f"sd{k}", reset_less=True) for k in range(p.lanes)]
        plain = x.config.code_bits == 16
        eight, seven = (x.width[LOOKED_UP.index(q)] for q in (8, 7))
        line = p.lookups(16)
        for k, lane in enumerate(sd):
            turn = Mux(
                plain,
                x.step == k // line,
                Mux(
                    eight,
                    x.step == k // p.lookups(8),
                    Mux(seven, x.step == k // p.lookups(7), x.step == k // p.lookups(6)),
                ),
            )
            with m.If(stage.valid & turn):
                m.d.sync += lane.eq(Mux(plain, x.codes.word_select(k % line, 16), lut.values[k]))
        keep = {n: v for n, v in vars(x).items() if n not in ("codes", "step", "last", "width")}
        keep |= {
            "sizes": group_sizes(p, x.config.group_log2),
            "power_of_two": x.config.scale == ScaleKind.E8M0.code,
        }
        window = _stage(stage.valid & x.last, stage.loader, keep)
        used = {"scales": used_scales(p, x.config)}
        return self._registered(m, "d", window, used), sd

    def _spread(self, m: Module, stage: "_Stage", sd: list[Signal]) -> tuple["_Stage", Signal]:
        """dd: spread over the lanes by the bitmask; scales next to their elements."""
        p, d = self.params, stage.values
        moved: list = sd
        for bit in reversed(range((p.lanes - 1).bit_length())):
            moved = [
                _wire(m, f"moved{bit}_{k}", word)
                for k, word in enumerate(move_up(moved, list(d.distance), bit))
            ]
        dense = [Mux(keep, word, 0) for keep, word in zip(d.mask, moved, strict=True)]
        scale = Signal(data.ArrayLayout(SCALE, p.lanes))
        for k, parts in enumerate(spread_scales(p, d.scales, d.power_of_two, d.sizes)):
            m.d.comb += [scale[k][n].eq(value) for n, value in parts.items()]
        # Between powers of two only exponent and NaN can differ.
        scaled = d.config.scale != ScaleKind.NONE.code
        e_powers = Signal()  # the scales in ``e`` are powers of two
        with m.If(stage.valid & scaled):
            m.d.sync += e_powers.eq(d.power_of_two)
        varied = scaled & ~(d.power_of_two & e_powers)
        used = {
            "scale": [
                (_field(k, n), scaled if n in ("biased", "nan") else varied)
                for k in range(p.lanes)
                for n in SCALE.members
            ]
        }
        values = {n: getattr(d, n) for n in ("chunk", "config", "final", "error", "dense", "mask")}
        values |= {"values": Cat(dense), "scale": scale, "keep": ~scaled}
        e = self._registered(m, "e", _stage(stage.valid, stage.loader, values), used)
        return e, e_powers

    def _scale(
        self, m: Module, scaler: Scaler, stage: "_Stage", e_powers: Signal
    ) -> tuple["_Stage", list[Value]]:
        """Scaled: the registers are inside the scaler."""
        p, e = self.params, stage.values
        m.d.comb += [
            scaler.valid.eq(stage.valid),
            scaler.i.eq(e.values),
            scaler.scale.eq(e.scale),
            scaler.powers.eq(e_powers),
            scaler.keep.eq(e.keep),
        ]
        kept = {"chunk": e.chunk, "int8": e.config.int8, "final": e.final}
        kept |= {"error": e.error, "dense": e.dense, "mask": e.mask}
        stage = _stage(stage.valid, stage.loader, kept)
        for k in range(Scaler.latency):
            stage = self._registered(m, f"f{k}", stage)

        # A position without an element stays +0, whatever its group's scale.
        elements = [Mux(stage.values.mask[k], scaler.o[k], 0) for k in range(p.lanes)]
        return stage, elements

    def _give(self, m: Module, stage: "_Stage", elements: list[Value]) -> None:
        g = stage.values
        chosen = Mux(stage.valid, Const(1, self.params.loaders) << stage.loader, 0)
        m.d.comb += [
            self.o_valid.eq(chosen & ~self.kill),
            self.o.chunk.eq(g.chunk),
            self.o.int8.eq(g.int8),
            self.o.write.eq(g.error == TileError.OK),
            self.o.final.eq(g.final),
            self.o.error.eq(g.error),
            self.busy.eq(Cat(self.stages).any()),
        ]
        m.d.comb += [self.o.elements[k].eq(element) for k, element in enumerate(elements)]


class _Stage(NamedTuple):
    """Registers between two parts of the pipeline."""

    valid: Value
    loader: Value
    values: SimpleNamespace


def _stage(valid: Value, loader: Value, values: dict) -> _Stage:
    return _Stage(valid, loader, SimpleNamespace(**values))


def _wire(m: Module, name: str, value: Value) -> Signal:
    """``value`` under a name, so that several uses share it."""
    signal = Signal(value.shape(), name=name)
    m.d.comb += signal.eq(value)
    return signal


def _field(lane: int, name: str) -> slice:
    """Bits of a field of one lane's scale."""
    start = lane * SCALE.size + SCALE[name].offset
    return slice(start, start + SCALE[name].width)


def _shape(value: Value | ValueCastable) -> ShapeLike:
    return value.shape() if isinstance(value, ValueCastable) else Value.cast(value).shape()
