"""Cells of the same function in several drive strengths."""

from tilewright.synth.technology import Cell, Technology

__all__ = ["buffers", "sizes"]


def sizes(technology: Technology) -> dict[str, list[Cell]]:
    """All cells that do what a cell does, the smallest first, by the name of the cell.

    Without weak ones, clock gates and cells that have no input.
    """
    groups: dict[object, list[Cell]] = {}
    for cell in technology.cells.values():
        if cell.weak or cell.clock_gate is not None or not cell.inputs or not cell.arcs:
            continue
        key = (tuple(cell.inputs), tuple(cell.outputs.items()), cell.state, cell.clock_pin)
        groups.setdefault(key, []).append(cell)
    for group in groups.values():
        group.sort(key=lambda cell: (cell.area, cell.name))
    return {cell.name: group for group in groups.values() for cell in group}


def buffers(technology: Technology) -> list[Cell]:
    """The technology's buffers, the smallest first; the cell that drives inputs is one of them."""
    return sizes(technology)[technology.drive_cell]
