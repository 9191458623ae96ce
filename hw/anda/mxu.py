"""The matrix computation unit: an output-stationary array of APUs."""

from amaranth import Module
from amaranth.lib.wiring import connect, flipped

from tilewright.golden.params.anda import AndaMxuParams
from tilewright.hw.anda.activation_dispatcher import ActivationDispatcher
from tilewright.hw.anda.apu import ApuDatapath, datapath_signature
from tilewright.hw.anda.output_dispatcher import OutputDispatcher
from tilewright.hw.anda.sequencer import Sequencer
from tilewright.hw.anda.weight_dispatcher import WeightDispatcher
from tilewright.hw.shared import Shared
from tilewright.hw.unit import Unit


class Mxu(Unit[AndaMxuParams]):
    """``params.rows`` x ``params.columns`` APUs under one control.

    A row shares its activation planes, a column its weights; every APU keeps its own sum.

    Numerics: :mod:`tilewright.golden.anda.dot_products`.
    Timing: M + 1 cycles per group if its weights come in as many beats or fewer; a tile's first
    row is offered 4 cycles after its last plane is taken. Tiles follow each other without a gap
    if each takes at least ``params.rows`` cycles; see :mod:`tilewright.golden.anda.cycles`, also
    for what is ``pipelined``.
    """

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.params
        m.submodules.sequencer = sequencer = Sequencer(p.scale_cycles)
        m.submodules.activations = activations = ActivationDispatcher(p.group, p.rows)
        m.submodules.weights = weights = WeightDispatcher(p)
        m.submodules.results = output = OutputDispatcher(p)
        connect(m, flipped(self.i1), weights.i)
        connect(m, output.o, flipped(self.o))
        m.d.comb += [
            sequencer.planes_valid.eq(self.i0.valid),
            sequencer.weights_valid.eq(weights.valid),
            sequencer.mantissa.eq(self.i0.p.mantissa),
            sequencer.first_group.eq(self.i0.p.first_group),
            sequencer.last_group.eq(self.i0.p.last_group),
            sequencer.room.eq(output.room),
            self.i0.ready.eq(sequencer.ready),
            activations.take.eq(sequencer.take),
            activations.sign_beat.eq(sequencer.sign_beat),
            activations.planes.eq(self.i0.p.planes),
            activations.exponents.eq(self.i0.p.exponents),
            weights.take.eq(sequencer.take_weights),
            output.offered.eq(sequencer.finished),
        ]
        signature = datapath_signature(p.numerics)
        for row in range(p.rows):
            for column in range(p.columns):
                m.submodules[f"apu_{row}_{column}"] = apu = Shared(
                    f"{p.slug}_apu", signature, lambda: ApuDatapath(p.numerics, p.pipelined)
                )
                m.d.comb += [
                    *sequencer.drive(apu),
                    apu.plane.eq(activations.selected[row]),
                    apu.exponent.eq(activations.group_exponents[row]),
                    apu.weights.eq(weights.of(weights.weights, row // p.group_rows)[column]),
                    apu.scale.eq(weights.of(weights.scales, row // p.group_rows)[column]),
                    output.sums[row][column].eq(apu.total),
                ]
        return m
