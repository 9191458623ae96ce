"""The Anda-enhanced bit-serial processing unit (APU)."""

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.anda import (
    MANTISSA_FIELD_BITS,
    MXU_SCALE_REGISTERS,
    AndaApuParams,
    AndaNumerics,
)
from tilewright.golden.params.arith import FloatAddParams, FloatConvertParams, FloatMulParams
from tilewright.golden.params.formats import FP16, FP32
from tilewright.hw.anda.activation_dispatcher import ActivationDispatcher
from tilewright.hw.anda.normalise import Normalise
from tilewright.hw.anda.plane_dot import PlaneDot
from tilewright.hw.anda.sequencer import Sequencer
from tilewright.hw.arith.accumulate import Accumulate
from tilewright.hw.arith.float_add import SUM_REGISTERS, FloatAdd
from tilewright.hw.arith.float_convert import FloatConvert
from tilewright.hw.arith.float_mul import PRODUCT_REGISTERS, FloatMul
from tilewright.hw.arith.lanes import apply
from tilewright.hw.stream.register_slice import RegisterSlice
from tilewright.hw.unit import Unit, word_layout

# Control bits of a plane, and of ``multiply``.
_OF_PLANES = (
    *("take", "sign_beat", "fresh", "plane", "weights"),
    *("multiply", "exponent", "mantissa", "scale"),
)


def datapath_signature(numerics: AndaNumerics) -> wiring.Signature:
    """Ports of :class:`ApuDatapath`."""
    return wiring.Signature(
        {
            "take": In(1),
            "sign_beat": In(1),
            "fresh": In(1),
            "complete": In(1),
            "multiply": In(1),
            "accumulate": In(1),
            "restart": In(1),
            "plane": In(numerics.group),
            "weights": In(data.ArrayLayout(numerics.weight_bits, numerics.group)),
            "exponent": In(FP16.exponent_bits),
            "mantissa": In(MANTISSA_FIELD_BITS),
            "scale": In(FP16.bits),
            "total": Out(FP32.bits),
        }
    )


class ApuDatapath(wiring.Component):
    """All of an APU but its control, its weights and its output.

    Numerics: :mod:`tilewright.golden.anda.dot_products`. ``total`` is the fp32 sum.
    Timing: as the ``Sequencer`` says. ``plane`` is the sign word, or a mantissa word XOR the
    sign word; ``exponent``, ``mantissa`` and ``scale`` count with ``multiply``. ``pipelined``: all
    of these pass a register first; the sum and what belongs to it are held from ``multiply`` on,
    and pass ``sum(MXU_SCALE_REGISTERS)`` registers on their way to ``total``.
    """

    def __init__(self, numerics: AndaNumerics, pipelined: bool = False):
        self.numerics, self.pipelined = numerics, pipelined
        super().__init__(datapath_signature(numerics))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.plane_dot = plane_dot = PlaneDot(self.numerics)
        if self.pipelined:
            return self._pipelined(m, plane_dot)
        m.submodules.normalise = normalise = Normalise(self.numerics)
        fmt = self.numerics.partial
        m.submodules.multiply = multiply = FloatMul(FloatMulParams(a=fmt, b=FP16, out=FP32))
        m.submodules.accumulate = accumulate = Accumulate()
        product = Signal(FP32.bits, reset_less=True)
        total = Signal(FP32.bits, reset_less=True)
        m.d.comb += [
            self.total.eq(total),
            plane_dot.step.eq(self.take),
            plane_dot.sign_beat.eq(self.sign_beat),
            plane_dot.fresh.eq(self.fresh),
            plane_dot.plane.eq(self.plane),
            plane_dot.weights.eq(self.weights),
            # Held at 0 while a group grows, so that the rest does not follow every step of it.
            normalise.total.eq(plane_dot.total & self.complete.replicate(len(plane_dot.total))),
            normalise.exponent.eq(self.exponent),
            normalise.mantissa.eq(self.mantissa),
            multiply.i.valid.eq(1),
            multiply.o.ready.eq(1),
            multiply.i.p.a[0].eq(normalise.y),
            multiply.i.p.b[0].eq(self.scale),
            accumulate.restart.eq(self.restart),
            accumulate.total.eq(total),
            accumulate.product.eq(product),
        ]
        with m.If(self.multiply):
            m.d.sync += product.eq(multiply.o.p.y[0])
        with m.If(self.accumulate):
            m.d.sync += total.eq(accumulate.y)
        return m

    def _pipelined(self, m: Module, plane_dot: PlaneDot) -> Module:
        before, within, behind = MXU_SCALE_REGISTERS
        fmt = self.numerics.partial
        m.submodules.normalise = normalise = Normalise(self.numerics, before)
        product = FloatMul(FloatMulParams(a=fmt, b=FP16, out=FP32, latency=within))
        adder = FloatAdd(FloatAddParams(a=FP32, b=FP32, out=FP32, latency=behind))
        if len(product.lane_stages()) == len(PRODUCT_REGISTERS):  # not of an fp32 sum
            product.registers_behind = PRODUCT_REGISTERS
        adder.registers_behind = SUM_REGISTERS
        scale, total = Signal(FP16.bits, reset_less=True), Signal(FP32.bits, reset_less=True)
        # Planes and weights arrive from distant memories.
        near = {
            name: Signal(self.signature.members[name].shape, name=f"near_{name}")
            for name in _OF_PLANES
        }
        m.d.sync += [held.eq(getattr(self, name)) for name, held in near.items()]
        with m.If(near["multiply"]):
            m.d.sync += [
                normalise.total.eq(plane_dot.total),
                normalise.exponent.eq(near["exponent"]),
                normalise.mantissa.eq(near["mantissa"]),
                scale.eq(near["scale"]),
            ]
        scaled = apply(m, "multiply", product, a=normalise.y, b=scale)
        grown = apply(m, "accumulate", adder, a=Mux(self.restart, 0, total), b=scaled)
        with m.If(self.accumulate):
            m.d.sync += total.eq(grown)
        m.d.comb += [
            self.total.eq(total),
            plane_dot.step.eq(near["take"]),
            *(
                getattr(plane_dot, name).eq(near[name])
                for name in ("sign_beat", "fresh", "plane", "weights")
            ),
        ]
        return m


class Apu(Unit[AndaApuParams]):
    """One dot product at a time; the next follows without a gap.

    Numerics: :mod:`tilewright.golden.anda.dot_products`.
    Timing: M + 1 cycles per group, for every M; the result is offered 3 cycles after the last
    plane is taken, 4 where planes are ``registered``.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        m.submodules.sequencer = sequencer = Sequencer()
        m.submodules.datapath = datapath = ApuDatapath(p.numerics)
        beat, beat_valid, room = self._planes(m, sequencer.ready)
        if p.buffered:
            plane, exponent, source = self._operands_inside(
                m, sequencer.take, sequencer.sign_beat, beat
            )
        else:
            plane, source = beat.plane, self.i1
            exponent = Signal(FP16.exponent_bits, reset_less=True)
            with m.If(sequencer.take & sequencer.sign_beat):
                m.d.sync += exponent.eq(beat.exponent)
        held = data.View(self.i1.p.shape(), source.payload.as_value())
        scale = Signal(FP16.bits, reset_less=True)
        m.submodules.convert = convert = FloatConvert(FloatConvertParams(a=FP32, out=FP16))
        m.d.comb += [
            sequencer.planes_valid.eq(beat_valid),
            sequencer.weights_valid.eq(source.valid),
            sequencer.mantissa.eq(beat.mantissa),
            sequencer.first_group.eq(beat.first_group),
            sequencer.last_group.eq(beat.last_group),
            sequencer.room.eq(self.o.ready),
            self.i0.ready.eq(room),
            source.ready.eq(sequencer.take_weights),
            *sequencer.drive(datapath),
            datapath.plane.eq(plane),
            datapath.exponent.eq(exponent),
            datapath.weights.eq(held.weights),
            datapath.scale.eq(scale),
            convert.i.valid.eq(1),
            convert.o.ready.eq(1),
            convert.i.p.a[0].eq(
                Mux(sequencer.finished, datapath.total, 0) if p.isolated else datapath.total
            ),
            self.o.valid.eq(sequencer.finished),
            self.o.p.result.eq(convert.o.p.y[0]),
        ]
        with m.If(sequencer.take_weights):
            m.d.sync += scale.eq(held.scale)
        return m

    def _planes(self, m: Module, ready: Value) -> tuple:
        """The plane on offer, whether there is one, and whether another can follow."""
        if not self.params.registered:
            return self.i0.p, self.i0.valid, ready
        held, valid = _held(m, "held", self.i0)
        return held, valid, ~valid | ready

    def _operands_inside(self, m: Module, take: Value, sign_beat: Value, beat: data.View) -> tuple:
        """Planes with their signs applied, the group's exponent, and the stream of weights."""
        p = self.params
        if p.weight_buffers == 2:
            m.submodules.weights = weights = RegisterSlice(word_layout(p.inputs[1].bits))
            m.d.comb += [
                weights.i.p.data.eq(self.i1.p),
                weights.i.valid.eq(self.i1.valid),
                self.i1.ready.eq(weights.i.ready),
            ]
            source = weights.o
        else:
            source = stream.Signature(self.i1.p.shape()).create(path=("weights",))
            held, valid = _held(m, "weights", self.i1)
            m.d.comb += [
                source.payload.eq(held),
                source.valid.eq(valid),
                self.i1.ready.eq(~valid | source.ready),
            ]
        m.submodules.activations = activations = ActivationDispatcher(p.group, 1)
        m.d.comb += [
            activations.take.eq(take),
            activations.sign_beat.eq(sign_beat),
            activations.planes[0].eq(beat.plane),
            activations.exponents[0].eq(beat.exponent),
        ]
        return activations.selected[0], activations.group_exponents[0], source


def _held(m: Module, name: str, given: wiring.PureInterface) -> tuple[data.View, Signal]:
    """The beat that a port took last, and whether it took one when it could."""
    held = Signal(given.p.shape(), name=name, reset_less=True)
    valid = Signal(name=f"{name}_valid")
    with m.If(given.ready):
        m.d.sync += valid.eq(given.valid)
        with m.If(given.valid):
            m.d.sync += held.eq(given.p)
    return held, valid
