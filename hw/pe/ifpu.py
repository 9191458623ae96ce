"""Aligned mantissas times one bit of every weight at a time."""

from amaranth import Const, Module, Mux, Value

from hw.arith.adder_tree import tree_sum
from hw.arith.float_unpack import wire
from hw.pe.aligned import AlignedElement

__all__ = ["Ifpu"]


class Ifpu(AlignedElement):
    """Dot product of aligned activations and scaled integer weights, bit-serial in the weight.

    Numerics: :class:`golden.params.pe.IfpuParams`.
    Timing: a beat a cycle, latency ``weight_bits`` + 3: a stage per weight bit, of which the last
    also adds to the group sum; scaling, sum, rounding to fp16.
    """

    def datapath(self, m: Module, valid: Value) -> None:
        p, beat = self.params, self.i.p
        values = [_value(a) for a in beat.activation]
        weights = list(beat.weight)
        rest = [beat.group_end, beat.exponent, beat.scale, beat.last]
        total: Value = Const(0)
        for bit in reversed(range(p.weight_bits)):
            chosen = [Mux(w[bit], v, 0) for v, w in zip(values, weights, strict=True)]
            plane = wire(m, f"plane_{bit}", tree_sum(chosen))
            # The top bit of two's complement counts negative; sums double from bit to bit.
            total = -plane if bit == p.weight_bits - 1 else (total << 1) + plane
            total = wire(m, f"total_{bit}", total)
            if bit:
                names = [f"value_{k}" for k in range(p.lanes)]
                names += [f"weight_{k}" for k in range(p.lanes)]
                names += ["group_end", "exponent", "scale", "last", "total"]
                weights = [w[:bit] for w in weights]
                state = dict(zip(names, [*values, *weights, *rest, total], strict=True))
                valid, *state = self.registered(m, f"bit_{bit}", valid, **state)
                values, weights = state[: p.lanes], state[p.lanes : 2 * p.lanes]
                *rest, total = state[2 * p.lanes :]
        self.give_group_sums(m, valid, total, *rest)


def _value(activation: Value) -> Value:
    """Two's complement of a mantissa with its sign on top."""
    mantissa, sign = activation[:-1], activation[-1]
    return Mux(sign, -mantissa, mantissa)
