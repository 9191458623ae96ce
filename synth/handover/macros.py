"""Memory macros as other flows see them: LEF and Liberty stubs, and an empty layout.

Area and timing are those of the technology's model of memories (``tilewright.synth.memory``). There
is no layout: a stub reserves the place of a macro and gives its pins and timing. For a chip, use a
memory compiler's macro with the same pins.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.synth.liberty import library
from tilewright.synth.memory import MemoryMacro, macro_cell
from tilewright.synth.technology import Technology


@dataclass(frozen=True)
class PinLayers:
    """Placement of macro pins in a technology; lengths in um."""

    pins: str  # the layer of pins, whose wires run horizontally
    pitch: float  # pitch of its tracks
    width: float  # width of its wires
    blocked: tuple[str, ...]  # layers that the macro takes for itself
    power: str  # the layer of the supply pins
    site: tuple[float, float]  # width and height: the macro is a whole number of these
    boundary: tuple[int, int]  # layer and purpose of outlines in a layout
    supplies: tuple[str, str]


LAYERS = {
    "asap7": PinLayers(
        "M4", 0.048, 0.024, ("M1", "M2", "M3"), "M4", (0.054, 0.27), (235, 5), ("VDD", "VSS")
    ),
    "sky130hd": PinLayers(
        "met3", 0.68, 0.3, ("li1", "met1", "met2"), "met3", (0.46, 2.72), (235, 4), ("VPWR", "VGND")
    ),
}


def macro_size(macro: MemoryMacro, technology: Technology) -> tuple[float, float]:
    """Width and height (um): the area of the model, as square as pins and sites allow."""
    layers, area = LAYERS[technology.name], macro_cell(macro, technology).area
    site_width, site_height = layers.site
    # Inputs are on the left edge and outputs on the right, at every other track; a supply pin runs
    # along the bottom and one along the top.
    tall = 2 * layers.pitch * (max(1 + sum(macro.inputs.values()), macro.width) + 4)
    height = max(area**0.5, tall)
    height = site_height * -(-height // site_height)
    return site_width * -(-(area / height) // site_width), height


def macro_lef(macro: MemoryMacro, technology: Technology) -> str:
    """The abstract view: outline, pins and what is blocked."""
    layers = LAYERS[technology.name]
    width, height = macro_size(macro, technology)
    lines = [
        "VERSION 5.8 ;",
        'BUSBITCHARS "[]" ;',
        'DIVIDERCHAR "/" ;',
        f"MACRO {macro.name}",
        "  CLASS BLOCK ;",
        f"  FOREIGN {macro.name} 0 0 ;",
        "  ORIGIN 0 0 ;",
        f"  SIZE {width:.3f} BY {height:.3f} ;",
        "  SYMMETRY X Y ;",
    ]
    for k, (pin, use) in enumerate(_inputs(macro)):
        y = layers.pitch * (2 * k + 4)
        lines += _pin(pin, "INPUT", use, layers.pins, (0.0, y, 4 * layers.width, y + layers.width))
    for k in range(macro.width):
        y = layers.pitch * (2 * k + 4)
        box = (width - 4 * layers.width, y, width, y + layers.width)
        lines += _pin(f"read_data[{k}]", "OUTPUT", "SIGNAL", layers.pins, box)
    low = layers.width
    for name, use, y in (
        (layers.supplies[0], "POWER", height - 2 * low),
        (layers.supplies[1], "GROUND", low),
    ):
        lines += _pin(name, "INOUT", use, layers.power, (0.0, y, width, y + low))
    lines += ["  OBS"]
    for layer in layers.blocked:
        lines += [f"    LAYER {layer} ;", f"      RECT 0 0 {width:.3f} {height:.3f} ;"]
    return "\n".join([*lines, "  END", f"END {macro.name}", "END LIBRARY", ""])


def _inputs(macro: MemoryMacro) -> Iterator[tuple[str, str]]:
    yield "clk", "CLOCK"
    for port, bits in macro.inputs.items():
        yield from ((f"{port}[{k}]", "SIGNAL") for k in range(bits))


_Box = tuple[float, float, float, float]


def _pin(name: str, direction: str, use: str, layer: str, box: _Box) -> list[str]:
    return [
        f"  PIN {name}",
        f"    DIRECTION {direction} ;",
        f"    USE {use} ;",
        "    PORT",
        f"      LAYER {layer} ;",
        f"        RECT {' '.join(f'{value:.3f}' for value in box)} ;",
        "    END",
        f"  END {name}",
    ]


def macro_liberty(macro: MemoryMacro, technology: Technology) -> str:
    """Timing and pin loads: setup before the clock, data an access time after."""
    cell, output = macro_cell(macro, technology), "read_data"
    most = technology.cells[technology.drive_cell].max_load or 100.0
    stub = replace(
        cell,
        inputs=dict.fromkeys(("clk", *macro.inputs), cell.inputs["clk"]),
        outputs={output: ""},
        arcs=(replace(cell.arcs[0], target=output),),
        max_load=most,
        setup={port: cell.setup[f"{port}[0]"] for port in macro.inputs},
        hold=dict.fromkeys(macro.inputs, 0.0),
    )
    return library(macro.name, technology, [stub], {**macro.inputs, output: macro.width})


def macro_gds(macro: MemoryMacro, technology: Technology) -> bytes:
    """A layout of the outline alone, for flows that ask for one (GDSII, 1 nm units)."""
    width, height = (round(1000 * side) for side in macro_size(macro, technology))
    layer, purpose = LAYERS[technology.name].boundary
    corners = (0, 0, 0, height, width, height, width, 0, 0, 0)
    epoch = struct.pack(">12h", *(1970, 1, 1, 0, 0, 0) * 2)  # no date: the same bytes every day
    name = macro.name.encode() + b"\0" * (len(macro.name) % 2)
    records = (
        (0x0002, struct.pack(">h", 600)),  # HEADER
        (0x0102, epoch),  # BGNLIB
        (0x0206, name),  # LIBNAME
        (0x0305, bytes.fromhex("3e4189374bc6a7f0 3944b82fa09b5a54")),  # UNITS: 1e-3, 1e-9 m
        (0x0502, epoch),  # BGNSTR
        (0x0606, name),  # STRNAME
        (0x0800, b""),  # BOUNDARY
        (0x0D02, struct.pack(">h", layer)),
        (0x0E02, struct.pack(">h", purpose)),
        (0x1003, struct.pack(">10i", *corners)),  # XY
        (0x1100, b""),  # ENDEL
        (0x0700, b""),  # ENDSTR
        (0x0400, b""),  # ENDLIB
    )
    return b"".join(struct.pack(">HH", 4 + len(data), kind) + data for kind, data in records)
