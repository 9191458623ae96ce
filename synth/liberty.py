"""Liberty text of a technology, as Yosys and ABC read it.

Tables have three slews and loads, though an arc is a plane: ABC's mapper works at the slew a third
into the axis and takes the slope of the delay from the first load to the last but one.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tilewright.base.cache import cache_folder
from tilewright.base.files import write_atomic
from tilewright.synth.technology import Arc, Cell, Plane, Technology

_SENSE = {"+": "positive_unate", "-": "negative_unate", "*": "non_unate"}


def to_liberty(technology: Technology, *, gates: bool = False) -> str:
    """The library without weak cells; ``gates`` adds clock gates, which no mapper uses."""
    cells = technology.cells.values()
    taken = [cell for cell in cells if not cell.weak and (gates or cell.clock_gate is None)]
    return library(technology.name, technology, taken)


def library(
    name: str, technology: Technology, cells: Iterable[Cell], buses: Mapping[str, int] | None = None
) -> str:
    """A library of ``cells``; pins in ``buses``, which memories have, are of so many bits each.

    Memories have no limits of load and slew: a flow would repair what only a stub asks for.
    """
    low, high = technology.slew_thresholds
    lines = [
        f"library ({name}) {{",
        "  delay_model : table_lookup;",
        '  time_unit : "1ps";',
        '  voltage_unit : "1V";',
        '  current_unit : "1mA";',
        '  leakage_power_unit : "1nW";',
        '  pulling_resistance_unit : "1kohm";',
        "  capacitive_load_unit (1, ff);",
        f"  nom_voltage : {_number(technology.supply)};",
        f"  nom_temperature : {_number(technology.temperature)};",
        "  nom_process : 1;",
        *([] if buses else [f"  default_max_transition : {_number(technology.max_slew)};"]),
        "  lu_table_template (table) {",
        "    variable_1 : input_net_transition;",
        "    variable_2 : total_output_net_capacitance;",
        '    index_1 ("0, 1, 2");',
        '    index_2 ("0, 1, 2");',
        "  }",
    ]
    for edge in ("rise", "fall"):
        lines += [
            f"  input_threshold_pct_{edge} : 50;",
            f"  output_threshold_pct_{edge} : 50;",
            f"  slew_lower_threshold_pct_{edge} : {_number(low)};",
            f"  slew_upper_threshold_pct_{edge} : {_number(high)};",
        ]
    for bits in sorted(set((buses or {}).values())):
        lines += [
            f"  type (bus{bits}) {{ base_type : array; data_type : bit; bit_width : {bits};",
            f"    bit_from : {bits - 1}; bit_to : 0; downto : true; }}",
        ]
    for cell in cells:
        lines += _cell(cell, (0.0, technology.map_slew, technology.max_slew), buses or {})
    return "\n".join([*lines, "}", ""])


def cached_liberty(technology: Technology) -> Path:
    """A file with :func:`to_liberty`'s text, in the user's cache, named by its content."""
    text = to_liberty(technology)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = cache_folder("liberty") / f"{technology.name}-{digest}.lib"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text)
    return path


def _cell(cell: Cell, slews: tuple[float, ...], buses: Mapping[str, int]) -> Iterator[str]:
    def pin_group(pin: str) -> Iterator[str]:
        if pin in buses:
            yield f"    bus ({pin}) {{"
            yield f"      bus_type : bus{buses[pin]};"
        else:
            yield f"    pin ({pin}) {{"

    yield f"  cell ({cell.name}) {{"
    yield f"    area : {_number(cell.area)};"
    yield f"    cell_leakage_power : {_number(cell.leakage)};"
    if cell.memory_bits:
        yield "    is_macro_cell : true;"
        yield "    interface_timing : true;"
    elif cell.clock_gate is None:
        yield from _state(cell)
    else:
        yield "    clock_gating_integrated_cell : latch_posedge;"
    for pin, capacitance in cell.inputs.items():
        yield from pin_group(pin)
        yield "      direction : input;"
        yield f"      capacitance : {_number(capacitance)};"
        if pin == cell.clock_pin:
            yield "      clock : true;"
        if cell.clock_gate is not None:
            gate = {cell.clock_pin: "clock", cell.clock_gate.enable: "enable"}
            yield f"      clock_gate_{gate.get(pin, 'test')}_pin : true;"
        edge = "rising" if _rising(cell) else "falling"
        for kind, limits in (("setup", cell.setup), ("hold", cell.hold)):
            if pin in limits:
                yield "      timing () {"
                yield f"        related_pin : {cell.clock_pin};"
                yield f"        timing_type : {kind}_{edge};"
                for constraint in ("rise_constraint", "fall_constraint"):
                    value = _number(limits[pin])
                    yield f'        {constraint} (scalar) {{ values ("{value}"); }}'
                yield "      }"
        yield "    }"
    for pin, function in cell.outputs.items():
        yield from pin_group(pin)
        yield "      direction : output;"
        if cell.clock_gate is not None:
            yield "      clock_gate_out_pin : true;"
        elif function:
            yield f'      function : "{function}";'
        if cell.max_load is not None and not cell.memory_bits:
            yield f"      max_capacitance : {_number(cell.max_load)};"
        for arc in cell.arcs:
            if arc.target == pin:
                yield from _timing(cell, arc, slews)
        yield "    }"
    yield "  }"


def _state(cell: Cell) -> Iterator[str]:
    state = cell.state
    if state is None:
        return
    kind, clock, data = (
        ("latch", "enable", "data_in") if state.latch else ("ff", "clocked_on", "next_state")
    )
    yield f"    {kind} ({', '.join(state.names)}) {{"
    yield f'      {clock} : "{state.clock}";'
    yield f'      {data} : "{state.data}";'
    for name, value in (("clear", state.clear), ("preset", state.preset)):
        if value is not None:
            yield f'      {name} : "{value}";'
    if state.clear is not None and state.preset is not None:
        yield "      clear_preset_var1 : L;"
        yield "      clear_preset_var2 : L;"
    yield "    }"


def _rising(cell: Cell) -> bool:
    """Whether data must arrive before the rising edge; it must where a gate lets pulses pass."""
    gate = cell.clock_gate is not None
    return gate or cell.state is None or not cell.state.clock.startswith("!")


def _timing(cell: Cell, arc: Arc, slews: tuple[float, ...]) -> Iterator[str]:
    yield "      timing () {"
    yield f"        related_pin : {arc.source};"
    yield f"        timing_sense : {_SENSE[arc.sense]};"
    if arc.source == cell.clock_pin and cell.clock_gate is None:
        yield f"        timing_type : {'rising' if _rising(cell) else 'falling'}_edge;"
    else:
        yield "        timing_type : combinational;"
    assert cell.max_load is not None, f"{cell.name}: a cell with timing has a largest load"
    loads = (0.0, cell.max_load / 2, cell.max_load)
    for name, surface in (
        ("cell_rise", arc.rise.delay),
        ("rise_transition", arc.rise.slew),
        ("cell_fall", arc.fall.delay),
        ("fall_transition", arc.fall.slew),
    ):
        assert isinstance(surface, Plane), "tables of Liberty files are used from those files"
        rows = [_quoted(surface.at(slew, load) for load in loads) for slew in slews]
        yield f"        {name} (table) {{"
        yield f"          index_1 ({_quoted(slews)});"
        yield f"          index_2 ({_quoted(loads)});"
        yield f"          values ({', '.join(rows)});"
        yield "        }"
    yield "      }"


def _quoted(values: Iterable[float]) -> str:
    return '"' + ", ".join(map(_number, values)) + '"'


def _number(value: float) -> str:
    return f"{value:.7g}"
