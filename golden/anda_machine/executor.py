"""The Anda accelerator's instructions: what they leave in its memories, bit by bit."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.anda.image import TensorLayout, load, store
from tilewright.golden.anda_machine.isa import (
    Formats,
    Instruction,
    attention_beats,
    beats_of,
    check,
    goes_across,
    groups_of,
    keeps_sums,
    pass_tiles,
)
from tilewright.golden.anda_machine.layout import fp16_values
from tilewright.golden.bfp import encode
from tilewright.golden.machine.fast_products import PartWeights
from tilewright.golden.machine.fast_vector import dots, masked, weighed
from tilewright.golden.machine.machine import BaseMachine, Lanes, Place
from tilewright.golden.params.anda_machine import FP16_ROWS, Counter, Memory, Opcode, group_rows
from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.params.machine import Error
from tilewright.golden.params.vector import Operation


class Machine(BaseMachine):
    """The accelerator's memories; ``run`` executes a program on them.

    Weights are unpacked once, when lines that hold them are first multiplied. Banks that hold the
    same activations are multiplied once.
    """

    INSTRUCTION: ClassVar = Instruction
    MEMORY: ClassVar = Memory
    SETTINGS: ClassVar = Formats
    COUNTER: ClassVar = Counter
    COUNTED: ClassVar = (
        *(Counter.INSTRUCTIONS, Counter.MATRIX_BUSY, Counter.LINES_READ, Counter.LINES_WRITTEN),
        Counter.GROUPS_COMPRESSED,
    )
    LAZY: ClassVar = (Memory.WEIGHTS, Memory.SCALES)
    CHECKED_BY_SETTINGS: ClassVar = True

    def _prepare(self) -> None:
        self.activations, self.exponents, *_ = self.memories.values()
        self.memories[Memory.BROADCAST] = self.activations
        self._last_key: tuple = ()  # of the last product's activations
        self._last_values: NDArray = np.zeros(0)
        self._kept: NDArray = np.zeros(0)  # sums that the array keeps

    def _judge(self, x: Instruction | None) -> Error:
        return check(self.params, self.settings, x)

    def _execute(self, x: Instruction) -> Error:
        match x.opcode:
            case Opcode.LOAD:
                return self._load(x)
            case Opcode.STORE:
                return self._store(x)
            case Opcode.GEMM | Opcode.SHARED_GEMM:
                self._gemm(x)
            case Opcode.VECTOR if x.vector.operation.attends:
                self._attend(x)
            case Opcode.VECTOR:
                self._vector(x)
            case Opcode.COMPRESS:
                self._compress(x)
        self.settings = self.settings.after(x)
        return Error.NONE

    # Products.

    def _gemm(self, x: Instruction) -> None:
        p, source = self.params, self.settings.source
        groups, tiles = groups_of(p, x["inputs"]), -(-x["outputs"] // p.columns)
        shared, together = x.opcode is Opcode.SHARED_GEMM, pass_tiles(p, x)
        planes = self.activations[x["source"] :][: groups * group_rows(source)]
        exponents = self.exponents[x["source"] :][: len(planes) : group_rows(source)]
        exponents = exponents & np.uint8((1 << FP16.exponent_bits) - 1)
        same = bool((planes == planes[:, :1]).all() and (exponents == exponents[:, :1]).all())
        banks = 1 if same else p.rows
        values = self._activation_values(source, planes[:, :banks], exponents[:, :banks])
        # Sums of a group are exact in float32 up to this length.
        if p.group << (source + p.weight_bits - 1) > 1 << FP32.significand_bits:
            values = values.astype(np.float64)
        tile_groups = p.whole_tiles(tiles) * groups
        places = (
            Place(Memory.WEIGHTS, x["weights"], tile_groups * p.mxu.weight_beats),
            Place(Memory.SCALES, x["scales"], tile_groups),
        )
        part = self._part(places, groups, lambda rows, scales: self._unpack(rows, scales, groups))
        sums = part.product(values, self._kept if shared and x["continues"] else None)
        if keeps_sums(x):
            self._kept = sums
        else:
            sums = sums[:, : tiles * p.columns]
            if shared and len(sums) > 1:
                sums = self._gathered(sums, together)
            self._write_result(x["destination"], masked(sums))
        passes = -(-tiles // together)
        self._count(Counter.MATRIX_BUSY, passes * groups * group_rows(source))

    def _gathered(self, sums: NDArray, together: int) -> NDArray:
        """Results for every bank out of (rows, outputs): in each tile the sum of its row group."""
        p = self.params
        tiles = sums.reshape(p.rows, -1, p.columns)
        span = p.rows // together
        bank, tile = np.arange(p.rows)[:, np.newaxis], np.arange(tiles.shape[1])
        return tiles[tile % together * span + bank % span, tile].reshape(p.rows, -1)

    def _activation_values(
        self, mantissa: int, planes: NDArray, exponents: NDArray
    ) -> NDArray[np.float32]:
        """(groups, banks, group): exact values; all parts of a matrix have the same activations."""
        key = mantissa, planes.shape[1], planes.tobytes(), exponents.tobytes()
        if key != self._last_key:
            p, (rows, banks) = self.params, planes.shape
            length = rows // group_rows(mantissa) * p.group
            fmt = p.mxu.numerics.block_format(mantissa)
            layout = TensorLayout(fmt=fmt, rows=banks, length=length, lanes=banks)
            blocks = load(layout, planes, exponents)
            step = blocks.exponent.astype(np.int32) - FP16.bias - (mantissa - 1)
            values = np.ldexp(blocks.mantissa.astype(np.float32), step[..., np.newaxis])
            values = np.where(blocks.sign, -values, values).swapaxes(0, 1)
            self._last_key, self._last_values = key, np.ascontiguousarray(values)
        return self._last_values

    def _unpack(self, rows: NDArray, scales: NDArray, groups: int) -> PartWeights:
        p = self.params
        blocks = rows.reshape(-1, groups, p.block_tiles, p.weight_bits, p.columns)
        words = blocks.swapaxes(1, 2).reshape(-1, groups, p.weight_bits, p.columns)
        octets = np.ascontiguousarray(words)[..., np.newaxis].view(np.uint8)
        bits = np.unpackbits(octets, axis=-1, bitorder="little")  # ..., columns, group
        values = -bits[:, :, 0].view(np.int8)  # the topmost plane is the sign
        for plane in range(1, p.weight_bits):
            values <<= 1
            values |= bits[:, :, plane].view(np.int8)
        by_group = values.swapaxes(0, 1).reshape(groups, -1, p.group)
        factors = scales.reshape(-1, groups, p.block_tiles * p.columns)
        factors = factors.swapaxes(0, 1).reshape(groups, 1, -1)
        return PartWeights(
            np.ascontiguousarray(by_group, np.float32), factors.view(np.float16).astype(np.float32)
        )

    # Results and compression.

    def _write_result(self, row: int, values: NDArray) -> None:
        """fp16 patterns of all banks, or of one for all, in the configured result format."""
        p, mantissa = self.params, self.settings.result
        if not mantissa:
            words = np.zeros((len(values), groups_of(p, values.shape[1]) * p.group), np.uint16)
            words[:, : values.shape[1]] = values
            rows = words.view(self.activations.dtype).T
            self.activations[row : row + len(rows)] = rows
            return
        fmt = p.mxu.numerics.block_format(mantissa)
        layout = TensorLayout(fmt=fmt, rows=len(values), length=values.shape[1], lanes=len(values))
        planes, exponents = store(layout, encode(fmt, values, saturate=True))
        end = row + len(planes)
        self.activations[row:end] = planes
        self.exponents[row : end : group_rows(mantissa)] = exponents
        self.outcome.saturated |= bool(((values & 0x7FFF) > FP16.max_finite_bits).any())
        self._count(Counter.GROUPS_COMPRESSED, p.rows * len(exponents))

    def _compress(self, x: Instruction) -> None:
        p, elements = self.params, x["elements"]
        groups = groups_of(p, elements)
        rows = self.activations[x["source"] :][: groups * FP16_ROWS]
        values = fp16_values(p, rows, groups * p.group).copy()
        values[:, elements:] = 0
        same = bool((values == values[:1]).all())
        self._write_result(x["destination"], values[:1] if same else values)

    # Vector operations.

    def _words_of(self, row: int, count: int, lanes: Lanes) -> NDArray[np.uint16]:
        first = row // self.params.beat_words
        return self._beats(slice(first, first + count))

    def _beats(self, numbers: Any) -> NDArray[np.uint16]:
        """fp16 patterns (..., banks, row_lanes) of beats of the activation buffer."""
        rows = self.activations.reshape(-1, self.params.beat_words, self.params.rows)[numbers]
        return np.ascontiguousarray(rows.swapaxes(-1, -2)).view("<u2")

    def _of_banks(self, beats: NDArray, banks: NDArray) -> NDArray[np.uint16]:
        """Beats (..., 1, row_lanes) of banks modulo their number, for every bank."""
        found = self._beats(beats)
        banks = banks % self.params.rows
        return np.take_along_axis(found, banks[..., np.newaxis, np.newaxis], axis=-2)

    def _put_words(self, row: int, words: NDArray[np.uint16], elements: int, lanes: Lanes) -> None:
        """Rows of whole groups: those after the words are zero."""
        end = self._put_beats(row, words)
        self.activations[end : row + groups_of(self.params, elements) * FP16_ROWS] = 0

    def _put_beats(self, row: int, beats: NDArray[np.uint16]) -> int:
        """Beats (..., banks, row_lanes) to rows; the row after them."""
        words = np.ascontiguousarray(beats).view(self.activations.dtype)
        rows = words.swapaxes(-1, -2).reshape(-1, self.params.rows)
        end = row + len(rows)
        self.activations[row:end] = rows
        return end

    def _attend(self, x: Instruction) -> None:
        """Several sums of a and b; docs/anda-system.md has their rows."""
        beats, results = attention_beats(self.params, x), x["results"]
        numbers = np.arange(results)[:, np.newaxis]
        terms, across = x["pitch"] * numbers, goes_across(self.params, x)
        first, other = (x[name] // self.params.beat_words for name in "ab")
        if x["operation"] == Operation.WEIGH:
            if across:
                a = self._of_banks(first + terms, np.arange(beats)[np.newaxis])
            else:
                a = self._beats(first + terms + x["step"] * np.arange(beats))
            b = self._beats(other + np.arange(beats_of(self.params, beats)))
            found = weighed(a, b.swapaxes(0, 1).reshape(self.params.rows, -1)[:, :beats])
        else:
            if across:
                a = self._of_banks(first + np.arange(beats)[np.newaxis], numbers)
            else:
                a = self._beats(first + terms + np.arange(beats))
            b = self._beats(other + x["step"] * np.arange(beats))
            found = dots(a, b, x["elements"], x["scale"])
        self._put_beats(x["destination"], found)
