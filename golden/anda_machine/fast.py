"""The golden accelerator for whole models: bit for bit the executor, but faster.

Weights are unpacked once, whenever lines that hold them are first multiplied. Banks that hold the
same activations are multiplied once. Vector operations are numpy's.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.golden import anda
from tilewright.golden.anda_machine.executor import Machine
from tilewright.golden.anda_machine.isa import Instruction, groups_of
from tilewright.golden.anda_machine.layout import block_format, from_bytes
from tilewright.golden.bfp import encode
from tilewright.golden.machine.compiled import CompiledMachine, DecodedOnce, Lanes
from tilewright.golden.machine.fast_products import PartWeights
from tilewright.golden.machine.fast_vector import masked
from tilewright.golden.params.anda_machine import FP16_ROWS, AndaParams, Counter, Memory, group_rows
from tilewright.golden.params.formats import FP16, FP32


class _Instruction(DecodedOnce, Instruction):
    KNOWN: ClassVar[dict[int, Any]] = {}


class FastMachine(CompiledMachine, Machine):
    """One accelerator with a model's image, whose first ``constant`` lines nothing changes."""

    INSTRUCTION: ClassVar = _Instruction
    LAZY: ClassVar = (Memory.WEIGHTS, Memory.SCALES)
    CHECKED_BY_SETTINGS: ClassVar = True

    def __init__(self, params: AndaParams, external: NDArray[np.uint8], constant: int):
        super().__init__(params, external, constant)
        self._weights: dict[tuple[int, int, int], PartWeights] = {}
        self._last_key: tuple = ()  # of the last product's activations
        self._last_values: NDArray[np.float32] = np.zeros(0, np.float32)

    def _buffer(self, memory: Memory) -> NDArray:
        return self.weights if memory == Memory.WEIGHTS else self.scales

    def _rows_of_lines(self, memory: Memory, data: NDArray[np.uint8], rows: int) -> NDArray:
        return from_bytes(self.params, memory, data, rows)

    # Products.

    def _gemm(self, x: Instruction) -> None:
        p, source = self.params, self.settings.source
        groups, tiles = groups_of(p, x["inputs"]), -(-x["outputs"] // p.columns)
        taken = self.activations[x["source"] :][: groups * group_rows(source)]
        exponents = self.exponents[x["source"] :][: len(taken) : group_rows(source)] & np.uint8(
            0x1F
        )
        same = bool((taken == taken[:, :1]).all() and (exponents == exponents[:, :1]).all())
        # Sums of a group are exact in float32 up to this length.
        if p.group << (source + p.weight_bits - 1) > 1 << FP32.significand_bits:
            self.settle()
            super()._gemm(x)
            return
        banks = 1 if same else p.rows
        values = self._activation_values(source, taken[:, :banks], exponents[:, :banks])
        with np.errstate(all="ignore"):
            result = masked(self._part(x, tiles, groups).product(values))
        result = np.broadcast_to(result, (p.rows, result.shape[1]))
        self._write_result(x["destination"], result, self.settings.result)
        self._count(Counter.MATRIX_BUSY, tiles * groups * group_rows(source))

    def _activation_values(
        self, mantissa: int, planes: NDArray, exponents: NDArray
    ) -> NDArray[np.float32]:
        """(groups, banks, group): exact values; all parts of a matrix have the same activations."""
        key = mantissa, planes.shape[1], planes.tobytes(), exponents.tobytes()
        if key != self._last_key:
            p, (rows, banks) = self.params, planes.shape
            length = rows // group_rows(mantissa) * p.group
            fmt = block_format(p, mantissa)
            layout = anda.TensorLayout(fmt=fmt, rows=banks, length=length, lanes=banks)
            blocks = anda.load(layout, planes, exponents)
            step = blocks.exponent.astype(np.int32) - FP16.bias - (mantissa - 1)
            values = np.ldexp(blocks.mantissa.astype(np.float32), step[..., np.newaxis])
            values = np.where(blocks.sign, -values, values).swapaxes(0, 1)
            self._last_key, self._last_values = key, np.ascontiguousarray(values)
        return self._last_values

    def _compress(self, x: Instruction) -> None:
        """Of banks that hold the same values one is converted."""
        p, mantissa, row = self.params, self.settings.result, x["destination"]
        values = self._tensor(x["source"], x["elements"])
        one = values[:1]
        if not (values == one).all():
            self._write_result(row, values, mantissa)
            return
        fmt = block_format(p, mantissa)
        layout = anda.TensorLayout(fmt=fmt, rows=1, length=values.shape[1], lanes=1)
        planes, exponents = anda.store(layout, encode(fmt, one, saturate=True))
        end = row + len(planes)
        self.activations[row:end] = planes
        self.exponents[row : end : group_rows(mantissa)] = exponents
        self.outcome.saturated |= bool(((one & 0x7FFF) > FP16.max_finite_bits).any())
        self._count(Counter.GROUPS_COMPRESSED, p.rows * exponents.size)

    def _part(self, x: Instruction, tiles: int, groups: int) -> PartWeights:
        """Weights of a product, from external memory where they have not been unpacked yet."""
        rows, scale_rows = tiles * groups * self.params.mxu.weight_beats, tiles * groups
        weights = self._pending.get((Memory.WEIGHTS, x["weights"]))
        scales = self._pending.get((Memory.SCALES, x["scales"]))
        if (
            weights is None
            or scales is None
            or weights.skip + scales.skip
            or rows > weights.rows
            or scale_rows > scales.rows
        ):
            self._settle_rows(Memory.WEIGHTS, x["weights"], rows)
            self._settle_rows(Memory.SCALES, x["scales"], scale_rows)
            return self._unpack(
                self.weights[x["weights"] :][:rows],
                self.scales[x["scales"] :][:scale_rows],
                tiles,
                groups,
            )
        key = weights.line, rows, groups
        found = self._weights.get(key)
        if found is None:
            found = self._weights[key] = self._unpack(
                self._fetched(Memory.WEIGHTS, weights._replace(rows=rows)),
                self._fetched(Memory.SCALES, scales._replace(rows=scale_rows)),
                tiles,
                groups,
            )
        return found

    def _unpack(self, rows: NDArray, scales: NDArray, tiles: int, groups: int) -> PartWeights:
        values = self._weight_values(rows, tiles, groups)
        by_group = values.reshape(-1, groups, self.params.group).swapaxes(0, 1)
        factors = scales.reshape(tiles, groups, -1).swapaxes(0, 1).reshape(groups, 1, -1)
        return PartWeights(
            np.ascontiguousarray(by_group, np.float32),
            factors.view(np.float16).astype(np.float32),
        )

    # Vector operations.

    def _words_of(self, row: int, count: int, lanes: Lanes) -> NDArray[np.uint16]:
        return self.activations[row : row + count][..., np.newaxis].view("<u2")

    def _put_words(self, row: int, words: NDArray[np.uint16], elements: int, lanes: Lanes) -> None:
        """Rows of whole groups: those after the words are zero."""
        end = row + len(words)
        self.activations[row:end] = np.ascontiguousarray(words).view(self.activations.dtype)[..., 0]
        self.activations[end : row + groups_of(self.params, elements) * FP16_ROWS] = 0
