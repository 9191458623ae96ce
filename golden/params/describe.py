"""A block as plain data: contract, fields, ports and timing, from the parameter object alone."""

import inspect
import re
from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from typing import Any, get_type_hints

from tilewright.golden.params.block import BlockParams, Field, Port, Wire
from tilewright.golden.params.formats import FLOAT_FORMATS, FloatFormat


@dataclass(frozen=True)
class PresetDescription:
    """A named choice of all fields, and the module that it becomes."""

    name: str
    module: str


@dataclass(frozen=True)
class FieldDescription:
    """One parameter: its value here, its default and what ``FIELD=VALUE`` accepts."""

    name: str
    value: int | str
    default: int | str
    type: str


@dataclass(frozen=True)
class PortDescription:
    """A stream port and what it carries."""

    name: str
    bits: int
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class TimingDescription:
    """Cycles from input to output and from one input to the next.

    Both are None where they depend on the data, and ``note`` says how.
    """

    latency_cycles: int | None
    interval_cycles: float | None
    note: str | None = None

    @property
    def interval_text(self) -> str | None:
        """The interval as a whole number or a fraction, such as ``5/3``."""
        if self.interval_cycles is None:
            return None
        return str(Fraction(self.interval_cycles).limit_denominator(1000))


@dataclass(frozen=True)
class BlockDescription:
    """A block as its parameter object describes it."""

    block: str
    summary: str
    contract: str | None
    name: str  # of its module
    presets: tuple[PresetDescription, ...]
    fields: tuple[FieldDescription, ...]
    inputs: tuple[PortDescription, ...]
    outputs: tuple[PortDescription, ...]
    wires: tuple[Wire, ...]
    timing: TimingDescription


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


def describe(params: BlockParams) -> BlockDescription:
    """Describe one block: contract, fields, ports and timing."""
    cls, values, defaults = type(params), params.as_dict(), type(params)().as_dict()
    hints = get_type_hints(cls)
    return BlockDescription(
        block=params.block,
        summary=params.summary,
        contract=inspect.getdoc(cls),
        name=params.slug,
        presets=tuple(PresetDescription(name, cls.preset(name).slug) for name in cls.PRESETS),
        fields=tuple(
            FieldDescription(f.name, values[f.name], defaults[f.name], _type(hints[f.name]))
            for f in fields(cls)
        ),
        inputs=_ports(params.inputs),
        outputs=_ports(params.outputs),
        wires=params.wires,
        timing=_timing(params),
    )


def _timing(params: BlockParams) -> TimingDescription:
    try:
        latency, interval = params.timing.latency, params.timing.interval
    except NotImplementedError as reason:  # depends on the data
        return TimingDescription(None, None, str(reason))
    whole = interval == int(interval)
    return TimingDescription(latency, int(interval) if whole else float(interval))


def _type(hint: Any) -> str:
    """The values that ``FIELD=VALUE`` accepts."""
    if hint is FloatFormat:
        return "|".join(FLOAT_FORMATS)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "|".join(str(member.value) for member in hint)
    if hint is bool:
        return "true|false"
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _ports(ports: tuple[Port, ...]) -> tuple[PortDescription, ...]:
    return tuple(PortDescription(p.name, p.bits, p.fields) for p in ports)
