"""``tilewright list``: what there is, from the parameter objects alone."""

import argparse
from typing import TYPE_CHECKING

from tilewright.base.console import print_json, print_table
from tilewright.cli.options import BLOCK, adder
from tilewright.cli.tables import Columns, print_records
from tilewright.golden.params.block import BlockParams
from tilewright.golden.params.describe import describe, family, field_rows, timing_text
from tilewright.golden.params.resolve import BLOCKS, resolve

if TYPE_CHECKING:
    from tilewright.golden.params.llm import LlmShape

NAME = "list"
HELP = "list blocks, models or systems; or the fields of a block or a server"
EXAMPLE = "tilewright list float_mul:fp16"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = f"{BLOCK} of a block, or a server's name; models; or systems"
    adder(parser)("block WHAT", text, nargs="?")


def run(args: argparse.Namespace) -> int:
    if args.block is None:
        _print_all(args.json)
    elif args.block in ("models", "systems"):
        (_print_models if args.block == "models" else _print_systems)(args.json)
    elif _is_server(args.block):
        _print_server(args.block, args.json)
    else:
        _print_one(resolve(args.block), args.json)
    return 0


def _is_server(name: str) -> bool:
    from tilewright.sim.system import FOLDER

    return "/" not in name and (FOLDER / f"{name}.toml").exists()


def _print_all(as_json: bool) -> None:
    blocks = sorted(BLOCKS.values(), key=lambda cls: (family(cls), cls.block))
    rows = [
        {
            "family": family(cls),
            "block": cls.block,
            "summary": cls.summary,
            "presets": [*cls.PRESETS],
        }
        for cls in blocks
    ]
    columns: Columns = {
        **{"FAMILY": "family", "BLOCK": "block", "SUMMARY": "summary"},
        "PRESETS (FIRST IS THE DEFAULT)": lambda row: " ".join(row["presets"]),
    }
    print_json(rows) if as_json else print_records(rows, columns)


def _print_one(params: BlockParams, as_json: bool) -> None:
    about = describe(params)
    if as_json:
        print_json(about)
        return
    print(f"{params.block}: {params.summary}\n\n{about['contract']}\n")
    print(f"name: {params.slug}\n")
    print_table(("PRESET", "NAME"), [tuple(preset.values()) for preset in about["presets"]])
    print()
    print_table(("FIELD", "VALUE", "DEFAULT", "TYPE"), field_rows(params))
    if params.inputs or params.outputs:
        print()
        print_table(
            ("PORT", "PAYLOAD FIELD", "BITS", "COUNT", "SIGNED"),
            [
                (f"{port.name} {way}", f.name, f.bits, f.count or "", f.signed or "")
                for way, ports in (("in", params.inputs), ("out", params.outputs))
                for port in ports
                for f in port.fields
            ],
        )
    if params.wires:
        print()
        rows = [(w.name, "out" if w.output else "in", w.bits) for w in params.wires]
        print_table(("WIRE", "WAY", "BITS"), rows)
    print(f"\n{timing_text(params)}")


def _print_models(as_json: bool) -> None:
    """Print the shapes of all models of the table."""
    from tilewright.sim.models import model_names, published, resolve_model

    shapes = [resolve_model(name) for name in model_names()]
    if as_json:
        further = ("parameters", "active_parameters")
        rows = [vars(s) | {name: getattr(s, name) for name in further} for s in shapes]
        print_json([row | {"source": published(row["name"])["source"]} for row in rows])
        return
    columns: Columns = {
        **{"MODEL": "name", "TYPE": "model_type"},
        "PARAMETERS": lambda shape: f"{shape.parameters / 1e9:.3f} G",
        "FOR A TOKEN": lambda shape: f"{shape.active_parameters / 1e9:.3f} G",
        **{"LAYERS": "num_hidden_layers", "HIDDEN": "hidden_size"},
        **{"CONTEXT": "max_position_embeddings", "ATTENTION": _attention},
    }
    print_records(shapes, columns)


def _attention(shape: "LlmShape") -> str:
    """Say how many heads there are, what is cached for them and how far layers look back."""
    text = f"{shape.num_attention_heads} heads, "
    if shape.latent is not None:
        text += f"{shape.cached_per_token} values for all"
    else:
        text += f"{shape.num_key_value_heads} of {shape.head_dim} cached"
    if shape.sliding_window is not None and shape.sliding_layers:
        text += f", {shape.sliding_layers} layers see {shape.sliding_window}"
    return text


def _print_systems(as_json: bool) -> None:
    """Print the systems that the performance model has."""
    from tilewright.sim.accelerator import ACCELERATORS
    from tilewright.sim.system import servers
    from tilewright.sim.xeon import ENGINES

    rows: list[tuple[str, str, float, float, float]] = [
        (name, f"{s.cores} cores: {s.about}", s.clock, s.bandwidth, s.capacity)
        for name, s in servers().items()
    ]
    for name, make in ACCELERATORS.items():
        m = make()
        about = f"{m.rows} x {m.columns} PEs for groups of {m.group}"
        rows.append((name, about, m.clock, m.bandwidth, m.capacity))
    if as_json:
        keys = ("system", "what", "clock_hz", "bandwidth_bytes_per_second", "capacity_bytes")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    print_table(
        ("SYSTEM", "WHAT", "CLOCK GHZ", "BANDWIDTH GB/S", "CAPACITY GB"),
        [(*row[:2], *(f"{value / 1e9:g}" for value in row[2:])) for row in rows],
    )
    print(f"\nengines of a server, by --engine: {', '.join(ENGINES)}; fields: tilewright list NAME")


def _print_server(name: str, as_json: bool) -> None:
    """Print every field of a server, with its unit and the source of its value."""
    from tilewright.sim.system import QUANTITIES, servers, sources

    server, told = servers()[name], sources(name)
    rows = [
        (field, server.rate(field), quantity.unit, quantity.about, told[field])
        for field, quantity in QUANTITIES.items()
    ]
    if as_json:
        keys = ("field", "value", "unit", "what", "source")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    print(f"{name}: {server.about}\n")
    print_table(
        ("FIELD", "VALUE", "UNIT", "WHAT", "SOURCE"),
        [(row[0], f"{row[1]:g}", *row[2:]) for row in rows],
    )
