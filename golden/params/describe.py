"""A block as plain data: contract, fields, ports and timing; and the values of fields as text."""

import inspect
import re
import types
from dataclasses import fields
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from tilewright.golden.params.block import BlockParams, Port
from tilewright.golden.params.formats import FLOAT_FORMATS, FloatFormat, float_format

MOST = 1 << 20  # of any field: a block of more is written for hours


def comments(cls: type[Enum]) -> dict[str, str]:
    """The comment of each member of an enumeration, including lines that continue it."""
    found: dict[str, str] = {}
    name = ""
    for line in inspect.getsource(cls).splitlines():
        if member := re.match(r"    (\w+) = [^#]*(?:# (.*))?$", line):
            name = member[1]
            found[name] = member[2] or ""
        elif name and (more := re.match(r"    +# (.*)$", line)):
            found[name] += f" {more[1]}"
        else:
            name = ""
    return found


def family(cls: type[BlockParams]) -> str:
    """The folder of ``hw`` that a block lives in, also its module of golden.params."""
    return cls.__module__.rpartition(".")[2]


def describe(params: BlockParams) -> dict[str, Any]:
    """One block as JSON data: contract, fields, ports and timing."""
    cls = type(params)
    try:
        interval = params.timing.interval
        cycles = int(interval) if interval == int(interval) else float(interval)
        timing: dict[str, Any] = {"latency_cycles": params.timing.latency}
        timing |= {"interval_cycles": cycles, "note": None}
    except NotImplementedError as reason:
        timing = {"latency_cycles": None, "interval_cycles": None, "note": str(reason)}
    names = ("name", "value", "default", "type")
    return {
        "block": params.block,
        "summary": params.summary,
        "contract": inspect.getdoc(cls),
        "name": params.slug,
        "presets": [{"name": name, "module": cls.preset(name).slug} for name in cls.PRESETS],
        "fields": [dict(zip(names, row, strict=True)) for row in field_rows(params)],
        "inputs": _ports(params.inputs),
        "outputs": _ports(params.outputs),
        "wires": params.wires,
        "timing": timing,
    }


def field_rows(params: BlockParams) -> list[tuple[str, Any, Any, str]]:
    """Every field: its name, its value here, its default, and what ``FIELD=VALUE`` accepts."""
    cls, values, defaults = type(params), params.as_dict(), type(params)().as_dict()
    hints = get_type_hints(cls)
    return [(f.name, values[f.name], defaults[f.name], _type(hints[f.name])) for f in fields(cls)]


def timing_text(params: BlockParams) -> str:
    """Cycles from input to output and from one input to the next, or what they depend on."""
    try:
        timing = params.timing
    except NotImplementedError as reason:
        return str(reason)
    return f"latency {timing.latency}, interval {timing.interval} (cycles)"


def _type(hint: Any) -> str:
    if hint is FloatFormat:
        return "|".join(FLOAT_FORMATS)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "|".join(str(member.value) for member in hint)
    if hint is bool:
        return "true|false"
    if isinstance(hint, type) and issubclass(hint, BlockParams):
        return "BLOCK[:PRESET]"
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _ports(ports: tuple[Port, ...]) -> list[dict[str, Any]]:
    return [{"name": port.name, "bits": port.bits, "fields": port.fields} for port in ports]


def parse(key: str, kind: Any, text: str) -> Any:
    """The value of a field of this type, from text."""
    if get_origin(kind) in (Union, types.UnionType):
        options = get_args(kind)
        if type(None) in options and text == "none":
            return None
        kind = next(k for k in options if k is not type(None))
    if kind is FloatFormat:
        return float_format(text)
    if isinstance(kind, type) and issubclass(kind, Enum):
        for member in kind:
            if text == str(member.value):
                return member
        choices = ", ".join(str(m.value) for m in kind)
        raise ValueError(f"{key} must be one of {choices}, not {text!r}")
    if kind is bool:
        if text in ("true", "false"):
            return text == "true"
        raise ValueError(f"{key} must be true or false, not {text!r}")
    if kind is int:
        try:
            number = int(text, 0)
        except ValueError:
            raise ValueError(f"{key} must be a whole number, not {text!r}") from None
        if abs(number) > MOST:
            raise ValueError(f"{key} must be at most {MOST}, not {number}")
        return number
    if kind is str:
        return text
    raise TypeError(f"{key}: no way to read a {kind} from text")
