"""The Anda-enhanced bit-serial processing unit (APU)."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from golden.params.anda import MANTISSA_FIELD_BITS, AndaNumerics
from golden.params.arith import FloatAddParams, FloatConvertParams, FloatMulParams
from golden.params.formats import FP16, FP32
from golden.params.stream import RegisterSliceParams
from hw.anda.activation_dispatcher import ActivationDispatcher
from hw.anda.normalise import Normalise
from hw.anda.plane_dot import PlaneDot
from hw.anda.sequencer import Sequencer
from hw.arith.float_add import FloatAdd
from hw.arith.float_convert import FloatConvert
from hw.arith.float_mul import FloatMul
from hw.stream.register_slice import RegisterSlice
from hw.unit import Unit

__all__ = ["Apu", "ApuDatapath", "datapath_signature"]


def datapath_signature(numerics: AndaNumerics) -> wiring.Signature:
    """Ports of :class:`ApuDatapath`."""
    return wiring.Signature(
        {
            "take": In(1),
            "sign_beat": In(1),
            "fresh": In(1),
            "normalise": In(1),
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

    Numerics: :mod:`golden.anda.gemm`. ``total`` is the fp32 sum.
    Timing: as the :class:`Sequencer` says. ``plane`` is the sign word, or a mantissa word XOR the
    sign word; ``exponent`` and ``mantissa`` count with ``normalise``, ``scale`` with
    ``multiply``.
    """

    def __init__(self, numerics: AndaNumerics):
        self.numerics = numerics
        super().__init__(datapath_signature(numerics))

    def elaborate(self, platform):
        m = Module()
        m.submodules.plane_dot = plane_dot = PlaneDot(self.numerics)
        m.submodules.normalise = normalise = Normalise(self.numerics)
        fmt = self.numerics.partial
        m.submodules.multiply = multiply = FloatMul(FloatMulParams(a=fmt, b=FP16, out=FP32))
        m.submodules.add = add = FloatAdd(FloatAddParams(a=FP32, b=FP32, out=FP32))
        partial = Signal(fmt.bits, reset_less=True)
        product = Signal(FP32.bits, reset_less=True)
        total = Signal(FP32.bits, reset_less=True)
        m.d.comb += [
            self.total.eq(total),
            plane_dot.step.eq(self.take),
            plane_dot.sign_beat.eq(self.sign_beat),
            plane_dot.fresh.eq(self.fresh),
            plane_dot.plane.eq(self.plane),
            plane_dot.weights.eq(self.weights),
            normalise.total.eq(plane_dot.total),
            normalise.exponent.eq(self.exponent),
            normalise.mantissa.eq(self.mantissa),
            multiply.i.valid.eq(1),
            multiply.o.ready.eq(1),
            multiply.i.p.a[0].eq(partial),
            multiply.i.p.b[0].eq(self.scale),
            add.i.valid.eq(1),
            add.o.ready.eq(1),
            add.i.p.a[0].eq(Mux(self.restart, 0, total)),
            add.i.p.b[0].eq(product),
        ]
        with m.If(self.normalise):
            m.d.sync += partial.eq(normalise.y)
        with m.If(self.multiply):
            m.d.sync += product.eq(multiply.o.p.y[0])
        with m.If(self.accumulate):
            m.d.sync += total.eq(add.o.p.y[0])
        return m


class Apu(Unit):
    """One dot product at a time; the next follows without a gap.

    Numerics: :mod:`golden.anda.gemm`.
    Timing: M + 1 cycles per group, for every M; the result is offered 4 cycles after the last
    plane is taken. With ``params.buffered`` two groups of weights fit inside, the present one and
    the next; otherwise weights stay on ``i1`` until their group's last plane is taken.
    """

    def elaborate(self, platform):
        m = Module()
        p = self.params
        m.submodules.sequencer = sequencer = Sequencer()
        m.submodules.datapath = datapath = ApuDatapath(p.numerics)
        source = self.i1
        if p.buffered:
            slice_params = RegisterSliceParams(width=p.inputs[1].bits)
            m.submodules.weights = weights = RegisterSlice(slice_params)
            m.d.comb += [
                weights.i.p.data.eq(self.i1.p),
                weights.i.valid.eq(self.i1.valid),
                self.i1.ready.eq(weights.i.ready),
            ]
            source = weights.o
        held = data.View(self.i1.p.shape(), source.payload.as_value())
        m.submodules.activations = activations = ActivationDispatcher(p.group, 1)
        scale = Signal(FP16.bits, reset_less=True)
        m.submodules.convert = convert = FloatConvert(FloatConvertParams(a=FP32, out=FP16))
        m.d.comb += [
            sequencer.planes_valid.eq(self.i0.valid),
            sequencer.weights_valid.eq(source.valid),
            sequencer.mantissa.eq(self.i0.p.mantissa),
            sequencer.first_group.eq(self.i0.p.first_group),
            sequencer.last_group.eq(self.i0.p.last_group),
            sequencer.room.eq(self.o.ready),
            self.i0.ready.eq(sequencer.ready),
            source.ready.eq(sequencer.take_weights),
            activations.take.eq(sequencer.take),
            activations.sign_beat.eq(sequencer.sign_beat),
            activations.planes[0].eq(self.i0.p.plane),
            activations.exponents[0].eq(self.i0.p.exponent),
            *sequencer.drive(datapath),
            datapath.plane.eq(activations.selected[0]),
            datapath.exponent.eq(activations.group_exponents[0]),
            datapath.weights.eq(held.weights),
            datapath.scale.eq(scale),
            convert.i.valid.eq(1),
            convert.o.ready.eq(1),
            convert.i.p.a[0].eq(datapath.total),
            self.o.valid.eq(sequencer.finished),
            self.o.p.result.eq(convert.o.p.y[0]),
        ]
        with m.If(sequencer.take_weights):
            m.d.sync += scale.eq(held.scale)
        return m
