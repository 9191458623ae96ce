"""A processing element for int8 x int8, from nothing to a block that every command knows.

Parameters, golden model, RTL, bench and registration, in the order in which they are written. Put
this folder on ``PYTHONPATH`` and name the module in ``TILEWRIGHT_BLOCKS``::

    export PYTHONPATH=docs/examples/pe_int_int TILEWRIGHT_BLOCKS=pe_int_int
    tilewright list pe_int_int
    tilewright simulate pe_int_int
    tilewright synth pe_int_int
    tilewright compare pe --block pe_int_int
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from amaranth import Module, Value, signed
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.arith import add, convert, int_to_float, multiply
from tilewright.golden.bits import decode, encode
from tilewright.golden.params import resolve
from tilewright.golden.params.arith import IntToFloatParams
from tilewright.golden.params.block import Field, within
from tilewright.golden.params.formats import FP16, FP32, FloatFormat
from tilewright.golden.params.pe import GroupScaledParams
from tilewright.golden.payload import Columns
from tilewright.hw import catalog
from tilewright.hw.arith.adder_tree import tree_sum
from tilewright.hw.arith.int_to_float import IntToFloat
from tilewright.hw.pe.common import ProcessingElement, combinational
from tilewright.verify import benches
from tilewright.verify.bench import PortColumns
from tilewright.verify.dots import PEBench, Tensors, in_beats
from tilewright.verify.stimuli.dots import flags, scales, unused, weights


# 1. Parameters: fields, presets, ports and timing, in one frozen object.
@dataclass(frozen=True, kw_only=True)
class IntIntParams(GroupScaledParams):
    """Signed integer activations times signed integer weights.

    The sum of a group is exact. It is rounded to ``partial``, multiplied by ``scale`` (that of the
    activations times that of the weights) and accumulated in fp32; ``exponent`` is ignored.
    """

    block: ClassVar[str] = "pe_int_int"
    summary: ClassVar[str] = "processing element, int8 x int8 with one scale per group"
    PRESETS: ClassVar = {
        "default": {},
        "small": {"lanes": 2, "group": 8, "activation_bits": 4, "weight_bits": 3},
    }

    activation_bits: Annotated[int, within(2, 8)] = 8
    weight_bits: int = 8
    partial: FloatFormat = FP32

    @property
    def activation(self) -> Field:
        return Field("activation", self.activation_bits, self.lanes, signed=True)

    @property
    def sum_bits(self) -> int:
        """Bits of a group's sum: no product and no sum of ``group`` of them overflows."""
        return self.activation_bits + self.weight_bits + (self.group - 1).bit_length()

    @property
    def latency(self) -> int:
        """Group sum, scaling, accumulation, rounding to fp16."""
        return 4


# 2. Golden model: the specification, on arrays of integers. It knows no clock.
def int_int_dot(
    params: IntIntParams,
    activation: NDArray,
    weight: NDArray,
    scale: NDArray,
    group_end: NDArray,
) -> NDArray:
    """Compute dot products of (..., beats, lanes), as fp16 patterns of shape (...)."""
    sums = (activation.astype(np.int64) * weight).sum(axis=-1)
    total = np.zeros(sums.shape[:-1], np.int64)
    accumulator = np.zeros(total.shape, np.uint32)  # fp32 patterns
    for beat in range(sums.shape[-1]):
        total = total + sums[..., beat]
        partial = int_to_float(params.partial, total)
        scaled = multiply(params.partial, FP16, FP32, partial, scale[..., beat])
        end = group_end[..., beat] != 0
        accumulator = np.where(end, add(FP32, FP32, FP32, accumulator, scaled), accumulator)
        total = np.where(end, 0, total)
    return convert(FP32, FP16, accumulator)


# 3. RTL: the handshake, accumulators and the way to fp16 come from ProcessingElement.
class IntInt(ProcessingElement):
    """Dot product of integer activations and integer weights.

    Numerics: :class:`IntIntParams`.
    Timing: a beat a cycle, latency 4: group sum, scaling, accumulation, rounding to fp16.
    """

    params: IntIntParams

    def datapath(self, m: Module, valid: Value) -> None:
        p, beat = self.params, self.i.p
        products = tree_sum([a * w for a, w in zip(beat.activation, beat.weight, strict=True)])
        # A group's scale and flag wait with its sum.
        _, scale, last = self.registered(
            m, "ended", valid & beat.group_end, scale=beat.scale, last=beat.last
        )
        complete, total = self.accumulated(
            m,
            "group",
            valid,
            beat.group_end,
            signed(p.sum_bits),
            lambda carried: carried + products,
        )
        to_float = IntToFloat(IntToFloatParams(bits=p.sum_bits, out=p.partial))
        partial = combinational(m, "partial", to_float, a=total)
        self.give_scaled(m, complete, partial, scale, last)


# 4. Bench: what goes in, what must come out, and how the tensors of a comparison become operands.
class IntIntBench(PEBench[IntIntParams]):
    """Bench of the int8 x int8 PE: random integers, whole beats of the extremes among them."""

    def stimulus(self, params: IntIntParams, rng: Generator, cases: int) -> PortColumns:
        highest = (1 << (params.activation_bits - 1)) - 1
        shape = (cases, params.lanes)
        activation = rng.integers(-highest - 1, highest, shape, endpoint=True)
        extreme = rng.random(cases) < 0.2
        activation[extreme] = rng.choice([-highest - 1, highest], (extreme.sum(), 1))
        operands = {"activation": activation, "weight": weights(params, rng, cases)}
        columns = operands | unused(rng, cases) | flags(params, rng, cases)
        return {"i": columns | {"scale": scales(rng, cases)}}

    def dot(self, params: IntIntParams, beats: Columns) -> NDArray:
        fields = ("activation", "weight", "scale", "group_end")
        return int_int_dot(params, *(beats[name] for name in fields))

    def operands(self, params: IntIntParams, tensors: Tensors) -> Columns:
        """Quantise the activations of each group, by a scale that joins that of the weights."""
        x = in_beats(params, tensors)
        values = decode(FP16, tensors.groups)
        highest = (1 << (params.activation_bits - 1)) - 1
        largest = np.abs(values).max(axis=-1)
        step = np.where(largest > 0, largest, 1) / highest
        integers = np.rint(values / step[..., np.newaxis]).astype(np.int64)
        scale = encode(FP16, decode(FP16, tensors.scale) * step).astype(np.int64)
        return x | {
            "activation": integers.reshape(x["activation"].shape),
            "scale": np.repeat(scale, tensors.group // params.lanes, axis=-1),
        }


# 5. Registration: one entry for each layer.
resolve.register(IntIntParams)
catalog.register("pe_int_int", IntInt)
benches.register("pe_int_int", IntIntBench)
