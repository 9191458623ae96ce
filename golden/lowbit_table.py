"""The table of low-bit formats."""

import re

from tilewright.golden.gguf_blocks import GGUF
from tilewright.golden.lowbit import (
    NF4_VALUES,
    ROUNDINGS,
    LowBit,
    book,
    integer,
    mx_float,
    mx_int,
    nvfp4,
    plain_float,
    shared_exponent_blocks,
    unsigned,
)
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import E2M1, E2M3, E3M2, E4M3, E5M2, FP16, FP32
from tilewright.golden.params.names import unknown

NF4_ROUNDINGS = (*ROUNDINGS, *(f"{rounding}-float32" for rounding in ROUNDINGS[:-1]))


def _lowbit() -> dict[str, LowBit]:
    fp8, ocp = "OCP FP8 1.0", "OCP Microscaling 1.0"
    formats = [
        *(plain_float("e4m3", E4M3, fp8), plain_float("e5m2", E5M2, fp8)),
        plain_float("e4m3fnuz", E4M3, "Graphcore, AMD", fnuz=True),
        plain_float("e5m2fnuz", E5M2, "Graphcore, AMD", fnuz=True),
        *(plain_float(fmt.name, fmt, ocp) for fmt in (E3M2, E2M3, E2M1)),
        *(mx_float(E4M3, "mxfp8_e4m3"), mx_float(E5M2, "mxfp8_e5m2")),
        *(mx_float(E3M2, "mxfp6_e3m2"), mx_float(E2M3, "mxfp6_e2m3"), mx_float(E2M1, "mxfp4")),
        *(mx_int(8), mx_int(4), mx_int(2), nvfp4()),
        book("nf4", NF4_VALUES, FP32, 64, "QLoRA", further={"rounding": NF4_ROUNDINGS}),
        *(integer(f"int{k}", k, FP16, 128, "as GPTQ and AWQ store it") for k in (8, 4)),
        *(unsigned(f"int{k}_zero", k, FP16, 128, "as GPTQ and AWQ store it") for k in (8, 4)),
        integer("int8_row", 8, FP32, 32, "as torchao and compressed-tensors scale it"),
        *(shared_exponent_blocks(64, 7), shared_exponent_blocks(32, 8)),
        *GGUF,
    ]
    return {fmt.name: fmt for fmt in formats}


def lowbit(name: str) -> LowBit:
    """The format of that name, or ``bfpMgG`` of M bits of mantissa and groups of G values."""
    if found := re.fullmatch(r"bfp([1-9])g(\d+)", name):
        return shared_exponent_blocks(int(found[2]), int(found[1]))
    require(name in LOWBIT, unknown("format", name, [*LOWBIT, "bfpMgG"]))
    return LOWBIT[name]


LOWBIT = _lowbit()
