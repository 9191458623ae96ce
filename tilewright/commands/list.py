"""``tilewright list``: what there is, from the parameter objects alone."""

import argparse
import inspect
from dataclasses import fields
from enum import Enum
from typing import Any, get_type_hints

from golden.params.block import BlockParams, Port
from golden.params.formats import FLOAT_FORMATS, FloatFormat
from golden.params.resolve import BLOCKS, resolve
from tilewright.console import print_json, print_table

NAME = "list"
HELP = "list the blocks with their presets, or the fields, ports and timing of one"
EXAMPLE = "tilewright list float_mul:fp16"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "block", nargs="?", metavar="BLOCK", help="NAME[:PRESET][,FIELD=VALUE]... to describe"
    )


def run(args: argparse.Namespace) -> int:
    if args.block is None:
        _print_all(args.json)
    else:
        _print_one(describe(resolve(args.block)), args.json)
    return 0


def family(cls: type[BlockParams]) -> str:
    """The folder of ``hw`` that a block lives in, which is also its module of golden.params."""
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


def _print_all(as_json: bool) -> None:
    blocks = sorted(BLOCKS.values(), key=lambda cls: (family(cls), cls.block))
    if as_json:
        print_json(
            [
                {
                    "family": family(cls),
                    "block": cls.block,
                    "summary": cls.summary,
                    "presets": list(cls.PRESETS),
                }
                for cls in blocks
            ]
        )
    else:
        print_table(
            ("FAMILY", "BLOCK", "SUMMARY", "PRESETS (FIRST IS THE DEFAULT)"),
            [(family(cls), cls.block, cls.summary, " ".join(cls.PRESETS)) for cls in blocks],
        )


def _print_one(about: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(about)
        return
    print(f"{about['block']}: {about['summary']}\n\n{about['contract']}\n")
    print(f"name: {about['name']}\n")
    print_table(("PRESET", "NAME"), list(about["presets"].items()))
    print()
    print_table(
        ("FIELD", "VALUE", "DEFAULT", "TYPE"),
        [(f["name"], f["value"], f["default"], f["type"]) for f in about["fields"]],
    )
    if about["inputs"] or about["outputs"]:
        print()
        print_table(
            ("PORT", "PAYLOAD FIELD", "BITS", "COUNT", "SIGNED"),
            [
                (f"{port['name']} {way}", f["name"], f["bits"], f["count"] or "", f["signed"] or "")
                for way, ports in (("in", about["inputs"]), ("out", about["outputs"]))
                for port in ports
                for f in port["fields"]
            ],
        )
    if about["wires"]:
        print()
        print_table(
            ("WIRE", "WAY", "BITS"),
            [(w["name"], "out" if w["output"] else "in", w["bits"]) for w in about["wires"]],
        )
    timing = about["timing"]
    print()
    if "note" in timing:
        print(timing["note"])
    else:
        print(f"latency {timing['latency']}, interval {timing['interval']} (cycles)")
