"""The DECA processing element as Figure 10 of the paper shows it, with our names and sizes."""

from tilewright.golden.params.deca import LUT_ENTRIES, SUB_LUTS, TILE_BYTES, DecaParams
from tilewright.report.diagram import Diagram

__all__ = ["draw"]


def draw(params: DecaParams | None = None) -> Diagram:
    """Draw the PE with the sizes of ``params``, or of the default preset."""
    p = params or DecaParams()
    d = Diagram(
        "deca",
        "Block diagram of the DECA processing element: two loaders fetch compressed tiles, one"
        " pipeline looks codes up, expands and scales them, two tile outputs hold the result.",
        1010,
        475,
    )
    _surroundings(d, p)
    _loaders(d, p)
    _pipeline(d, p)
    return d


def _surroundings(d: Diagram, p: DecaParams) -> None:
    d.box(10, 15, 90, 215, "memory", f"{p.line_bytes}-byte", "lines", kind="outside")
    d.box(130, 410, 140, 52, "prefetcher", f"0..{p.max_prefetch_degree} tiles ahead")
    d.arrow((130, 436), (55, 436), (55, 230))
    d.box(560, 410, 230, 52, "control registers", "configuration, table, status")
    d.frame(880, 15, 120, 447)
    d.title(892, 35, "core")
    d.box(892, 60, 96, 84, "TEPL unit", f"{p.tepl_entries} entries", "2 ports")
    d.box(892, 410, 96, 40, "loads, stores", kind="outside")
    d.arrow((892, 436), (790, 436), both=True)
    d.box(892, 330, 96, 40, "tile registers", kind="outside")


def _loaders(d: Diagram, p: DecaParams) -> None:
    d.frame(130, 15, 660, 208, copies=p.loaders)
    d.title(142, 35, f"loader (there are {p.loaders})")
    d.arrow((100, 125), (150, 125), both=True)
    d.box(150, 50, 130, 150, "load unit", f"{p.cam_entries}-entry CAM", "responses", "in any order")
    queues = {
        "bitmask queue": p.mask_queue_lines,
        "scale queue": p.scale_queue_lines,
        "SQQ": p.sqq_lines,
    }
    for k, (name, lines) in enumerate(queues.items()):
        y = 50 + 54 * k
        d.arrow((280, y + 21), (325, y + 21))
        d.box(325, y, 130, 42, name, _size(lines * p.line_bytes), kind="memory")
        d.arrow((455, y + 21), (500, y + 21))
    d.box(500, 50, 270, 42, "popcount, prefix sum", "windows and distances")
    d.arrow((635, 92), (635, 104))
    d.box(500, 104, 270, 96, "checks and alignment", "lengths, free rows, arrived lines")
    d.arrow((892, 90), (797, 90))
    d.note(843, 84, "commands,")
    d.note(843, 105, "squash")
    d.note(390, 256, "steps: codes, scales, bitmask, distances; one per cycle")


def _pipeline(d: Diagram, p: DecaParams) -> None:
    d.frame(120, 282, 520, 110)
    d.title(160, 304, f"pipeline (there is one): {p.lanes} lanes")
    d.arrow((635, 200), (635, 262), (140, 262), (140, 349), (160, 349))
    d.box(
        *(160, 318, 120, 62),
        *("LUT array", f"{p.luts} x {SUB_LUTS} x {LUT_ENTRIES // SUB_LUTS}", "dequantisation"),
        kind="memory",
    )
    d.arrow((280, 349), (300, 349))
    d.box(300, 326, 36, 46, "SD")
    d.arrow((336, 349), (356, 349))
    d.box(356, 318, 100, 62, "crossbar", "expansion")
    d.arrow((456, 349), (476, 349))
    d.box(476, 326, 36, 46, "DD")
    d.arrow((512, 349), (532, 349))
    d.box(532, 318, 92, 62, "scaler", "bf16 x scale")
    d.frame(680, 310, 110, 70, copies=p.loaders)
    d.box(692, 322, 86, 46, "TOut", _size(TILE_BYTES), kind="memory")
    d.arrow((624, 349), (692, 349))
    d.arrow((797, 349), (892, 349))
    d.note(843, 343, "rows")


def _size(count: int) -> str:
    return f"{count // 1024} KB" if count >= 1024 else f"{count} B"
