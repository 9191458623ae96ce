"""The Anda accelerator as Figure 13 of the paper shows it, with our names and sizes."""

from tilewright.golden.params.anda_machine import AndaParams, Memory
from tilewright.golden.params.machine import EXPONENT_BYTE
from tilewright.report.diagram import Diagram

__all__ = ["draw"]


def draw(params: AndaParams | None = None) -> Diagram:
    """Draw the accelerator with the sizes of ``params``, or of the default preset."""
    p = params or AndaParams()
    d = Diagram(
        "anda",
        "Block diagram of the Anda accelerator: buffers of bit planes feed an array of bit-serial"
        " units; results go through the compressor, or the vector unit, back to the buffer.",
        1010,
        430,
    )
    _control(d, p)
    _buffers(d, p)
    _matrix(d, p)
    _back(d, p)
    return d


def _control(d: Diagram, p: AndaParams) -> None:
    d.box(10, 15, 90, 70, "host", "registers,", "programs", kind="outside")
    d.arrow((100, 50), (150, 50), both=True)
    words = f"{p.instructions:,} instructions, counters, address generation"
    d.box(150, 15, 850, 70, "controller", words)
    for x in (220, 470, 760):
        d.arrow((x, 85), (x, 120))


def _buffers(d: Diagram, p: AndaParams) -> None:
    d.box(
        *(10, 120, 90, 300, "memory", f"{p.memory_channels} channels,"),
        *(f"{p.line_bytes}-byte", "lines"),
        kind="outside",
    )
    d.box(150, 120, 140, 300, "DMA", f"{p.memory_channels} x {p.dma_lines} requests", "outstanding")
    d.arrow((100, 270), (150, 270), both=True)
    planes = p.activation_rows * p.row_bits(Memory.ACTIVATIONS) // 8
    exponents = p.activation_rows * p.rows * EXPONENT_BYTE // 8
    d.box(
        *(350, 120, 240, 100),
        *("activation buffer", f"{p.rows} banks, {_size(planes)} of planes"),
        f"{_size(exponents)} of exponents",
        kind="memory",
    )
    weights = p.weight_rows * p.row_bits(Memory.WEIGHTS) // 8
    scales = p.scale_rows * p.row_bits(Memory.SCALES) // 8
    d.box(
        *(350, 320, 240, 100),
        *("weight buffer", f"{_size(weights)} of int{p.weight_bits} planes"),
        f"{_size(scales)} of scales",
        kind="memory",
    )
    d.arrow((290, 150), (350, 150), both=True)
    d.arrow((290, 370), (350, 370))


def _matrix(d: Diagram, p: AndaParams) -> None:
    d.frame(650, 235, 350, 185)
    d.title(662, 255, "matrix unit")
    d.box(665, 268, 120, 60, "activations", "planes, by row")
    d.box(665, 345, 120, 60, "weights", "double-buffered")
    d.box(
        830,
        268,
        155,
        137,
        f"{p.rows} x {p.columns} APUs",
        f"groups of {p.group}",
        "M + 1 cycles/group",
    )
    d.arrow((785, 298), (830, 298))
    d.arrow((785, 375), (830, 375))
    d.arrow((470, 220), (470, 298), (665, 298))
    d.arrow((590, 375), (665, 375))


def _back(d: Diagram, p: AndaParams) -> None:
    d.box(650, 120, 150, 45, "vector unit", f"{p.rows} x {p.vector.row_lanes} fp16 per cycle")
    d.box(650, 175, 150, 45, "compressor", f"{p.rows} lanes")
    d.arrow((590, 142), (650, 142), both=True)
    d.arrow((650, 197), (590, 197))
    d.arrow((907, 268), (907, 197), (800, 197))
    d.note(862, 190, "fp16 results")


def _size(count: int) -> str:
    if count >= 1 << 20:
        return f"{count / (1 << 20):g} MB"
    return f"{count / 1024:g} KB"
