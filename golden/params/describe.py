"""A block as plain data: contract, fields, ports and timing; and the values of fields as text."""

import inspect
import re
import types
from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from typing import Any, Union, get_args, get_origin, get_type_hints

from tilewright.golden.params.block import BlockParams, Field, Port, Wire
from tilewright.golden.params.formats import FLOAT_FORMATS, FloatFormat, float_format

MOST = 1 << 20  # of any field: a block of more is written for hours


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
