"""Mantissas aligned inside a chunk, times whole integer weights."""

from amaranth import Cat, Const, Module, Value

from tilewright.golden.params.formats import FP16
from tilewright.golden.params.pe import FignaChunkParams
from tilewright.hw.arith.float_unpack import wire
from tilewright.hw.pe.aligned import AlignedElement
from tilewright.hw.pe.figna import product_sum


class FignaChunk(AlignedElement[FignaChunkParams]):
    """Dot product of chunk-aligned activations and scaled integer weights, all bits at once.

    Numerics: :class:`tilewright.golden.params.pe.FignaChunkParams`.
    Timing: a beat a cycle, latency ``stages``; by default 4: chunk and group sum, scaling, sum,
    rounding to fp16.
    """

    def datapath(self, m: Module, valid: Value) -> None:
        beat = self.beat
        exponent = beat.exponent[: FP16.exponent_bits]
        distance = beat.exponent[FP16.exponent_bits :]
        p = self.params
        chunk = product_sum(m, beat.activation, beat.weight, p.adder, p.merged)
        placed = Cat(Const(0, self.params.guard_bits), chunk).as_signed()
        # An arithmetic shift: what is cut off rounds down.
        aligned = wire(m, "aligned", placed >> distance)
        self.give_group_sums(m, valid, aligned, beat.group_end, exponent, beat.scale, beat.last)
