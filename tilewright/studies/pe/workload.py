"""The workload on which processing elements are compared: dot products of three kinds of data.

Streams of dot products, each of ``LENGTH`` elements: activations and 4-bit weights of a language
model (``real``), random bits (``random``), or nothing but zeros (``zero``). Every PE gets the same
tensors; its bench (:class:`tilewright.verify.dots.ComparedPE`) turns them into its operands.

    python -m tilewright.studies.pe.workload

takes the real ones anew from SmolLM2-135M (`pip install 'tilewright[llm]'`), a layer of its middle
reading the default text: a quarter of the streams from each linear module. A stream is one output
of a projection, int4 in groups of 128, and is multiplied by the activations of successive tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.base.files import open_atomic
from tilewright.golden.params.block import BlockParams, Port
from tilewright.golden.params.formats import FP16
from tilewright.golden.payload import Columns
from tilewright.golden.weights import WEIGHT_GROUP, Weights
from tilewright.verify import bench_of
from tilewright.verify.dots import GROUP, WEIGHT_BITS, ComparedArray, ComparedPE, Tensors

SAMPLES = Path(__file__).parents[1] / "records" / "pe_tensors.npy"
STREAMS, DOTS, LENGTH = 64, 3, 256
MODEL, LAYER, TOKENS, SEED = "smollm2", 15, 128, 7

_KIND = np.dtype(
    [
        ("activation", "<u2", (DOTS, LENGTH)),  # fp16 patterns
        ("weight", "i1", (LENGTH,)),
        ("scale", "<u2", (LENGTH // WEIGHT_GROUP,)),  # fp16 patterns
    ]
)


@cache
def samples() -> NDArray:
    """Return the committed samples, (streams,) of activation, weight and scale."""
    return np.load(SAMPLES)


def sampled() -> NDArray:
    """Take the same samples from the model itself."""
    from tilewright.golden.llm.block import captured
    from tilewright.golden.llm.load import load_model
    from tilewright.golden.llm.text import default_text

    model = load_model(MODEL)
    assert model.tokenizer is not None
    tokens = model.tokenizer.encode(default_text()[: 16 * TOKENS])[:TOKENS]
    modules = captured(model, tokens, LAYER, TOKENS)
    return drawn([(m.activations, list(m.integers.values())) for m in modules.values()])


def drawn(modules: Sequence[tuple[NDArray, Sequence[Weights]]]) -> NDArray:
    """Draw samples, equally many from each module: fp16 patterns (tokens, inputs) and weights."""
    rng = np.random.default_rng(SEED)
    streams = np.zeros(STREAMS, _KIND)
    for stream, (activations, projections) in zip(
        np.split(streams, len(modules)), modules, strict=True
    ):
        values = np.concatenate([w.values for w in projections])
        scales = np.concatenate([w.scales for w in projections])
        outputs, inputs = values.shape
        for one in stream:
            output = rng.integers(outputs)
            token = rng.integers(TOKENS - DOTS + 1)
            group = rng.integers((inputs - LENGTH) // WEIGHT_GROUP + 1)
            first = group * WEIGHT_GROUP
            one["activation"] = activations[token : token + DOTS, first : first + LENGTH]
            one["weight"] = values[output, first : first + LENGTH]
            one["scale"] = scales[output, group : group + LENGTH // WEIGHT_GROUP]
    return streams


KINDS = ("real", "random", "zero")


@dataclass(frozen=True)
class Workload:
    """Beats for every port and the results they must give."""

    beats: dict[str, list[list[int]]]  # port -> beats -> one integer per bit, a bit per stream
    results: list[list[int]]  # beats of ``o``, as ``beats``
    counted: range  # beats of the first port after the first dot products
    macs: int  # of one stream, while counting


def pe_bench(params: BlockParams) -> ComparedPE[BlockParams]:
    """Return the bench of a PE; a block that computes no dot products is refused."""
    bench = bench_of(params)
    if not isinstance(bench, ComparedPE):
        raise CommandError(
            f"{params.block} is not compared: its bench is no tilewright.verify.dots.ComparedPE"
        )
    return bench


def workload(
    params: BlockParams, kind: str, variant: str = "", real: NDArray | None = None
) -> Workload:
    """Make the workload of one PE: ``kind`` of data, ``variant`` of what its bench lists.

    ``real`` are samples other than the committed ones.
    """
    element = getattr(params, "pe", params)  # of an array
    group = getattr(element, "group", GROUP)
    if LENGTH % group:
        raise CommandError(f"groups of {params.block} must divide {LENGTH} values, not {group}")
    weight_bits = getattr(element, "weight_bits", WEIGHT_BITS)
    tensors = _tensors(kind, samples() if real is None else real, weight_bits, group)
    made = pe_bench(params).dot_products(params, tensors, variant)
    ports = {port.name: port for port in (*params.inputs, *params.outputs)}

    def bits(name: str, columns: Columns) -> list[list[int]]:
        return per_bit(ports[name], {n: _in_order(v) for n, v in columns.items()})

    beats = {name: bits(name, columns) for name, columns in made.columns.items()}
    total, before = len(next(iter(beats.values()))), made.unmeasured
    counted = range(before + (total - before) // DOTS, total)
    macs = (DOTS - 1) * LENGTH
    if isinstance(pe_bench(params), ComparedArray):
        macs *= params.rows * params.columns  # type: ignore[attr-defined]  # of all arrays
    return Workload(beats, bits("o", made.results), counted, macs)


def per_bit(port: Port, columns: Columns) -> list[list[int]]:
    """Turn columns (beats, streams, ...) into one integer per beat and bit, a bit per stream."""
    bits = []
    for field in port.fields:
        values = columns[field.name].astype(np.int64)
        values = values[..., np.newaxis] if field.count is None else values
        taken = (values[..., np.newaxis] >> np.arange(field.bits)) & 1
        bits.append(taken.reshape(*values.shape[:2], -1).astype(np.uint8))
    joined = np.concatenate(bits, axis=2).transpose(0, 2, 1)  # beats, bits, streams
    packed = np.packbits(joined, axis=2, bitorder="little")
    return [[int.from_bytes(word.tobytes(), "little") for word in beat] for beat in packed]


def _tensors(
    kind: str, found: NDArray, weight_bits: int = WEIGHT_BITS, group: int = GROUP
) -> Tensors:
    """The tensors of a kind, in groups of which each has one scale.

    Weights longer than 4 bits have random bits after these, shorter ones only their first bits;
    their scales change with their range.
    """
    rng = np.random.default_rng(SEED)
    shape = (STREAMS, DOTS, LENGTH)
    if kind == "zero":
        one = np.full((STREAMS, DOTS, LENGTH // group), 0x3C00)
        return Tensors(np.zeros(shape, np.int64), np.zeros(shape, np.int64), one, group)
    if kind == "random":
        # Exponents from the middle, so that no sum overflows and stays infinite.
        activation = rng.integers(0, 1 << 16, shape) & 0x83FF | (rng.integers(8, 23, shape) << 10)
        weight = rng.integers(-8, 8, shape)
        scale = rng.integers(0x2000, 0x3000, (STREAMS, DOTS, LENGTH // WEIGHT_GROUP))
    else:
        tensors = ("activation", "weight", "scale")
        real = {name: found[name].astype(np.int64) for name in tensors}
        activation = real["activation"]
        weight, scale = (  # the same for all dot products of a stream
            np.repeat(real[name][:, np.newaxis], DOTS, axis=1) for name in ("weight", "scale")
        )
    more = weight_bits - WEIGHT_BITS
    if more > 0:
        weight = (weight << more) + rng.integers(0, 1 << more, (STREAMS, 1, LENGTH))
    else:
        weight >>= -more
    scale = np.repeat(scale - (more << FP16.mantissa_bits), WEIGHT_GROUP, axis=-1)[..., ::group]
    return Tensors(activation, weight, scale, group)


def _in_order(values: NDArray) -> NDArray:
    """Turn (streams, dots, beats, ...) into (beats of all dots, streams, ...)."""
    return np.moveaxis(values.reshape(len(values), -1, *values.shape[3:]), 0, 1)


if __name__ == "__main__":
    with open_atomic(SAMPLES) as file:
        np.save(file, sampled())
