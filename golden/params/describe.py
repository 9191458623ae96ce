"""A block as plain data: contract, fields, ports and timing, from the parameter object alone."""

import inspect
from dataclasses import fields
from enum import Enum
from typing import Any, get_type_hints

from tilewright.golden.params.block import BlockParams, Port
from tilewright.golden.params.formats import FLOAT_FORMATS, FloatFormat

__all__ = ["describe", "family"]


def family(cls: type[BlockParams]) -> str:
    """The folder of ``hw`` that a block lives in, also its module of golden.params."""
    return cls.__module__.rpartition(".")[2]


def describe(params: BlockParams) -> dict[str, Any]:
    """One block as plain data: contract, fields, ports and timing."""
    cls, values, defaults = type(params), params.as_dict(), type(params)().as_dict()
    hints = get_type_hints(cls)
    return {
        "block": params.block,
        "summary": params.summary,
        "contract": inspect.getdoc(cls),
        "name": params.slug,
        "presets": {name: cls.preset(name).slug for name in cls.PRESETS},
        "fields": [
            {
                "name": f.name,
                "value": values[f.name],
                "default": defaults[f.name],
                "type": _type(hints[f.name]),
            }
            for f in fields(cls)
        ],
        "inputs": [_port(p) for p in params.inputs],
        "outputs": [_port(p) for p in params.outputs],
        "wires": [{"name": w.name, "bits": w.bits, "output": w.output} for w in params.wires],
        "timing": _timing(params),
    }


def _timing(params: BlockParams) -> dict[str, Any]:
    try:
        return {"latency": params.timing.latency, "interval": str(params.timing.interval)}
    except NotImplementedError as reason:  # depends on the data
        return {"note": str(reason)}


def _type(hint: Any) -> str:
    """What ``FIELD=VALUE`` accepts."""
    if hint is FloatFormat:
        return "|".join(FLOAT_FORMATS)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "|".join(str(member.value) for member in hint)
    if hint is bool:
        return "true|false"
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _port(port: Port) -> dict[str, Any]:
    return {
        "name": port.name,
        "bits": port.bits,
        "fields": [
            {"name": f.name, "bits": f.bits, "count": f.count, "signed": f.signed}
            for f in port.fields
        ],
    }
