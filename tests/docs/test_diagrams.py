"""The block diagrams of the designs name the sizes of the default presets."""

import re

import pytest

from tests.docs.pages import DOCS
from tilewright.golden.params import anda_machine, harmonia_machine
from tilewright.golden.params.anda_machine import AndaParams
from tilewright.golden.params.deca import LUT_ENTRIES, SUB_LUTS, TILE_BYTES, DecaParams
from tilewright.golden.params.harmonia_machine import HarmoniaParams
from tilewright.golden.params.machine import EXPONENT_BYTE


def shown(count: int) -> str:
    units = ((1 << 20, "MB"), (1 << 10, "KB"), (1, "B"))
    size, unit = next((size, unit) for size, unit in units if count >= size)
    return f"{count / size:g} {unit}"


def anda() -> list[str]:
    p, memory = AndaParams(), anda_machine.Memory
    planes, weights, scales = (
        rows * p.row_bits(kind) // 8
        for rows, kind in (
            (p.activation_rows, memory.ACTIVATIONS),
            (p.weight_rows, memory.WEIGHTS),
            (p.scale_rows, memory.SCALES),
        )
    )
    return [
        f"{p.memory_channels} channels,",
        f"{p.line_bytes}-byte",
        f"{p.memory_channels} x {p.dma_lines} requests",
        f"{p.instructions:,} instructions, counters, address generation",
        f"{p.rows} banks, {shown(planes)} of planes",
        f"{shown(p.activation_rows * p.rows * EXPONENT_BYTE // 8)} of exponents",
        f"{shown(weights)} of int{p.weight_bits} planes",
        f"{shown(scales)} of scales",
        f"{p.rows} x {p.columns} APUs",
        f"groups of {p.group}",
        f"{p.rows} x {p.vector.row_lanes} fp16 per cycle",
        f"{p.rows} lanes",
    ]


def deca() -> list[str]:
    p = DecaParams()
    lines = (p.mask_queue_lines, p.scale_queue_lines, p.sqq_lines)
    return [
        f"{p.line_bytes}-byte",
        f"0..{p.max_prefetch_degree} tiles ahead",
        f"{p.tepl_entries} entries",
        f"loader (there are {p.loaders})",
        f"{p.cam_entries}-entry CAM",
        *(shown(count * p.line_bytes) for count in lines),
        f"pipeline (there is one): {p.lanes} lanes",
        f"{p.luts} x {SUB_LUTS} x {LUT_ENTRIES // SUB_LUTS}",
        shown(TILE_BYTES),
    ]


def harmonia() -> list[str]:
    p, memory = HarmoniaParams(), harmonia_machine.Memory

    def size(*memories: harmonia_machine.Memory) -> str:
        return f"{sum(p.depth(m) * p.row_bits(m) for m in memories) // 8 // 1024} KB"

    of_operands = (memory.OPERAND_SIGNS, memory.OPERAND_EXPONENTS, memory.SCALES)
    return [
        f"{p.memory_channels} channels,",
        f"{p.line_bytes}-byte",
        f"{p.memory_channels} x {p.dma_lines} requests",
        f"{p.instructions:,} instructions, counters",
        f"{size(memory.MANTISSAS)} of 8-bit mantissas",
        f"{size(memory.SIGNS, memory.EXPONENTS)} of signs, exponents",
        f"{p.rows} banks, {size(memory.FP16)}",
        f"{size(memory.OPERANDS)} of weights, K, V: 4-bit",
        f"{size(*of_operands)} of signs, exponents, scales",
        f"{p.rows} x {p.columns} PEs",
        f"groups of {p.group}",
        f"{p.rows} x {p.word_values} fp16 per cycle",
        f"{p.offsets} of {p.channels} channels",
        f"{p.rows} values per cycle",
    ]


@pytest.mark.parametrize("sizes", [anda, deca, harmonia], ids=lambda sizes: sizes.__name__)
def test_sizes_of_the_diagrams(sizes):
    text = (DOCS / f"{sizes.__name__}.svg").read_text()
    assert set(sizes()) <= set(re.findall(r"<text[^>]*>([^<]*)</text>", text))
