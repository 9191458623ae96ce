"""The Harmonia accelerator as Figure 12 of the paper shows it, with our names and sizes."""

from tilewright.golden.params.harmonia_machine import HarmoniaParams, Memory
from tilewright.report.diagram import Diagram

__all__ = ["draw"]


def draw(params: HarmoniaParams | None = None) -> Diagram:
    """Draw the accelerator with the sizes of ``params``, or of the default preset."""
    p = params or HarmoniaParams()
    d = Diagram(
        "harmonia",
        "Block diagram of the Harmonia accelerator: activation and operand memories feed a systolic"
        " array; fp16 results pass the vector unit, or the K-offset generator and the converter,"
        " back to the memories.",
        1010,
        430,
    )
    _control(d, p)
    _memories(d, p)
    _array(d, p)
    _back(d, p)
    return d


def _control(d: Diagram, p: HarmoniaParams) -> None:
    d.box(10, 15, 90, 70, "host", "registers,", "programs", kind="outside")
    d.arrow((100, 50), (150, 50), both=True)
    d.box(150, 15, 440, 70, "controller", f"{p.instructions:,} instructions, counters")
    words = "column-major, row-major", "precision of the cache"
    d.box(650, 15, 350, 70, "dataflow", *words)
    d.arrow((590, 50), (650, 50), both=True)
    for x in (220, 470, 925):
        d.arrow((x, 85), (x, 120))


def _memories(d: Diagram, p: HarmoniaParams) -> None:
    d.box(
        *(10, 120, 90, 300, "memory", f"{p.memory_channels} channels,"),
        *(f"{p.line_bytes}-byte", "lines,", "KV cache"),
        kind="outside",
    )
    d.box(150, 120, 140, 300, "DMA", f"{p.memory_channels} x {p.dma_lines} requests", "outstanding")
    d.arrow((100, 270), (150, 270), both=True)
    activations = _size(p, Memory.MANTISSAS)
    metadata = _size(p, Memory.SIGNS, Memory.EXPONENTS)
    d.box(
        *(350, 120, 240, 85),
        *("activations", f"{activations} of 8-bit mantissas"),
        f"{metadata} of signs, exponents",
        kind="memory",
    )
    halves = _size(p, Memory.FP16)
    d.box(
        *(350, 227, 240, 85),
        *("fp16", f"{p.rows} banks, {halves}"),
        "results, scores, newest V group",
        kind="memory",
    )
    operands = _size(p, Memory.OPERANDS)
    metadata = _size(p, Memory.OPERAND_SIGNS, Memory.OPERAND_EXPONENTS, Memory.SCALES)
    d.box(
        *(350, 335, 240, 85),
        *("operands", f"{operands} of weights, K, V: 4-bit"),
        f"{metadata} of signs, exponents, scales",
        kind="memory",
    )
    for y in (162, 270, 378):
        d.arrow((290, y), (350, y), both=True)


def _array(d: Diagram, p: HarmoniaParams) -> None:
    d.box(
        *(850, 120, 150, 160),
        *(f"{p.rows} x {p.columns} PEs", f"groups of {p.group}"),
        *("M8W4, M8M4: 1 cycle", "M8M8: 2 cycles"),
    )
    d.arrow((590, 140), (850, 140))
    d.note(700, 133, "activations")
    d.arrow((590, 405), (925, 405), (925, 280))
    d.note(760, 398, "weights, K, V")


def _back(d: Diagram, p: HarmoniaParams) -> None:
    d.box(650, 227, 150, 40, "vector unit", f"{p.rows} x {p.word_values} fp16 per cycle")
    d.arrow((590, 247), (650, 247), both=True)
    d.arrow((850, 207), (620, 207), (620, 235), (590, 235))
    d.note(740, 200, "fp16 results")
    d.box(650, 287, 150, 40, "K offsets", f"{p.offsets} of {p.channels} channels")
    d.arrow((590, 300), (650, 300))
    d.box(650, 345, 150, 40, "converter", f"{p.rows} values per cycle")
    d.arrow((725, 327), (725, 345))
    d.arrow((650, 365), (590, 365))
    d.arrow((650, 355), (610, 355), (610, 180), (590, 180))


def _size(p: HarmoniaParams, *memories: Memory) -> str:
    count = sum(p.depth(memory) * p.row_bits(memory) for memory in memories) // 8
    return f"{count // 1024} KB"
