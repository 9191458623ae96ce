"""Benches of the processing elements that Anda is compared with."""

from typing import ClassVar, TypeVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tilewright.golden.arith import convert
from tilewright.golden.bits import decode, encode
from tilewright.golden.params.formats import BF16, FP16, FloatFormat
from tilewright.golden.params.pe import (
    AlignedParams,
    DecaLaneParams,
    FignaAlignerParams,
    FignaChunkParams,
    FpFpParams,
    FpIntParams,
    IfpuParams,
    PeArrayParams,
    PEParams,
)
from tilewright.golden.payload import Columns
from tilewright.golden.pe import (
    align,
    align_chunks,
    aligned_dot,
    array_cycles,
    deca_lane_dot,
    fp_fp_dot,
    fp_int_dot,
)
from tilewright.golden.vectors import corners
from tilewright.verify.bench import Bench, PortColumns, StreamBench, WordBench
from tilewright.verify.dots import (
    ComparedArray,
    DotProducts,
    PEBench,
    Tensors,
    in_beats,
    rows_of,
)
from tilewright.verify.stimuli.dots import (
    BENCH_BEATS,
    FP16_ONE,
    FP16_POWERS,
    beats_of,
    close_factors,
    flags,
    floats,
    hide_large,
    infinities,
    lone_products,
    put_alone,
    scales,
    shared_powers,
    take_back,
    unused,
    weights,
)

A = TypeVar("A", bound=AlignedParams)
FP16_SIGN, FP16_FRACTION = 1 << (FP16.bits - 1), (1 << FP16.mantissa_bits) - 1
BF16_ONE = BF16.bias << BF16.mantissa_bits
# Powers of whole significands as integers: no product of two is subnormal or infinite.
BF16_POWERS = (-60, 48)


class FpFpBench(PEBench[FpFpParams]):
    """Bench of FP-FP: floats of all sizes, small products among large ones."""

    def stimulus(self, params: FpFpParams, rng: Generator, cases: int) -> PortColumns:
        weight = floats(rng, cases, params.lanes)
        activation = hide_large(rng, weight, floats(rng, cases, params.lanes))
        operands = {"activation": activation, "weight": weight}
        columns = operands | unused(rng, cases) | flags(params, rng, cases)
        columns = take_back(rng, columns, FP16_SIGN, 0)
        empty = {"activation": 0, "weight": FP16_ONE}
        columns = _with_products(rng, columns, FP16, "weight", empty)
        return {"i": infinities(rng, columns, FP16, (1, FP16.max_finite_bits), empty)}

    def dot(self, params: FpFpParams, beats: Columns) -> NDArray:
        return fp_fp_dot(params, beats["activation"], beats["weight"])

    def operands(self, params: FpFpParams, tensors: Tensors) -> Columns:
        """Dequantise the weights: their scales are in them."""
        x = in_beats(params, tensors)
        factors = np.repeat(decode(FP16, tensors.scale), tensors.group, axis=-1)
        weight = encode(FP16, tensors.weight * factors).astype(np.int64)
        return x | {
            "weight": weight.reshape(x["weight"].shape),
            "scale": np.zeros_like(x["scale"]),
            "group_end": x["last"],
        }


class FpIntBench(PEBench[FpIntParams]):
    """Bench of FP-INT: floats of all sizes times integers, scales at the edges of fp16."""

    def stimulus(self, params: FpIntParams, rng: Generator, cases: int) -> PortColumns:
        activation = floats(rng, cases, params.lanes)
        weight = hide_large(rng, activation, weights(params, rng, cases))
        operands = {"activation": activation, "weight": weight}
        columns = operands | unused(rng, cases) | flags(params, rng, cases)
        columns |= {"scale": scales(rng, cases)}
        columns = take_back(rng, columns, FP16_SIGN, FP16_FRACTION)
        empty = {"activation": 0, "weight": 1, "scale": FP16_ONE}
        columns = _with_products(rng, columns, FP16, "scale", empty)
        return {"i": infinities(rng, columns, FP16, (1, params.weight_format.maximum), empty)}

    def dot(self, params: FpIntParams, beats: Columns) -> NDArray:
        fields = ("activation", "weight", "scale", "group_end")
        return fp_int_dot(params, *(beats[name] for name in fields))


class AlignedBench(PEBench[A]):
    """Base of the benches of PEs with aligned mantissas."""

    def weight_beats(self, params: A) -> int:
        """Return the beats in which a weight arrives; groups end after whole weights."""
        return 1

    def stimulus(self, params: A, rng: Generator, cases: int) -> PortColumns:
        top = (1 << params.mantissa_bits) - 1
        shape = (cases, params.beat_elements)
        # From short to long mantissas, whole beats of the longest among them.
        mantissa = rng.integers(0, top, shape, endpoint=True) >> rng.integers(
            0, params.mantissa_bits, shape
        )
        mantissa[rng.random(cases) < 0.2] = top
        sign = np.where(rng.random((cases, 1)) < 0.3, rng.integers(0, 2), rng.integers(0, 2, shape))
        # Any bits where no group ends; they are ignored.
        ends = flags(params, rng, cases, every=self.weight_beats(params))
        exponent = np.where(
            ends["group_end"], rng.integers(1, 30, cases, endpoint=True), rng.integers(0, 32, cases)
        )
        # Every fourth result is about the smallest that fp16 has, of several groups.
        small = np.arange(cases) // BENCH_BEATS % 4 == 2
        scale = np.where(small, rng.integers(0x1000, 0x3800, cases), scales(rng, cases))
        operands = {
            "activation": mantissa | (sign << params.mantissa_bits),
            "weight": weights(params, rng, cases),
            "exponent": np.where(small, rng.integers(1, 9, cases), exponent),
            "scale": scale,
        }
        return {"i": operands | ends}

    def with_lone_products(self, params: A, rng: Generator, columns: Columns) -> Columns:
        """Return ``columns`` with ``lone_products`` in some dot products."""
        bits, beats = params.mantissa_bits, self.weight_beats(params)
        if BENCH_BEATS % beats:
            return columns  # no whole weights
        # An activation's power of two is its exponent less this; fp16 holds sums as they are.
        unit = FP16.bias + bits - 1
        own = (
            max(FP16_POWERS[0], 1 - unit),
            min(FP16_POWERS[1], FP16.max_exponent + FP16.bias - unit),
        )
        powers = own[0] + FP16_POWERS[0], own[1] + FP16_POWERS[1]
        lengths = min(bits, FP16.significand_bits), FP16.significand_bits
        results = len(columns["last"]) // BENCH_BEATS
        lone = lone_products(rng, results, BENCH_BEATS // beats, lengths, powers)
        of_activation, of_scale = shared_powers(lone.power, own, FP16_POWERS)
        words = {
            "activation": np.abs(lone.left) | ((lone.left < 0) << bits),
            "weight": np.ones_like(lone.left),
            "exponent": of_activation + unit,
            "scale": encode(FP16, np.ldexp(lone.right, of_scale)),
        }
        empty = {"activation": 0, "weight": 0, "exponent": FP16.bias, "scale": FP16_ONE}
        return put_alone(rng, columns, lone, words, empty, beats)

    def dot(self, params: A, beats: Columns) -> NDArray:
        fields = ("activation", "weight", "exponent", "scale", "group_end")
        return aligned_dot(params, *(beats[name] for name in fields))

    def operands(self, params: A, tensors: Tensors) -> Columns:
        """Align the activations of each group to its largest exponent."""
        x = in_beats(params, tensors)
        words, shared = align(params.mantissa_bits, tensors.groups)
        return x | {
            "activation": words.reshape(x["activation"].shape),
            "exponent": np.repeat(shared, tensors.group // params.lanes, axis=-1),
        }


class FignaBench(AlignedBench[AlignedParams]):
    """Bench of FIGNA: aligned mantissas times whole integers."""

    def stimulus(self, params: AlignedParams, rng: Generator, cases: int) -> PortColumns:
        columns = super().stimulus(params, rng, cases)["i"]
        columns = take_back(rng, columns, 1 << params.mantissa_bits, FP16_FRACTION)
        return {"i": self.with_lone_products(params, rng, columns)}


class IfpuBench(AlignedBench[IfpuParams]):
    """Bench of iFPU: as that of FIGNA, with weights bit by bit."""

    def weight_beats(self, params: IfpuParams) -> int:
        return params.weight_bits

    def stimulus(self, params: IfpuParams, rng: Generator, cases: int) -> PortColumns:
        columns = super().stimulus(params, rng, cases)["i"]
        shape = (cases, params.beat_elements)
        # Whole beats of ones and zeros, and everything between.
        draws = rng.random(shape)
        density = rng.choice([0.0, 0.5, 1.0], (cases, 1))
        columns["weight"] = (draws < density).astype(int)
        # Activations stay for all bits of their weights.
        first = np.arange(cases) // params.weight_bits * params.weight_bits
        columns["activation"] = columns["activation"][first]
        return {"i": self.with_lone_products(params, rng, columns)}

    def operands(self, params: IfpuParams, tensors: Tensors) -> Columns:
        """Hold the activations of a beat for all bits of their weights, the highest first."""
        x = super().operands(params, tensors)
        bits, count = params.weight_bits, params.beat_elements
        streams, dots, beats = x["last"].shape
        held = x["activation"].reshape(streams, dots, -1, 1, count)
        weight = x["weight"].reshape(held.shape) >> np.arange(bits - 1, -1, -1)[:, np.newaxis]
        shape = (streams, dots, beats, count)
        return x | {
            "activation": np.repeat(held, bits, axis=3).reshape(shape),
            "weight": (weight & 1).reshape(shape),
        }


class FignaChunkBench(AlignedBench[FignaChunkParams]):
    """Bench of FIGNA-C: that of FIGNA, and a distance to the group's exponent with every beat."""

    def stimulus(self, params: FignaChunkParams, rng: Generator, cases: int) -> PortColumns:
        columns = super().stimulus(params, rng, cases)["i"]
        # Mostly near, so that chunks overlap; some so far that nothing or only a sign is left.
        near = rng.integers(0, 4, cases)
        distance = np.where(rng.random(cases) < 0.3, rng.integers(0, 32, cases), near)
        exponent = columns["exponent"] | (distance << FP16.exponent_bits)
        columns |= {"exponent": exponent}
        columns = take_back(rng, columns, 1 << params.mantissa_bits, FP16_FRACTION)
        return {"i": self.with_lone_products(params, rng, columns)}

    def operands(self, params: FignaChunkParams, tensors: Tensors) -> Columns:
        """Align the activations of each beat to its own largest exponent."""
        x = in_beats(params, tensors)
        words, exponent = align_chunks(params, tensors.groups)
        return x | {
            "activation": words.reshape(x["activation"].shape),
            "exponent": exponent.reshape(x["exponent"].shape),
        }


class DecaLaneBench(PEBench[DecaLaneParams]):
    """Bench of DECA's lanes with their share of a matrix unit."""

    def stimulus(self, params: DecaLaneParams, rng: Generator, cases: int) -> PortColumns:
        shape = (cases, params.lanes)
        operands = {
            "activation": _bf16(rng, shape, 8),
            "weight": weights(params, rng, cases),
            "exponent": unused(rng, cases)["exponent"],
            "scale": _bf16(rng, (cases,), 6),
        }
        columns = operands | flags(params, rng, cases)
        fraction = (1 << BF16.mantissa_bits) - 1
        columns = take_back(rng, columns, 1 << (BF16.bits - 1), fraction)
        empty = {"activation": 0, "weight": 1, "scale": BF16_ONE}
        columns = _with_products(rng, columns, BF16, "scale", empty)
        columns = infinities(rng, columns, BF16, (1, 1), empty)
        return {"i": self._cancelling_lanes(params, rng, columns)}

    def _cancelling_lanes(
        self, params: DecaLaneParams, rng: Generator, columns: Columns
    ) -> Columns:
        """Two lanes of a beat, of every eighth dot product, that differ by the least they can."""
        bits = BF16.significand_bits
        for result in range(7, len(columns["last"]) // BENCH_BEATS, 8):
            first = result * BENCH_BEATS
            beats = slice(first, first + BENCH_BEATS)
            columns["activation"][beats], columns["scale"][beats] = 0, BF16_ONE
            lanes = rng.permutation(params.lanes)[:2]
            # Three times a scale has other bits than the scale or its double.
            codes = rng.permutation([min(3, params.weight_format.maximum), rng.choice([-1, -2])])
            scale = float(rng.integers(1 << (bits - 1), 1 << bits))
            # Scaled weights as whole significands, and their powers of two.
            weight, power = np.frexp(np.abs(decode(BF16, encode(BF16, codes * scale))))
            x, y = (int(n) for n in np.ldexp(weight, bits))
            factors = np.ldexp(close_factors(rng, x, y, bits), -power)
            columns["activation"][first, lanes] = encode(BF16, factors)
            columns["weight"][first, lanes] = codes
            columns["scale"][first] = encode(BF16, np.ldexp(scale, rng.integers(-24, -8)))
        return columns

    def dot(self, params: DecaLaneParams, beats: Columns) -> NDArray:
        return deca_lane_dot(params, *(beats[name] for name in ("activation", "weight", "scale")))

    def operands(self, params: DecaLaneParams, tensors: Tensors) -> Columns:
        """Round activations and scales to bf16."""
        x = in_beats(params, tensors)
        rounded = {
            name: convert(FP16, BF16, x[name]).astype(np.int64) for name in ("activation", "scale")
        }
        return x | rounded


def _values_to_align(params: FignaAlignerParams, rng: Generator, cases: int) -> Columns:
    """Groups of a few beats, of ordinary and extreme values."""
    ends = np.arange(cases) % BENCH_BEATS == BENCH_BEATS - 1
    return {"activation": floats(rng, cases, params.lanes), "group_end": ends.astype(np.int64)}


class PeArrayBench(StreamBench[PeArrayParams], ComparedArray[PeArrayParams]):
    """Bench of an array: to each row and column what the bench of its PE draws."""

    timed, in_matrix = True, False
    growth: ClassVar = {"element": "pe", "results": "each"}
    growth |= {"activations": "row", "exponents": "row"}
    growth |= {"weights": "column", "scales": "column", "": "column"}

    def element(self, params: PeArrayParams) -> tuple[PEBench, PEParams]:
        bench = BENCHES[params.pe.block]
        assert isinstance(bench, PEBench)
        return bench, params.pe

    def stimulus(self, params: PeArrayParams, rng: Generator, cases: int) -> PortColumns:
        """Draw ``cases`` beats; what does not fill a tile has no result."""
        bench, pe = self.element(params)
        most = max(params.rows, params.columns)
        draws = [bench.stimulus(pe, rng, cases)["i"] for _ in range(most)]
        joined = {
            name: np.stack([x[name] for x in draws[:count]], axis=1).reshape(cases, -1)
            for name, count in self._counts(params).items()
        }
        # Groups end where those of the first row do; there every row's exponent counts.
        low = joined["exponent"] % 32
        joined["exponent"] += np.clip(low, 1, FP16.max_exponent + FP16.bias) - low
        return {"i": joined | {name: draws[0][name] for name in ("group_end", "last")}}

    def expected(self, params: PeArrayParams, columns: PortColumns) -> PortColumns:
        bench, pe = self.element(params)
        beats = beats_of(columns["i"])
        counts, lead = self._counts(params), beats["last"].shape
        apart = {name: beats[name].reshape(*lead, count, -1) for name, count in counts.items()}

        def result(row: int, column: int) -> NDArray:
            places = zip(apart.items(), (row, row, column, column), strict=True)
            own = {name: x[:, :, place] for (name, x), place in places}
            own |= {name: own[name][..., 0] for name in ("exponent", "scale")}
            return bench.dot(pe, beats | own)

        tiles = [[result(r, c) for c in range(params.columns)] for r in range(params.rows)]
        given = rows_of(np.moveaxis(np.array(tiles), 2, 0))
        return {"o": {n: x.reshape(-1, *x.shape[2:]) for n, x in given.items()}}

    def cycles(self, params: PeArrayParams, columns: PortColumns) -> NDArray[np.int64]:
        return array_cycles(params, columns["i"]["last"])

    def dot_products(self, params: PeArrayParams, tensors: Tensors, variant: str) -> DotProducts:
        parts, results = self.tile(params, tensors, variant)
        rows, columns, shared = (part["i"] for part in parts)
        shared |= {name: rows[name] for name in ("activation", "exponent")}
        shared |= {name: columns[name] for name in ("weight", "scale")}
        return DotProducts({"i": shared}, rows_of(results))

    def _counts(self, params: PeArrayParams) -> dict[str, int]:
        """How many elements' operands a beat has."""
        rows, columns = params.rows, params.columns
        return {"activation": rows, "exponent": rows, "weight": columns, "scale": columns}


def _aligned(params: FignaAlignerParams, x: Columns) -> Columns:
    groups = len(x["group_end"]) // BENCH_BEATS
    whole = groups * BENCH_BEATS
    words, exponent = align(params.mantissa_bits, x["activation"][:whole].reshape(groups, -1))
    return {
        "activation": words.reshape(whole, params.lanes),
        "exponent": np.repeat(exponent, BENCH_BEATS),
        "group_end": x["group_end"][:whole],
    }


def _with_products(
    rng: Generator, columns: Columns, fmt: FloatFormat, factor: str, empty: dict[str, int]
) -> Columns:
    """Return ``columns`` with lone products of activations and of the operands ``factor``."""
    powers = FP16_POWERS if fmt is FP16 else BF16_POWERS
    bits, both = fmt.significand_bits, (2 * powers[0], 2 * powers[1])
    results = len(columns["last"]) // BENCH_BEATS
    lone = lone_products(rng, results, BENCH_BEATS, (bits, bits), both)
    left, right = shared_powers(lone.power, powers, powers)
    factors = {"activation": np.ldexp(lone.left, left), factor: np.ldexp(lone.right, right)}
    words = {name: encode(fmt, values) for name, values in factors.items()}
    return put_alone(rng, columns, lone, words, empty)


def _bf16(rng: Generator, shape: tuple[int, ...], spread: int) -> NDArray:
    """Draw bf16 patterns: of ordinary size, some of any size, some at the edges of the format."""
    signs = rng.choice([-1, 1], shape)
    ordinary = encode(BF16, signs * np.exp2(rng.uniform(-spread, spread, shape)))
    wide = encode(BF16, signs * np.exp2(rng.uniform(-120, 120, shape)))
    kind = rng.choice(3, shape, p=[0.9, 0.07, 0.03])
    return np.choose(kind, [ordinary, wide, rng.choice(corners(BF16), shape)])


BENCHES: dict[str, Bench] = {
    "pe_fp_fp": FpFpBench(),
    "pe_fp_int": FpIntBench(),
    "pe_ifpu": IfpuBench(),
    "pe_figna": FignaBench(),
    "pe_figna_c": FignaChunkBench(),
    "pe_deca": DecaLaneBench(),
    "pe_array": PeArrayBench(),
    "figna_aligner": WordBench(_aligned, _values_to_align),
}
