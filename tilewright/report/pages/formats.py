"""Number formats, computed from their definitions."""

from fractions import Fraction
from typing import Any

from tilewright.golden.params.formats import E8M0, FLOAT_FORMATS, BlockFormat, FloatFormat
from tilewright.report.html import Markup, code, join, note, paragraph, section, table
from tilewright.report.page import Context, Page

TITLE = "Formats"
POSITION = 50

BLOCK_FORMATS = [
    BlockFormat(group=group, mantissa_bits=m) for group in (32, 64) for m in (4, 6, 8, 11)
]


def build(context: Context) -> Page:
    floats = [_float(f) for f in FLOAT_FORMATS.values()]
    blocks = [_block(f) for f in BLOCK_FORMATS]
    body = join(
        [
            section(
                "Floating point",
                table(
                    (
                        *("Format", "Bits", "Exponent bits", "Mantissa bits", "Exponent bias"),
                        *("Largest", "Smallest normal", "Smallest subnormal", "Infinity", "NaN"),
                    ),
                    [
                        (
                            code(f["name"]),
                            f["bits"],
                            f["exponent_bits"],
                            f["mantissa_bits"],
                            f["bias"],
                            f["largest"],
                            _power(f["smallest_normal_exponent"]),
                            _power(f["smallest_subnormal_exponent"]),
                            f["infinity"] and code(f["infinity"]),
                            f["nan"] and code(f["nan"]),
                        )
                        for f in floats
                    ],
                ),
                paragraph(
                    "Infinity and NaN are bit patterns in hexadecimal. The NaN shown is the"
                    " canonical one that every operation returns. A dash means that the format has"
                    " none."
                ),
            ),
            section(
                "Scales",
                paragraph(
                    code(E8M0.name),
                    f"is an unsigned byte: e stands for 2^(e - {E8M0.bias}),"
                    f" and {E8M0.nan_bits:#x} is NaN.",
                ),
            ),
            section(
                "Block floating point",
                paragraph(
                    "The values of a group share the largest exponent. Each keeps its sign and a"
                    " mantissa, whose length includes the hidden bit."
                ),
                table(
                    (
                        "Format",
                        "Values per group",
                        "Mantissa bits",
                        "Bits per group",
                        "Bits per value",
                    ),
                    [
                        (
                            code(b["name"]),
                            b["group"],
                            b["mantissa_bits"],
                            b["group_bits"],
                            b["bits_per_value"],
                        )
                        for b in blocks
                    ],
                ),
            ),
            note(
                "Source: computed from",
                code("golden/params/formats.py"),
                "while this page was built.",
            ),
        ]
    )
    return Page(
        summary="The ranges, special patterns and storage of the number formats.",
        body=body,
        data={"source": "golden/params/formats.py", "float": floats, "block": blocks},
    )


def _float(fmt: FloatFormat) -> dict[str, Any]:
    digits = -(-fmt.bits // 4)
    patterns = {"infinity": fmt.infinity_bits, "nan": fmt.nan_bits}
    fraction = fmt.max_finite_bits % (1 << fmt.mantissa_bits)
    ulp = Fraction(1, 1 << fmt.mantissa_bits)
    return {
        "name": fmt.name,
        "bits": fmt.bits,
        "exponent_bits": fmt.exponent_bits,
        "mantissa_bits": fmt.mantissa_bits,
        "bias": fmt.bias,
        "largest": float((1 + fraction * ulp) * Fraction(2) ** fmt.max_exponent),
        "smallest_normal_exponent": fmt.min_exponent,
        "smallest_subnormal_exponent": fmt.min_exponent - fmt.mantissa_bits,
        **{k: None if bits is None else f"{bits:0{digits}x}" for k, bits in patterns.items()},
    }


def _power(exponent: int) -> Markup:
    return Markup(f"2<sup>{exponent}</sup>")


def _block(fmt: BlockFormat) -> dict[str, Any]:
    return {
        "name": fmt.name,
        "group": fmt.group,
        "mantissa_bits": fmt.mantissa_bits,
        "group_bits": fmt.group_bits,
        "bits_per_value": fmt.group_bits / fmt.group,
    }
