"""A header for the C++ host of an accelerator, written from its parameters."""

from collections.abc import Iterable
from enum import IntEnum

from tilewright.golden.params.block import Field, Port
from tilewright.golden.params.machine import (
    CONTROL_FIELDS,
    INSTRUCTION_BASE,
    STATUS_FIELDS,
    MachineParams,
    Register,
)

CHANNEL_PORTS = ("request", "response", "write", "written")


def machine_header(params: MachineParams, counter: type[IntEnum]) -> str:
    """Sizes, registers, fields of all payloads, and ``Ports``, the wires of the model.

    Constants of a field are named after port and field, such as ``RESPONSE_TAG``; the channels'
    ports, which are alike, have them once.
    """
    ports = {port.name: port for port in (*params.inputs, *params.outputs)}
    channels = range(params.memory_channels)
    kinds = {
        name: [ports.pop(params.memory_port(name, c)) for c in channels] for name in CHANNEL_PORTS
    }
    every = {name: alike[0] for name, alike in kinds.items()} | ports
    lines = [
        "// Written from the parameters of the accelerator (tilewright.verify.native.header).",
        "#pragma once",
        "#include <type_traits>",
        '#include "Vtop.h"',
        '#include "stream.h"',
        _constant("CHANNELS", params.memory_channels),
        _constant("LINE_BYTES", params.line_bytes),
        _constant("COUNTERS", len(counter)),
        _constant("COUNTER_BASE", Register.COUNTERS),
        _constant("INSTRUCTION_BASE", INSTRUCTION_BASE),
        *(_constant(r.name, r) for r in Register if r is not Register.COUNTERS),
        *_fields("control", CONTROL_FIELDS),
        *_fields("status", STATUS_FIELDS),
    ]
    for name, port in every.items():
        wire = _wire(port, "payload")
        lines += _fields(name, port.fields)
        lines.append(f"using {_type(name)} = std::remove_reference_t<decltype(Vtop::{wire})>;")
    lines += [
        "struct Ports {",
        "    CData &clk, &rst;",
        *(f"    Port<{_type(name)}> {name}[CHANNELS];" for name in kinds),
        *(f"    Port<{_type(name)}> {name};" for name in ports),
        "    explicit Ports(Vtop& top)",
        "        : clk(top.clk), rst(top.rst)",
        *(f"        , {name}{{{', '.join(map(_wires, alike))}}}" for name, alike in kinds.items()),
        *(f"        , {name}{_wires(port)}" for name, port in ports.items()),
        "    {}",
        "};",
    ]
    return "\n".join(lines) + "\n"


def _constant(name: str, value: int) -> str:
    return f"constexpr int {name} = {int(value)};"


def _fields(name: str, fields: Iterable[Field]) -> list[str]:
    lines, low = [], 0
    for field in fields:
        bits = field.total_bits
        lines.append(f"constexpr Field {f'{name}_{field.name}'.upper()}{{{low}, {bits}}};")
        low += bits
    return lines


def _type(name: str) -> str:
    return name.title().replace("_", "") + "Payload"


def _wires(port: Port) -> str:
    """The wires of a stream, in the order of the C++ ``Port``."""
    parts = (f"top.{_wire(port, part)}" for part in ("valid", "ready", "payload"))
    return f"{{{', '.join(parts)}}}"


def _wire(port: Port, part: str) -> str:
    """Verilator's spelling: it reserves two underscores."""
    return f"{port.name}__{part}".replace("__", "___05F")
