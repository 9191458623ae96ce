"""From a string such as ``float_mul:fp16,latency=2`` to the parameter object it names."""

import os
from dataclasses import fields
from importlib import import_module
from typing import Any, TypeVar, get_type_hints

from tilewright.golden.params.anda import ANDA_BLOCKS
from tilewright.golden.params.anda_machine import ANDA_MACHINE_BLOCKS, AndaAxiParams
from tilewright.golden.params.arith import ARITH_BLOCKS
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.deca import DECA_BLOCKS
from tilewright.golden.params.describe import parse
from tilewright.golden.params.harmonia import HARMONIA_BLOCKS
from tilewright.golden.params.harmonia_machine import HARMONIA_MACHINE_BLOCKS, HarmoniaAxiParams
from tilewright.golden.params.names import unknown
from tilewright.golden.params.pe import PE_BLOCKS
from tilewright.golden.params.stream import STREAM_BLOCKS
from tilewright.golden.params.vector import VECTOR_BLOCKS

_ALL: tuple[type[BlockParams], ...] = (
    *STREAM_BLOCKS,
    *ARITH_BLOCKS,
    *DECA_BLOCKS,
    *ANDA_BLOCKS,
    *VECTOR_BLOCKS,
    *ANDA_MACHINE_BLOCKS,
    AndaAxiParams,
    HarmoniaAxiParams,
    *PE_BLOCKS,
    *HARMONIA_BLOCKS,
    *HARMONIA_MACHINE_BLOCKS,
)

P = TypeVar("P", bound=BlockParams)
BLOCKS: dict[str, type[BlockParams]] = {cls.block: cls for cls in _ALL}


# Modules that register further blocks, separated by commas; child processes read it too.
MODULES_VARIABLE = "TILEWRIGHT_BLOCKS"


class UnknownNameError(ValueError):
    """A block, preset or field that does not exist; the message lists near matches."""


def resolve(text: str) -> BlockParams:
    """``BLOCK[:PRESET][,FIELD=VALUE]...`` as a parameter object.

    A field that is a block has the value ``BLOCK[:PRESET]``, its fields are ``FIELD.NAME=VALUE``.
    """
    head, *settings = text.split(",")
    name, _, preset = head.partition(":")
    cls = BLOCKS.get(name)
    if cls is None:
        raise UnknownNameError(unknown("block", name, BLOCKS))
    if preset and preset not in cls.PRESETS:
        raise UnknownNameError(unknown(f"preset of {name}", preset, cls.PRESETS))
    hints = get_type_hints(cls)
    known = {f.name: hints[f.name] for f in fields(cls)}
    changes: dict[str, Any] = {}
    inner: dict[str, list[str]] = {}  # settings of fields that are blocks
    for setting in settings:
        key, equals, value = setting.partition("=")
        key, dot, rest = key.partition(".")
        if not equals:
            raise ValueError(f"{text!r}: expected FIELD=VALUE, not {setting!r}")
        if key not in known:
            raise UnknownNameError(unknown(f"field of {name}", key, known))
        is_block = isinstance(known[key], type) and issubclass(known[key], BlockParams)
        if dot and not is_block:
            raise ValueError(f"{key} is no block: expected {key}=VALUE, not {setting!r}")
        if dot:
            inner.setdefault(key, []).append(f"{rest}={value}")
        else:
            changes[key] = value if is_block else parse(key, known[key], value)
            if is_block:
                inner.setdefault(key, [])
    for key, own in inner.items():
        if key not in changes:
            raise ValueError(f"{key}.{own[0]} needs {key}=BLOCK")
        try:
            changes[key] = resolve(",".join([changes[key], *own]))
        except ValueError as error:
            raise type(error)(f"{key}: {error}") from None
    return cls.preset(preset, **changes)


def resolve_as(kind: type[P], text: str) -> P:
    """:func:`resolve` for a caller that takes one block alone, of any size."""
    params = resolve(text)
    if not isinstance(params, kind) or params.block != kind.block:
        raise ValueError(f"block must be {kind.block}, not {params.block}")
    return params


def register(cls: type[BlockParams]) -> None:
    """Make a block from outside the catalogue known by its name.

    Its module joins ``$TILEWRIGHT_BLOCKS``, so that child processes (simulators, pools of workers)
    import it and know the block too. Set from a shell, the variable does the same for every
    command: ``TILEWRIGHT_BLOCKS=my_module tilewright simulate my_block``.
    """
    present = BLOCKS.setdefault(cls.block, cls)
    if (present.__module__, present.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(f"block {cls.block} is already that of {present.__module__}")
    modules = registered_modules()
    if cls.__module__ not in modules:
        os.environ[MODULES_VARIABLE] = ",".join([*modules, cls.__module__])


def registered_modules() -> list[str]:
    return [name for name in os.environ.get(MODULES_VARIABLE, "").split(",") if name]


# At the end, because these modules import this one.
for _name in registered_modules():
    try:
        import_module(_name)
    except ModuleNotFoundError as error:
        raise ValueError(f"{MODULES_VARIABLE} names {_name!r}: {error}") from error
