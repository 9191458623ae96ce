"""Control of a single APU, or of a whole array of them in step."""

from amaranth import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tilewright.golden.params.anda import MANTISSA_FIELD_BITS


class Sequencer(wiring.Component):
    """Takes planes, then passes each group's sum through the float path.

    A group's planes are taken in M + 1 cycles, two at least. Its sum then takes two more:
    ``complete``, it is normalised and multiplied by the scale (``multiply``), then added
    (``accumulate``). Only where a finished result still waits for room do ``accumulate``, then
    ``multiply``, then the planes of the next group wait.

    ``planes_valid`` and ``weights_valid`` offer a plane and its group's weights; ``take`` accepts
    the plane, ``take_weights`` says that the group is complete. ``finished``: a result is in
    the accumulator; it leaves in the cycle in which ``room`` is 1.

    ``scale_cycles``: ``accumulate`` is at least that many cycles after ``multiply``, and the next
    ``multiply`` not before it.
    """

    planes_valid: In(1)
    weights_valid: In(1)
    mantissa: In(MANTISSA_FIELD_BITS)
    first_group: In(1)
    last_group: In(1)
    room: In(1)

    ready: Out(1)  # for a plane
    take: Out(1)
    sign_beat: Out(1)
    fresh: Out(1)
    take_weights: Out(1)
    complete: Out(1)  # a group's sum is there and not multiplied yet
    group_mantissa: Out(MANTISSA_FIELD_BITS)  # of that group, until the next sign word is taken
    multiply: Out(1)
    accumulate: Out(1)
    restart: Out(1)  # the accumulated group is the first of its dot product
    finished: Out(1)

    def __init__(self, scale_cycles: int = 1):
        self.scale_cycles = scale_cycles
        super().__init__()

    def drive(self, datapath: wiring.Component) -> list:
        """Statements that put an APU's data path under this control."""
        return [
            datapath.take.eq(self.take),
            datapath.sign_beat.eq(self.sign_beat),
            datapath.fresh.eq(self.fresh),
            datapath.mantissa.eq(self.group_mantissa),
            datapath.complete.eq(self.complete),
            datapath.multiply.eq(self.multiply),
            datapath.accumulate.eq(self.accumulate),
            datapath.restart.eq(self.restart),
        ]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        planes = Signal(MANTISSA_FIELD_BITS)  # mantissa planes still due
        last_plane = Signal()
        first, last = Signal(), Signal()  # of the group whose planes are taken
        product, product_last = Signal(), Signal()  # to be accumulated
        m.d.comb += [
            self.sign_beat.eq(planes == 0),
            last_plane.eq(planes == 1),
            self.accumulate.eq(self._scaled(m, product) & (~self.finished | self.room)),
            self.multiply.eq(self.complete & (~product | self.accumulate)),
            self.ready.eq(self.weights_valid & (~self.complete | self.multiply)),
            self.take.eq(self.planes_valid & self.ready),
            self.take_weights.eq(self.take & last_plane),
        ]
        with m.If(self.take):
            m.d.sync += [self.fresh.eq(self.sign_beat), planes.eq(planes - 1)]
            with m.If(self.sign_beat):
                m.d.sync += [
                    planes.eq(self.mantissa),
                    self.group_mantissa.eq(self.mantissa),
                    first.eq(self.first_group),
                    last.eq(self.last_group),
                ]
        with m.If(self.take_weights):
            m.d.sync += self.complete.eq(1)
        with m.Elif(self.multiply):
            m.d.sync += self.complete.eq(0)
        with m.If(self.multiply):
            m.d.sync += [product.eq(1), self.restart.eq(first), product_last.eq(last)]
        with m.Elif(self.accumulate):
            m.d.sync += product.eq(0)
        with m.If(self.accumulate):
            m.d.sync += self.finished.eq(product_last)
        with m.Elif(self.room):
            m.d.sync += self.finished.eq(0)
        return m

    def _scaled(self, m: Module, product: Value) -> Value:
        """Whether a product is there and has passed the registers after ``multiply``."""
        if self.scale_cycles == 1:
            return product
        left = Signal(range(self.scale_cycles), name="cycles_left")
        with m.If(self.multiply):
            m.d.sync += left.eq(self.scale_cycles - 1)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return product & (left == 0)
